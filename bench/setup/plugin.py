"""The plugin as an overlay: `build/plugin` is put on PYTHONPATH before vLLM, so no environment of a user is changed.

Building it belongs here. What the plugin is never does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from bench.setup import places, stamps
from bench.setup.errors import SetupError
from bench.setup.pip import Pip
from bench.setup.progress import Progress


def make_plugin() -> None:
    """Builds the overlay again when anything under `engine/` changed."""
    if not (places.ENGINE_SOURCE / "pyproject.toml").is_file():
        raise SetupError(f"cannot build the plugin: {places.ENGINE_SOURCE} is incomplete; check out the project again")
    wanted = stamps.tree_digest(places.ENGINE_SOURCE)
    if stamps.is_current(places.PLUGIN_OVERLAY, wanted):
        return
    with stamps.locked(places.LOCK, lambda: print("waiting for another setup to build the plugin", file=sys.stderr)):
        wanted = stamps.tree_digest(places.ENGINE_SOURCE)
        if not stamps.is_current(places.PLUGIN_OVERLAY, wanted):
            _build(wanted)


def _build(wanted: str) -> None:
    overlay = places.PLUGIN_OVERLAY
    overlay.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".plugin-", dir=overlay.parent) as scratch:
        # Built from a copy: a build in place leaves folders that the next one would take for source.
        source = Path(scratch) / "engine"
        for file in stamps.source_files(places.ENGINE_SOURCE):
            copy = source / file.relative_to(places.ENGINE_SOURCE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        target = Path(scratch) / "plugin"
        target.mkdir()
        python, flags = _builder(source)
        progress = Progress(places.shown(overlay), target)
        log = places.LOGS / "install-plugin.log"
        log.unlink(missing_ok=True)
        pip = Pip(python, log, progress, scratch_in=Path(scratch))
        pip.install("the plugin", "--no-deps", *flags, "--target", str(target), str(source))
        stamps.mark(target, wanted)
        old = Path(scratch) / "old"
        if overlay.exists():
            overlay.rename(old)
        target.rename(overlay)


def _builder(source: Path) -> tuple[Path, list[str]]:
    """A Python of ours with pip; one that holds the build backend already needs no network for a rebuild."""
    backend = tomllib.loads((source / "pyproject.toml").read_text())["build-system"]["build-backend"].split(":")[0]
    pythons = [environment / "bin" / "python" for environment in (places.VLLM_ENV, places.DAEMON_ENV)]
    usable = [python for python in pythons if _imports(python, "pip")]
    if not usable:
        raise SetupError("cannot build the plugin: no environment is there; make one with bench/environments.py daemon")
    for python in usable:
        # An older setuptools cannot make a wheel by itself.
        needed = "setuptools.command.bdist_wheel" if backend.startswith("setuptools") else backend
        if _imports(python, needed):
            return python, ["--no-build-isolation"]
    return usable[0], []


def _imports(python: Path, module: str) -> bool:
    try:
        return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
