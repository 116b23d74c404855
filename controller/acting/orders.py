"""What an operator orders once, beside the policies: it is decided, guarded and recorded at the next tick like theirs.

Belongs here: an order on its way through a tick. Never: what may be ordered (controller/operations).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from domain.decision import Decision, Proposal


@dataclass(slots=True, eq=False)
class Order:
    """`decisions` is what became of it; None: no tick has got that far."""

    proposals: tuple[Proposal, ...]
    decisions: tuple[Decision, ...] | None = None

    def settle(self, decisions: Sequence[Decision]) -> None:
        """The tick that took it is over."""
        knobs = {one.knob for one in self.proposals}
        self.decisions = tuple(one for one in decisions if one.knob in knobs)


class Orders:
    """Those that no tick has taken yet."""

    def __init__(self) -> None:
        self._waiting: list[Order] = []

    def give(self, proposals: Sequence[Proposal]) -> Order:
        """For the next tick."""
        order = Order(tuple(proposals))
        self._waiting.append(order)
        return order

    def take(self) -> list[Order]:
        """All that wait; each is taken once, whatever becomes of the tick."""
        taken, self._waiting = self._waiting, []
        return taken
