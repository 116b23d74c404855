"""`python -m tests.sandbox SPEC`: a unit's ExecStart in the sandbox that its settings describe, without systemd.

Takes root on Linux and libseccomp. What of the settings is made: the file system (ProtectSystem=strict, ProtectHome,
PrivateTmp, a /dev with nothing but what every closed policy allows, the unit's directories, its credentials), the user,
PrivateUsers, no capability, no new privileges, the limits, and as seccomp filters SystemCallFilter,
RestrictAddressFamilies, MemoryDenyWriteExecute and RestrictNamespaces. Belongs here: that. Never: what runs in it has
to achieve.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from errno import EAFNOSUPPORT, ENOSYS, EPERM
from pathlib import Path

from tests.unit_file import UnitFile

UID = 64123
"""Nobody's on this machine."""
NAME = "vllm-governor.service"
SPECIAL = frozenset({"proc", "sys", "dev", "run", "tmp", "var", "etc", "home", "root"})
NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
ALLOW, EQUAL, MASKED_EQUAL = 0x7FFF0000, 4, 7
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
LAST_FAMILY = 46
PROT_WRITE, PROT_EXEC = 2, 4
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Spec:
    """What the sandbox is made of. Folders are this machine's, and stand where the unit's directories are."""

    unit: str
    program: list[str]
    """In place of ExecStart's first word."""
    system_calls: list[str]
    """The names that SystemCallFilter allows."""
    etc: str
    state: str
    runtime: str
    notify: str
    """Holds the manager's socket `notify`."""
    credentials: dict[str, str]
    visible: list[str]
    """What the program needs of folders that ProtectHome or PrivateTmp would hide: where tests have their Python."""
    environment: dict[str, str]

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


class Comparison(ctypes.Structure):
    """libseccomp's scmp_arg_cmp."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


class Filter:
    """One seccomp filter: everything is allowed but what a rule refuses, or nothing but what a rule allows."""

    def __init__(self, default: int) -> None:
        self._library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(default)))

    def rule(self, action: int, name: str, *comparisons: Comparison) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # this machine's kernel has no such call
            return
        array = (Comparison * len(comparisons))(*comparisons)
        self._check(
            self._library.seccomp_rule_add_array(
                self._context, ctypes.c_uint32(action), number, len(comparisons), array
            ),
            name,
        )

    def load(self) -> None:
        self._check(self._library.seccomp_load(self._context), "seccomp_load")

    def _check(self, answer: int, what: str) -> None:
        if answer != 0:
            raise OSError(-answer, f"{what}: {os.strerror(-answer)}")


def refuse(errno: int) -> int:
    """The action of a filter."""
    return 0x00050000 | errno


def main(spec: Spec) -> None:
    unit = UnitFile(Path(spec.unit))
    call("unshare", CLONE_NEWNS)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    root = Path(spec.state).with_name("root")
    root.mkdir()
    mount("tmpfs", root, "tmpfs")
    _file_system(root, spec)
    mount("none", root, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    os.chdir(root)
    call("pivot_root", b".", b".")  # within a chroot no user namespace may be made
    call("umount2", b".", MNT_DETACH)
    _limits(unit)
    _become(unit)
    if unit.one("NoNewPrivileges") == "yes":
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.umask(int(unit.one("UMask") or "022", 8))
    _filters(unit, spec.system_calls)
    arguments = (unit.one("ExecStart") or "").split()[1:]
    command = [*spec.program, *arguments]
    os.execve(command[0], command, _environment(unit, spec))


def _file_system(root: Path, spec: Spec) -> None:
    for path in Path("/").iterdir():
        if path.is_symlink():
            (root / path.name).symlink_to(path.readlink())
        elif path.is_dir() and path.name not in SPECIAL:
            bind(path, root / path.name, read_only=True)
    for name in ("proc", "sys"):
        bind(Path("/") / name, root / name, recursive=True)
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore=shutil.ignore_patterns("vllm-governor"))
    with (root / "etc/passwd").open("a") as passwd:
        passwd.write(f"vllm-governor:x:{UID}:{UID}::/var/lib/vllm-governor:/usr/sbin/nologin\n")
    bind(Path(spec.etc), root / "etc/vllm-governor", read_only=True)
    bind(Path(spec.state), root / "var/lib/vllm-governor")
    bind(Path(spec.runtime), root / "run/vllm-governor")
    bind(Path(spec.notify), root / "run/systemd")
    for folder in ("tmp", "var/tmp"):
        (root / folder).mkdir(parents=True)
        mount("tmpfs", root / folder, "tmpfs", data="mode=1777")
    for folder in ("home", "root"):
        (root / folder).mkdir()
        (root / folder).chmod(0o711 if any(one.startswith(f"/{folder}/") for one in spec.visible) else 0)
    for seen in spec.visible:
        bind(Path(seen), root / seen.lstrip("/"), read_only=True)
    _credentials(root / "run/credentials" / NAME, spec.credentials)
    _devices(root / "dev")


def _credentials(folder: Path, credentials: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    os.chown(folder, UID, UID)
    folder.chmod(0o500)
    for name, text in credentials.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o400)
        os.chown(folder / name, UID, UID)


def _devices(folder: Path) -> None:
    folder.mkdir()
    for name, (major, minor) in NODES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    (folder / "shm").mkdir(mode=0o1777)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (folder / name).symlink_to(f"/proc/self/{target}")


def _limits(unit: UnitFile) -> None:
    for name in ("NOFILE", "CORE"):
        most = int(unit.one(f"Limit{name}") or -1)
        if most >= 0:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def _become(unit: UnitFile) -> None:
    """The unit's user, in a user namespace of its own that knows root and that user alone."""
    if unit.one("PrivateUsers") == "yes":
        ready, enter = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(ready, 1)
            for kind in ("uid", "gid"):
                Path(f"/proc/{os.getppid()}/{kind}_map").write_text(f"0 0 1\n{UID} {UID} 1\n")
            os._exit(0)
        call("unshare", CLONE_NEWUSER)
        os.write(enter, b"1")
        if os.waitpid(child, 0)[1] != 0:
            raise OSError("the user namespace could not be filled")
    if unit.settings["Service"].get("CapabilityBoundingSet") == []:
        last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
        for number in range(last + 1):
            call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)


