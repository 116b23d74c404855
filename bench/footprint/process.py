"""What /proc says of one process. Belongs here: reading it. Never: what the process does."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ProcessGone(Exception):
    """The process has ended."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. `cpu_s` is user and system time of all its threads since its start; `at_s` is monotonic."""

    at_s: float
    cpu_s: float
    rss_mb: float
    """Resident memory in units of 10^6 bytes."""


def look(pid: int) -> Sample:
    """Raises ProcessGone."""
    folder = Path("/proc") / str(pid)
    try:
        stat = (folder / "stat").read_text()
        pages = int((folder / "statm").read_text().split()[1])
    except (OSError, IndexError) as error:
        raise ProcessGone(f"cannot read /proc/{pid}: the process has ended") from error
    fields = stat.rpartition(")")[2].split()  # from the state on: the name may hold anything
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return Sample(time.monotonic(), cpu_s, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
