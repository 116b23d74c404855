"""A port that nobody listens on. Belongs here: finding it. Never: listening."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Of this machine's loopback; free at this moment, for a process that has to be told its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
