"""What a tick leaves for the alerts and for whoever listens, one that failed too.

Belongs here: that value. Never: working anything out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from domain.audit import Action
from domain.decision import Decision
from domain.outcome import Outcome
from domain.snapshot import Snapshot
from domain.view import View
from store.writer import WriterState


@dataclass(slots=True)
class Ticked:
    """Filled while the tick goes on. None and empty: it failed before it got there."""

    now_s: float
    """When it began, by the monotonic clock; `wall` for people."""
    wall: datetime
    failed: bool = True
    snapshot: Snapshot | None = None
    view: View | None = None
    contested: bool = False
    """The engine had taken up somebody else's fallback values."""
    told: Mapping[str, float] = field(default_factory=dict)
    """What the policies say of themselves."""
    decided: bool = False
    decisions: Sequence[Decision] = ()
    """Those that were carried out, or could not be, among them."""
    news: Sequence[Decision] = ()
    """Of the decisions those that the log and the history were told."""
    actions: Sequence[Action] = ()
    """What became of alerts from outside, for the audit."""
    verdicts: Mapping[str, Outcome] = field(default_factory=dict)
    """On earlier changes, by uid."""
    history: WriterState | None = None

    def take(self, view: View, told: Mapping[str, float], decisions: Sequence[Decision]) -> None:
        """The policies have decided; nothing is carried out yet."""
        self.decided, self.view, self.told, self.decisions = True, view, told, decisions
