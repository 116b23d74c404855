"""What `install` and `uninstall` do, step by step: said first, done if that is wanted.

Belongs here: the order, and doing a step. Never: which files (install_files.py), arguments (install.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controller.cli import install_files
from controller.cli.install_files import Placed, State, Target
from domain.errors import CannotInstall

T = TypeVar("T")

COMMAND_S = 90.0
"""A stop takes ten seconds at most."""


@dataclass(frozen=True, slots=True)
class Step:
    """`words` say it; without `do` it is left as it is. `kept`: a person has to look at why."""

    words: str
    do: Callable[[], object] | None = None
    kept: bool = False


def systemd_version() -> int | None:
    """As 252; None: there is no systemctl."""
    if shutil.which("systemctl") is None:
        return None
    found = re.match(r"systemd (\d+)", _output(["systemctl", "--version"]))
    return None if found is None else int(found[1])


def knows(unit: str) -> bool:
    """Whether systemd has such a unit. Where there is no systemd to ask, nothing speaks against it."""
    return _asked(["systemctl", "show", "--property=LoadState", "--value", unit]).strip() != "not-found"


def to_install(target: Target, *, force: bool) -> Iterator[Step]:
    """Lazy: each step sees what those before it did. Raises CannotInstall when a step fails."""
    program = install_files.program() if target.whole_machine else install_files.PROGRAM
    unit_files = install_files.unit_files(target, program, systemd_version())
    for one in (*install_files.shared(target), *unit_files):
        yield _write(one, force=force)
    known = not target.whole_machine or knows(target.steered)
    yield _write(install_files.drop_in(target), force=force) if known else _unknown(target.steered)
    at = [] if target.whole_machine else [f"--root={target.root}"]
    yield _run(["systemd-sysusers", *at, "vllm-governor.conf"])
    yield _run(["systemd-tmpfiles", *at, "--create", "vllm-governor.conf"])
    if not target.whole_machine:
        yield _run(["systemctl", *at, "enable", target.started])
        return
    folder = target.path(f"/etc/{target.below}")
    if target.instance is not None and not _exists(folder):
        yield Step(f"make {folder}", lambda: _guarded(folder, lambda: _make(folder)))
    for name in ("token", "api-token"):
        yield _token(folder / name)
    yield _run(["systemctl", "daemon-reload"])
    now = ["--now"] if _exists(folder / "config.toml") else []
    yield _run(["systemctl", "enable", *now, target.started])


def left_to_install(target: Target) -> Iterator[str]:
    """What only the operator can do."""
    folder, state = Path("/etc") / target.below, Path("/var/lib") / target.below
    steered = target.steered
    if not target.whole_machine:
        yield f"on each machine, make {folder}/token and {folder}/api-token: openssl rand -base64 32, mode 0600"
    if target.whole_machine and not knows(steered):
        named = "" if target.instance is None else f" --instance {target.instance}"
        yield f"vllm-governor install --apply{named} --vllm-unit NAME.service   # vLLM's own; none: docs/operations.md"
    else:
        yield f"systemctl restart {steered}   # when it suits you: it loads the plugin (in vLLM's environment)"
    if not _exists(target.path(str(folder / "config.toml"))):
        yield (
            f"vllm-governor init {folder}/config.toml --engine-token-file {folder}/token "
            f"--api-token-file {folder}/api-token --store {state}/vllm-governor.db   # once vLLM serves"
        )
        yield f"systemctl start {target.started}"
    else:
        yield f"systemctl restart {target.started}   # if the unit's file was replaced"


def to_uninstall(target: Target, *, force: bool) -> Iterator[Step]:
    """The settings, the history and the user stay. Raises CannotInstall when a step fails."""
    unit_files = install_files.unit_files(target, install_files.PROGRAM, install_files.STEPS_FROM)
    gone = [install_files.drop_in(target)]
    if target.instance is None or not install_files.other_instances(target):
        gone += unit_files
    if not install_files.others(target):
        gone += install_files.shared(target)
    at = [] if target.whole_machine else [f"--root={target.root}"]
    if _there(unit_files[0]):
        yield _run(["systemctl", *at, "disable", *(["--now"] if target.whole_machine else []), target.started])
    for one in gone:
        if _there(one):
            yield _remove(one, force=force)
    if target.whole_machine:
        yield _run(["systemctl", "daemon-reload"])


def left_to_uninstall(target: Target) -> Iterator[str]:
    """What only the operator can do."""
    yield f"systemctl restart {target.steered}   # when it suits you: vLLM then runs without the plugin"
    gone = f"rm -r /etc/{target.below} /var/lib/{target.below}"
    if target.instance is None and install_files.other_instances(target):  # whose folders lie below
        gone = f"rm /etc/{target.below}/{{config.toml,token,api-token}} /var/lib/{target.below}/vllm-governor.db*"
    yield f"{gone}   # settings, tokens and history, if nobody needs them"
    if not install_files.others(target):
        yield "userdel vllm-governor"


def _exists(path: Path) -> bool:
    return _guarded(path, path.exists)


def _make(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)  # whatever the umask; the folder above it keeps others out


def _there(one: Placed) -> bool:
    return _guarded(one.path, lambda: one.state) is not State.ABSENT


def _write(one: Placed, *, force: bool) -> Step:
    state = _guarded(one.path, lambda: one.state)
    if state is State.SAME:
        return Step(f"nothing: {one.path} is there already")
    if state is State.CHANGED and not force:
        return Step(f"keep {one.path}: it was changed by hand, or is not ours (--force replaces it)", kept=True)
    how = {State.ABSENT: "write", State.OURS: "renew", State.CHANGED: "replace, though changed by hand,"}[state]
    return Step(f"{how} {one.path}", lambda: _guarded(one.path, lambda: _put(one.path, one.text, 0o644)))


def _unknown(unit: str) -> Step:
    listed = _asked(["systemctl", "list-unit-files", "--no-legend", "--type=service", "*vllm*"])
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    others = ", ".join(name for name in names if not name.startswith("vllm-governor"))
    found = f"there is {others}" if others else "none has vllm in its name"
    return Step(
        f"leave out the drop-in for {unit}: systemd has no such unit; name vLLM's own with --vllm-unit ({found})",
        kept=True,
    )


def _asked(command: Sequence[str]) -> str:
    """What a command that changes nothing prints; empty where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S).stdout  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _remove(one: Placed, *, force: bool) -> Step:
    if _guarded(one.path, lambda: one.state) is State.CHANGED and not force:
        return Step(f"keep {one.path}: it was changed by hand, or is not ours (--force removes it)", kept=True)
    return Step(f"remove {one.path}", lambda: _guarded(one.path, lambda: _take_away(one.path)))


