"""What the engine used, did and cost.

Belongs here: one column for a period, or one for each setting in it. Never: formulas (domain/cost.py), SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from controller.operations.readings import check_span
from controller.operations.refusal import Kind, Refused
from domain.cost import Figures, Tariff, figures
from domain.knobs import TRAITS
from domain.ledger import LedgerEntry
from store.history import History
from store.ledger import Setting

MOST_SETTINGS = 3
"""Columns by setting: those that were in force longest."""
DOING = "tell the cost"
Period = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Column:
    """One period, or one setting in it."""

    since: datetime
    until: datetime
    setting: Setting | None
    """The knobs that tell this column from the others; None: all settings."""
    figures: Figures
    resolution_s: int
    """Of the coarsest entry: older ones are kept by the hour and the day, and the period is one of whole ones."""
    notes: tuple[str, ...]


class Cost:
    """Reads alone. Raises HistoryUnavailable."""

    def __init__(self, history: History, tariff: Callable[[], Tariff]) -> None:
        """`tariff` answers the configured prices."""
        self._history = history
        self.tariff = tariff

    async def period(self, since: datetime, until: datetime, node: str | None = None) -> Column:
        """All settings together. Raises Refused (INVALID) for a period that ends before it begins."""
        check_span(DOING, since, until)
        return await of_period(self._history, (since, until), node, self.tariff())

    async def by_setting(
        self, since: datetime, until: datetime, knobs: Sequence[str] = (), node: str | None = None
    ) -> list[Column]:
        """One for each of the MOST_SETTINGS longest settings, told apart by `knobs` (empty: all). Raises Refused."""
        check_span(DOING, since, until)
        for knob in knobs:
            if knob not in TRAITS:
                remedy = f"the knobs are {', '.join(TRAITS)}"
                raise Refused(Kind.INVALID, DOING, f"there is no knob {knob}", remedy, "by")
        return await by_setting(self._history, (since, until), knobs, node, self.tariff())


async def of_period(history: History, period: Period, node: str | None, tariff: Tariff) -> Column:
    """All settings together; of one node, or of all."""
    entries = await history.ledger.sums(*period, node=node, by_setting=False)
    notes = await history.ledger.notes(*period, node=node)
    said = tuple(f"{note.at:%Y-%m-%d %H:%M}{_who(note.node, node)}: {note.text}" for note in notes)
    return _column(period, None, entries, tariff, said)


async def by_setting(
    history: History, period: Period, knobs: Sequence[str], node: str | None, tariff: Tariff
) -> list[Column]:
    """The longest settings, by these knobs (none: by all)."""
    shown = await history.ledger.longest(*period, MOST_SETTINGS, knobs=knobs, node=node)
    differ = {name for setting, _ in shown for name in setting if len({s.get(name, "unknown") for s, _ in shown}) > 1}
    kept = [({n: v for n, v in s.items() if n in differ or len(shown) == 1}, entries) for s, entries in shown]
    return [_column(period, setting, entries, tariff) for setting, entries in kept]


def _column(
    period: Period, setting: Setting | None, entries: Sequence[LedgerEntry], tariff: Tariff, notes: tuple[str, ...] = ()
) -> Column:
    since, until = period
    made = figures(entries, (until - since).total_seconds(), tariff)
    return Column(since, until, setting, made, max((one.resolution_s for one in entries), default=60), notes)


def _who(node: str, asked: str | None) -> str:
    return f" {node}" if asked is None and node else ""
