"""A port that nobody listens on. Belongs here: finding it. Never: listening."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10_000
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Of this machine's loopback; free at this moment, for a process that has to be told its port, and none of those
    that outgoing connections are given: one of them could take it before the process listens.
    """
    below = range(LOWEST, _first_outgoing())
    for port in [*random.sample(below, min(100, len(below))), 0]:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port of 127.0.0.1 is free")


def _first_outgoing() -> int:
    try:
        return int(OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return LOWEST  # not Linux: whatever the system gives