def _filters(unit: UnitFile, system_calls: Iterable[str]) -> None:
    """The address families last: seccomp(2) itself is none of the calls that are allowed after the first filter."""
    families = Filter(ALLOW)
    allowed = {FAMILIES[name] for name in unit.words("RestrictAddressFamilies")}
    for number in range(LAST_FAMILY):
        if number not in allowed:
            families.rule(refuse(EAFNOSUPPORT), "socket", Comparison(0, EQUAL, number, 0))
    families.load()
    if unit.one("MemoryDenyWriteExecute") == "yes":
        memory = Filter(ALLOW)
        both = PROT_WRITE | PROT_EXEC
        memory.rule(refuse(EPERM), "mmap", Comparison(2, MASKED_EQUAL, both, both))
        for name in ("mprotect", "pkey_mprotect"):
            memory.rule(refuse(EPERM), name, Comparison(2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
        memory.load()
    if unit.one("RestrictNamespaces") == "yes":
        namespaces = Filter(ALLOW)
        namespaces.rule(refuse(ENOSYS), "clone3")
        for bit in (1 << place for place in range(32) if NEW_NAMESPACES >> place & 1):
            namespaces.rule(refuse(EPERM), "clone", Comparison(0, MASKED_EQUAL, bit, bit))
        namespaces.rule(refuse(EPERM), "unshare")
        namespaces.rule(refuse(EPERM), "setns")
        namespaces.load()
    calls = Filter(refuse(EPERM))
    for name in system_calls:
        calls.rule(ALLOW, name)
    calls.load()


def _environment(unit: UnitFile, spec: Spec) -> dict[str, str]:
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/var/lib/vllm-governor"}
    for value in unit.all("Environment"):
        name, _, text = value.partition("=")
        given[name] = text.replace("%t", "/run").replace("%n", NAME)
    given |= {"STATE_DIRECTORY": "/var/lib/vllm-governor", "RUNTIME_DIRECTORY": "/run/vllm-governor"}
    return given | {"CREDENTIALS_DIRECTORY": f"/run/credentials/{NAME}", **spec.environment}


def bind(source: Path, target: Path, *, read_only: bool = False, recursive: bool = False) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        mount("none", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    arguments = (str(source), str(target), kind or "none")
    call("mount", *(text.encode() for text in arguments), flags, data.encode() or None)


def call(name: str, *arguments: int | bytes | None) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}{arguments}: {os.strerror(code)}")


def run(arguments: Sequence[str]) -> None:
    main(Spec(**json.loads(Path(arguments[0]).read_text(encoding="utf-8"))))


if __name__ == "__main__":
    run(sys.argv[1:])
