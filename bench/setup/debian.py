"""Real servers for the tests, out of Debian packages: extracted under `build/debian`, never installed or started.

Which packages, and fetching them, belongs here. Starting a server never does. Nothing of the machine changes but apt's
package lists. A program that is on PATH already is used as it is. Without apt the tests in question skip and say why,
unless `TESTS_NEED_ALL` is set, as continuous integration does.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.setup import places, stamps
from bench.setup.errors import SetupError
from bench.setup.progress import Progress

RECIPE = "2"  # raise it when the steps below change
NEED_ALL = "TESTS_NEED_ALL"
ROOT = Path("/")
COMMAND_LIMIT_S = 600.0
APT_OPTIONS = ("-qq", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "DPkg::Lock::Timeout=60")


@dataclass(frozen=True, slots=True)
class Package:
    """`programs` are the commands that the tests use of it."""

    name: str
    programs: tuple[str, ...]
    with_missing: str = ""
    """Which packages, out of those that apt would install with this one on this machine, are extracted too."""
    beside: tuple[str, ...] = ()
    """Packages that are extracted with it whatever this machine has."""
    off_path: str = ""
    """Where an installed package keeps the programs, if not on PATH, as a pattern under the root."""


PACKAGES = (
    Package("prometheus", programs=("prometheus", "promtool")),
    Package("prometheus-alertmanager", programs=("prometheus-alertmanager", "amtool")),
    Package("nginx", programs=("nginx",)),
    Package(
        "postgresql",
        programs=("initdb", "postgres"),
        # The server of this release, its time zones, the libraries that are missing; not the compiler of its queries.
        with_missing=r"postgresql-\d+|tzdata|lib(?!llvm|z3|c6$).*(?<!-perl)",
        off_path="usr/lib/postgresql/*/bin",
    ),
    Package("systemd", programs=("systemd-analyze",), with_missing=r"lib.*"),
    Package(
        "chromium-headless-shell",
        programs=("chromium-headless-shell",),
        # Its own files and the libraries that are missing; not a desktop's.
        with_missing=r"chromium-common|lib.*",
        # Letters for the dashboard's pictures, Chinese ones too: a container has none.
        beside=("fonts-inter", "fonts-wqy-microhei"),
    ),
)


def program(name: str) -> Path | None:
    """Where a command of these packages is: installed, else extracted; None where neither."""
    package = next((package for package in PACKAGES if name in package.programs), None)
    if package is None:
        return None
    extracted = places.DEBIAN / package.name
    folders = [extracted / folder for folder in ("usr/bin", "usr/sbin", "bin", "sbin")]
    folders += sorted(extracted.glob(package.off_path)) if package.off_path else []
    paths = [folder / name for folder in folders]
    return _installed(package, name) or next((path for path in paths if os.access(path, os.X_OK)), None)


def _installed(package: Package, name: str) -> Path | None:
    found = shutil.which(name)
    if found is not None or not package.off_path:
        return None if found is None else Path(found)
    newest_first = sorted(ROOT.glob(package.off_path), reverse=True)
    return next((folder / name for folder in newest_first if os.access(folder / name, os.X_OK)), None)


def extracted_root(path: Path) -> Path | None:
    """The folder that a program's package was extracted to, which stands for `/`; None for one that is installed."""
    roots = (places.DEBIAN / package.name for package in PACKAGES)
    return next((root for root in roots if path.is_relative_to(root)), None)


def libraries(root: Path) -> list[Path]:
    """The folders of the shared libraries below an extracted package's root."""
    return sorted(folder for pattern in ("usr/lib/*-linux-gnu*", "lib/*-linux-gnu*") for folder in root.glob(pattern))


def required() -> bool:
    """Whether a missing program is a failure rather than a skipped test."""
    return os.environ.get(NEED_ALL, "") not in ("", "0")


def how_to_get(name: str) -> str:
    """One sentence for a test that skips for want of `name`."""
    package = next((package.name for package in PACKAGES if name in package.programs), name)
    return (
        f"cannot run {name}: it is neither on PATH nor under {places.shown(places.DEBIAN)}; install it with "
        f"sudo apt-get install -y {package}, or have python3 bench/environments.py daemon --tests fetch it"
    )


def make_debian() -> None:
    """Fetches what is missing. Where it cannot it says so in a line and goes on: a test says the rest."""
    for package in PACKAGES:
        if all(_installed(package, name) for name in package.programs) or _is_current(package):
            continue
        try:
            _make(package)
        except SetupError as error:
            print(f"{error} (the tests that need it {'fail' if required() else 'skip'})", file=sys.stderr)


def _is_current(package: Package) -> bool:
    return stamps.is_current(places.DEBIAN / package.name, _fingerprint(package))


def _fingerprint(package: Package) -> str:
    return stamps.digest([RECIPE, _release(), platform.machine(), package.with_missing, *package.beside])


def _release() -> str:
    """The distribution: after an upgrade of it the packages are fetched again."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{release['ID']} {release.get('VERSION_ID', '')}"


def _make(package: Package) -> None:
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise SetupError(
                f"cannot fetch {package.name}: there is no {tool} on this machine; put "
                f"{' and '.join(package.programs)} on PATH"
            )
    with stamps.locked(places.LOCK, lambda: print(f"waiting for another setup to get {package.name}", file=sys.stderr)):
        if not _is_current(package):
            _extract(package)


def _extract(package: Package) -> None:
    places.DEBIAN.mkdir(parents=True, exist_ok=True)
    target = places.DEBIAN / package.name
    with tempfile.TemporaryDirectory(prefix=f".{package.name}-", dir=places.DEBIAN) as scratch:
        downloads, fresh = Path(scratch) / "debs", Path(scratch) / "root"
        downloads.mkdir()
        fresh.mkdir()
        progress = Progress(places.shown(target), downloads)
        progress.say(f"fetching the Debian package {package.name} for the tests")
        _download(package, downloads)
        for deb in sorted(downloads.glob("*.deb")):
            _run(package, ["dpkg", "-x", str(deb), str(fresh)], downloads)
        stamps.mark(fresh, _fingerprint(package))
        if target.exists():
            target.rename(Path(scratch) / "old")
        fresh.rename(target)
        progress.say(f"ready after {progress.elapsed_s():.0f} s")


def _download(package: Package, folder: Path) -> None:
    """`apt-get download` needs no rights; fresh lists do, and are fetched only when it did not work with those here."""
    try:
        _fetch(package, folder)
    except SetupError:
        if os.geteuid() != 0:
            raise
        _run(package, ["apt-get", *APT_OPTIONS, "update"], folder)
        _fetch(package, folder)


def _fetch(package: Package, folder: Path) -> None:
    debs = [package.name, *package.beside]
    if package.with_missing:
        simulated = ["apt-get", "-s", "--no-install-recommends", "install", package.name]
        names = re.findall(r"^Inst (\S+)", _run(package, simulated, folder), re.MULTILINE)
        debs += [name for name in names if re.fullmatch(package.with_missing, name)]
    _run(package, ["apt-get", *APT_OPTIONS, "download", *debs], folder)


def _run(package: Package, command: list[str], folder: Path) -> str:
    """What the command printed. Raises SetupError."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"cannot fetch {package.name}: {command[0]} did not end in {COMMAND_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        last = ((done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise SetupError(
            f"cannot fetch {package.name}: {command[0]} failed with {last}; install it with sudo apt-get update && "
            f"sudo apt-get install -y {package.name}"
        )
    return done.stdout
