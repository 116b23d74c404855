"""A few values by name that outlive the daemon, as the daemon's thread sees them, and waiting for what was handed over.

Belongs here: what was handed over and what the history holds, as one. Never: what a value means, SQL (store/kept.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from store.pending import Receipt
from store.writer import Writer
from store.writes import Keep


class Memory:
    """Putting never fails: what cannot be written waits. `timeout_s` is how long the history is waited for at most."""

    def __init__(self, writer: Writer, timeout_s: float) -> None:
        self._writer = writer
        self.timeout_s = timeout_s
        self._receipts: dict[str, Receipt] = {}
        self._values: dict[str, Mapping[str, Any] | None] = {}

    def put(self, name: str, at: datetime, value: Mapping[str, Any] | None) -> None:
        """Remember a value under a name, in place of the one before; None forgets it."""
        self._values[name] = value
        self._receipts[name] = self._writer.put(Keep(name, at, value))

    async def put_now(self, name: str, at: datetime, value: Mapping[str, Any] | None) -> None:
        """As `put`, and wait until it is on disk, or a while."""
        self.put(name, at, value)
        await self.settled(self._receipts[name])

    async def settled(self, receipt: Receipt) -> bool:
        """Wait until that is on disk, or a while; whether it is."""
        return await self._writer.settled(receipt, self.timeout_s)

    async def get(self, name: str) -> Mapping[str, Any] | None:
        """The value that was put last, None when there is none. Raises HistoryUnavailable while that is not known."""
        if name not in self._values:
            found = await self._writer.run(lambda history: history.kept.get(name), self.timeout_s)
            self._values[name] = found
            if found is not None:  # to be written again where the history is begun anew
                self._writer.remember(Keep(name, datetime.now(UTC), found))
        return self._values[name]

    def written(self, name: str) -> bool:
        """Whether a restart would find what was put last."""
        receipt = self._receipts.get(name)
        return receipt is None or receipt.written
