"""A service manager's end of the notification protocol: a real datagram socket, and what came in over it.

Belongs here: the socket and waiting for a word. Never: what ought to be told.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S, until

Told = dict[str, str]
"""One datagram: its assignments by name."""


class Manager:
    """Binds `at`: a path, or @name in the abstract namespace. `told` are the datagrams since the start."""

    def __init__(self, at: str | Path) -> None:
        self.at = str(at)
        self.told: list[Told] = []
        self._looked_at = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.at[1:]}" if self.at.startswith("@") else self.at)
        self._socket.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def environment(self, **more: str) -> dict[str, str]:
        """What the manager gives the process."""
        return {"NOTIFY_SOCKET": self.at, **more}

    def read(self) -> list[Told]:
        """What has come in since this was asked last."""
        fresh = []
        while True:
            try:
                raw = self._socket.recv(65536)
            except BlockingIOError:
                break
            lines = raw.decode().split("\n")
            assert all("=" in line for line in lines), raw
            fresh.append(dict(line.split("=", 1) for line in lines))
        self.told += fresh
        self._looked_at = len(self.told)
        return fresh

    async def until(self, wanted: Callable[[Told], bool], what: str, limit_s: float = PATIENCE_S) -> Told:
        """The first datagram that is wanted, after those that were looked at before."""

        def said() -> bool:
            looked_at = self._looked_at
            self.read()
            for place in range(looked_at, len(self.told)):
                if wanted(self.told[place]):
                    self._looked_at = place + 1
                    return True
            return False

        await until(f"somebody says {what}", said, limit_s)
        return self.told[self._looked_at - 1]

    async def word(self, name: str) -> Told:
        """The first such datagram that has this assignment."""
        return await self.until(lambda told: name in told, name)
