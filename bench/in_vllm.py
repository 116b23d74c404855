"""Runs a bench where vLLM is: `make bench-NAME` starts with the daemon's Python, and some benches need vLLM in-process.

Belongs here: whether this interpreter will do, and starting the one that does. Never: a bench.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from bench.setup import places

_MARK = "BENCH_IN_VLLM"
_NEEDED = ("vllm", "vllm_governor_engine")


def run(module: str, arguments: Sequence[str], here: Callable[[Sequence[str]], int]) -> int:
    """`here(arguments)` if vLLM and the plugin can be imported, else `python -m module` with vLLM's interpreter.

    Returns the exit code; 1, with a sentence on stderr, when that interpreter is not there.
    """
    if all(importlib.util.find_spec(name) is not None for name in _NEEDED):
        return here(arguments)
    python = places.vllm_python()
    if os.environ.get(_MARK) or not python.exists():
        print(
            f"cannot run {module}: {places.shown(python)} does not import {' and '.join(_NEEDED)}; make it with "
            "python3 bench/environments.py vllm or name an environment with VLLM_ENV=path",
            file=sys.stderr,
        )
        return 1
    before = os.environ.get("PYTHONPATH", "")
    path = [str(places.ENGINE_SOURCE), str(places.ROOT), *([before] if before else [])]
    environment = {**os.environ, _MARK: "1", "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run([python, "-m", module, *arguments], env=environment, cwd=places.ROOT, check=False).returncode


def leave(code: int) -> NoReturn:
    """End the process at once: at an ordinary end the libraries of vLLM complain of leaks below the JSON line."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
