"""What the machine must bring: Python, the venv module, disk, and what vLLM's wheel links to.

Each check says in one sentence what is missing and how to get it, and installs a missing Debian package itself where
it may. Running pip never belongs here.

What was tried for vLLM 0.32 on CPU with `--enforce-eager`: it starts and serves with no compiler on PATH, so none is
looked for. Beside the C and C++ runtimes that any Python has, it needs `libnuma.so.1` (its kernels link to it) and
`lscpu` (it reads the cores from it).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.setup.errors import SetupError

OLDEST_PYTHON = (3, 11)
NEWEST_VLLM_PYTHON = (3, 14)
GIB = 1 << 30
DAEMON_DISK_BYTES = 1 * GIB
VLLM_DISK_BYTES = 6 * GIB
ENGINE_DISK_BYTES = 2 * GIB
VLLM_MACHINES = ("x86_64", "aarch64")

Say = Callable[[str], None]


def check_venv_module(say: Say) -> None:
    """Debian splits `ensurepip` from Python; without it `python3 -m venv` leaves half an environment."""
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        get_package(package, "Python's venv module is missing", say)
        importlib.invalidate_caches()
        if importlib.util.find_spec("ensurepip") is None:
            raise SetupError(
                f"cannot make an environment with {sys.executable}: it has no ensurepip even with {package} installed; "
                "name a complete Python as in make run PYTHON=/usr/bin/python3"
            )


def check_disk(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raises unless `folder`'s file system has `needed_bytes` free."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise SetupError(
            f"cannot make {purpose}: {folder} has {free_bytes / GIB:.1f} GiB free and it takes about "
            f"{needed_bytes / GIB:.0f} GiB; free some space or move the checkout to a larger disk"
        )


def check_vllm_machine(say: Say) -> None:
    """What vLLM's CPU wheel needs of the system."""
    if sys.platform != "linux" or platform.machine() not in VLLM_MACHINES:
        raise SetupError(
            f"cannot install vLLM's CPU wheel on {platform.system()} {platform.machine()}: it is built for Linux on "
            f"{' or '.join(VLLM_MACHINES)}; steer a vLLM that runs elsewhere with make run ENGINE=http://host:port"
        )
    if sys.version_info[:2] > NEWEST_VLLM_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        newest = ".".join(map(str, NEWEST_VLLM_PYTHON))
        raise SetupError(
            f"cannot install vLLM 0.32 with Python {found}: its wheels end at {newest}; name an older one as in "
            f"make run PYTHON=python{newest}"
        )
    if not _loads("libnuma.so.1"):
        get_package("libnuma1", "vLLM's CPU kernels need the library libnuma.so.1", say)
    if shutil.which("lscpu") is None:
        get_package("util-linux", "vLLM reads the cores from the command lscpu", say)


def check_own_vllm_env(environment: Path) -> None:
    """Raises unless `VLLM_ENV` names an environment in which vLLM imports."""
    python = environment / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise SetupError(
            f"cannot use VLLM_ENV={environment}: {python} is not there; name the folder of a virtual environment that "
            "holds vLLM"
        )
    tried = subprocess.run([python, "-c", "import vllm"], capture_output=True, text=True, check=False, cwd="/")
    if tried.returncode != 0:
        last = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
        raise SetupError(
            f"cannot use VLLM_ENV={environment}: import vllm fails there with {last}; install vLLM in it or leave "
            "VLLM_ENV out to have one made"
        )


def check_test_packages(environment: Path) -> None:
    """Raises unless `VLLM_ENV` holds what the plugin's tests need; a user's environment is never changed."""
    wanted = "pytest pytest-asyncio hypothesis httpx"
    code = "import pytest, pytest_asyncio, hypothesis, httpx"
    python = environment / "bin" / "python"
    if subprocess.run([python, "-c", code], capture_output=True, check=False, cwd="/").returncode != 0:
        raise SetupError(
            f"cannot test the plugin in VLLM_ENV={environment}: it lacks one of {wanted}; add them with "
            f"{python} -m pip install {wanted} or leave VLLM_ENV out"
        )


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def get_package(package: str, reason: str, say: Say) -> None:
    """Installs a Debian package where this process may, else says the command."""
    apt = shutil.which("apt-get")
    if apt is None:
        raise SetupError(f"cannot go on: {reason}; install it with your system's package manager (Debian: {package})")
    if os.geteuid() != 0:
        raise SetupError(f"cannot go on: {reason}; install it with: sudo apt-get install -y {package}")
    say(f"{reason}: installing {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        [apt, "install", "-y", "-qq", "--no-install-recommends", package],
        [apt, "update", "-qq"],
        [apt, "install", "-y", "-qq", "--no-install-recommends", package],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0 and "install" in command:
            return
    last = ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
    raise SetupError(f"cannot go on: {reason} and apt-get install {package} failed with {last}; install it by hand")
