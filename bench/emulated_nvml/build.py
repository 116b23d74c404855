"""Compiles the scripted `libnvidia-ml.so.1` when its source changed.

Belongs here: the compiler's call and where the library lies. Never: what it answers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SONAME = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).with_name("nvml.c")
_ROOT = Path(__file__).resolve().parents[2]
_FLAGS = (
    *("-std=c11", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-pthread"),
    f"-Wl,-soname,{SONAME}",
)


class NoLibrary(Exception):
    """There is no scripted library and none can be made; the text is one sentence."""


def build() -> Path:
    """The library's path, in a folder of its own that `LD_LIBRARY_PATH` can name. Raises NoLibrary."""
    source = _SOURCE.read_bytes()
    stamp = hashlib.sha256(source + " ".join(_FLAGS).encode()).hexdigest()[:16]
    library = _ROOT / "build" / "nvml" / stamp / SONAME
    if not library.exists():
        _compile(library)
    return library


def _compile(library: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoLibrary(
            "cannot build the scripted NVML: there is no C compiler (Debian: apt-get install gcc libc6-dev)"
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / SONAME
        ran = subprocess.run([compiler, *_FLAGS, _SOURCE, "-o", made], capture_output=True, text=True)
        if ran.returncode != 0:
            raise NoLibrary(f"cannot build the scripted NVML: {compiler} said: {ran.stderr.strip()}")
        os.replace(made, library)  # two test runs at once each end with a whole file
