"""The scripted NVML inside this very process, for nvidia-ml-py to find.

Belongs here: making nvidia-ml-py load it, and forgetting it again. Never: a script's content.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml

from bench.emulated_nvml.build import build
from bench.emulated_nvml.script import VARIABLE, Machine


class LoadedNvml:
    """The library in this process. It stays loaded for good; without a script it has no driver."""

    def __init__(self, library: ctypes.CDLL, script: Path) -> None:
        self._library = library
        self._script = script

    def show(self, machine: Machine) -> None:
        """Answer so from the next call on."""
        machine.write(self._script)

    def calls(self, function: str) -> int:
        """How often a function of NVML was called since the library was loaded here."""
        self._library.emulated_nvml_calls.restype = ctypes.c_ulong
        return int(self._library.emulated_nvml_calls(function.encode()))

    @property
    def held(self) -> bool:
        """This process holds the driver's file open: what blocks the reset of a GPU."""
        own = Path("/proc/self/fd")
        return any(_target(own / name) == str(self._script) for name in os.listdir(own))


@contextmanager
def loaded(script: Path) -> Iterator[LoadedNvml]:
    """Load the library in place of a real one; `script` need not exist yet. Raises NoLibrary."""
    # nvidia-ml-py asks the loader for the SONAME, and a library loaded under that name is what it gets.
    library = ctypes.CDLL(str(build()), ctypes.RTLD_GLOBAL)
    _forget(library)
    os.environ[VARIABLE] = str(script)
    try:
        yield LoadedNvml(library, script)
    finally:
        script.unlink(missing_ok=True)  # ends every call that hangs
        os.environ.pop(VARIABLE, None)
        _forget(library)


def _forget(library: ctypes.CDLL) -> None:
    """Undo what users before left initialised; nvidia-ml-py keeps the library and its functions in module globals."""
    while library.nvmlShutdown() != pynvml.NVML_ERROR_UNINITIALIZED:
        continue
    library.emulated_nvml_count_anew()
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link).removesuffix(" (deleted)")
    except OSError:
        return None  # closed meanwhile