def _token(path: Path) -> Step:
    if _exists(path):
        return Step(f"nothing: {path} is there already")

    def make() -> None:
        _put(path, f"{secrets.token_urlsafe(32)}\n", 0o600)

    return Step(f"make {path}, a new token that only root reads", lambda: _guarded(path, make))


def _run(command: Sequence[str]) -> Step:
    return Step(f"run {' '.join(command)}", lambda: _output(command))


def _output(command: Sequence[str]) -> str:
    """Raises CannotInstall."""
    said = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S)  # noqa: S603
    except FileNotFoundError as error:
        raise CannotInstall(
            f"cannot run {said}: there is no {command[0]} on this machine; it takes systemd, docs/operations.md says "
            "how to do without"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"cannot run {said}: {error}; run it by hand, then this again") from error
    if done.returncode != 0:
        why = " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
        raise CannotInstall(f"cannot run {said}: {why}; put that right and run this again (as root)")
    return done.stdout


def _put(path: Path, text: str, mode: int) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _take_away(path: Path) -> None:
    path.unlink()
    if path.parent.name.endswith(".service.d"):
        with contextlib.suppress(OSError):  # others' drop-ins stay
            path.parent.rmdir()


def _guarded(path: Path, act: Callable[[], T]) -> T:
    try:
        return act()
    except OSError as error:
        raise CannotInstall(f"cannot use {path}: {error.strerror}; run this as root") from error
