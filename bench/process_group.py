"""A child process and all of its descendants as one group: started apart, ended without a remainder.

Which program and why never belong here. Linux only (/proc, prctl).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Runs in the child before the program: SIGTERM when its parent dies, even by SIGKILL (prctl PR_SET_PDEATHSIG = 1).
_LEASHED = "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,15);os.execv(sys.argv[1],sys.argv[1:])"


def start(
    command: Sequence[str], *, environment: Mapping[str, str], log: Path, folder: Path
) -> subprocess.Popen[bytes]:
    """Starts `command` in a session of its own, output to `log`.

    A Ctrl-C in the terminal does not reach it; the death of the thread that calls this does, so call it from the main
    thread.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", _LEASHED, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )


def signal_group(group: int, number: signal.Signals) -> None:
    """Sends a signal to every member; nothing happens when none is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def members(group: int) -> list[int]:
    """The living processes of the group; a zombie that nobody has collected yet does not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything; the fields after it are state, parent, group.
            state, _, number = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it ended while we looked
            continue
        if int(number) == group and state not in "ZX":
            found.append(int(entry.name))
    return found


def end(process: subprocess.Popen[bytes], *, patience_s: float) -> None:
    """SIGTERM to the group, SIGKILL to what is left after `patience_s`; returns when none is alive."""
    group = process.pid
    signal_group(group, signal.SIGTERM)
    if not _gone(process, group, patience_s):
        signal_group(group, signal.SIGKILL)
        _gone(process, group, 5.0)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to every member at once; returns when none is alive."""
    signal_group(process.pid, signal.SIGKILL)
    _gone(process, process.pid, 5.0)


def _gone(process: subprocess.Popen[bytes], group: int, limit_s: float) -> bool:
    until_s = time.monotonic() + limit_s
    while True:
        process.poll()  # collects our child, which would stay a zombie otherwise
        if process.returncode is not None and not members(group):
            return True
        if time.monotonic() >= until_s:
            return False
        time.sleep(0.05)
