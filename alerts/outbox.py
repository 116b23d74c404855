"""Where it is kept how far the telling got, so that a restart goes on from there.

Belongs here: what the senders ask of whoever keeps it. Never: how it is kept (store/alerts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from domain.incident import Delivery


class Outbox(Protocol):
    """Neither method raises: what cannot be kept now is kept later or not at all, and nobody is told less for it."""

    def note(self, deliveries: Sequence[Delivery]) -> None:
        """These stand so now. Returns at once."""

    async def mark(self, delivery: Delivery) -> None:
        """This one stands so now. Returns once that is kept, or after a moment where it cannot be.

        The next notification is sent after that: a crash makes a receiver hear one twice, not many.
        """
