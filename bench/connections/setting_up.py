"""How long setting up connections takes, by request: dialogues one after the other.

Belongs here: the dialogues and their figures. Never: what a connection is (client.py).
"""

from __future__ import annotations

import ssl
import statistics
from dataclasses import dataclass

from bench.connections import client
from bench.connections.client import Connection
from bench.connections.style import Style

TURNS = 10
"""Requests of one dialogue: what a kept connection carries before the client goes."""


@dataclass(frozen=True, slots=True)
class SetUp:
    """`setups_s`: each connection's set-up; `resumed`: of those, by a resumed TLS session."""

    setups_s: tuple[float, ...]
    resumed: int
    requests: int

    @property
    def ms_per_request(self) -> float:
        """All set-up time, spread over all requests."""
        return 1000.0 * sum(self.setups_s) / self.requests

    @property
    def ms_per_connection(self) -> float:
        """The median of one connection."""
        return 1000.0 * statistics.median(self.setups_s)


def measure(port: int, trust: ssl.SSLContext, style: Style, dialogues: int) -> SetUp:
    """Raises OSError, Refused or http.client.HTTPException when a request fails: on an idle machine none may."""
    setups_s, resumed = [], 0
    session: ssl.SSLSession | None = None
    for _ in range(dialogues):
        turns_left = TURNS
        while turns_left:
            connection = Connection(port, trust, session if style.resumed else None)
            connection.connect()
            resumed += connection.was_resumed
            setups_s.append(connection.setup_s)
            carries = turns_left if style.kept else 1
            for turn in range(carries):
                client.complete(connection, last=not style.kept)
                if turn == 0 and connection.sock is not None:
                    session = connection.session
            connection.close()
            turns_left -= carries
    return SetUp(tuple(setups_s), resumed, dialogues * TURNS)
