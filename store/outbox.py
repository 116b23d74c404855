"""The outbox as the daemon's senders see it, over the one writer.

Belongs here: how long they wait for the disk. Never: SQL, sending.
"""

from __future__ import annotations

from collections.abc import Sequence

from domain.incident import Delivery
from store.writer import Writer
from store.writes import MarkDelivery


class WriterOutbox:
    """What alerts.outbox.Outbox asks for. A broken history is not waited for; it is written once it can be."""

    def __init__(self, writer: Writer, timeout_s: float) -> None:
        self._writer = writer
        self._timeout_s = timeout_s

    def note(self, deliveries: Sequence[Delivery]) -> None:
        """These stand so now. Returns at once."""
        self._writer.put(MarkDelivery(tuple(deliveries)))

    async def mark(self, delivery: Delivery) -> None:
        """This one stands so now. Returns once that is on disk, or after the time limit."""
        await self._writer.commit(MarkDelivery((delivery,)), self._timeout_s)
