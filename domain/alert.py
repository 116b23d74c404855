"""Alerts as values: a rule that a signal breaks, where it stands, and the moment it goes from one state to the next.

Belongs here: those values. Never: the rules that are shipped (policies/alert_thresholds), how an alert is delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How much a person has to care."""

    INFO = "info"
    """Worth knowing; often true on a healthy engine."""
    WARNING = "warning"
    CRITICAL = "critical"


class Comparison(StrEnum):
    """On which side of the threshold the trouble is."""

    ABOVE = "above"
    BELOW = "below"


class AlertState(StrEnum):
    """Inactive, pending (broken, but not for long enough yet), firing, resolved (was firing, and is over)."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Condition:
    """A level that a signal is on the wrong side of. At the level itself it is not."""

    signal: str
    """A signal's name, or arithmetic over several: `waiting / max(running, 1)`."""
    comparison: Comparison
    threshold: float

    def holds(self, value: float) -> bool:
        """Whether `value` is beyond the threshold."""
        return value > self.threshold if self.comparison is Comparison.ABOVE else value < self.threshold


@dataclass(frozen=True, slots=True)
class Rule:
    """`condition` for `for_s` seconds fires; it resolves once the signal is at `clear` or better for
    `keep_firing_for_s`.
    """

    name: str
    condition: Condition
    clear: float
    for_s: float
    severity: Severity
    summary: str
    only_while: tuple[Condition, ...] = ()
    """The rule speaks only while these hold as well: a load, say."""
    rise_over_s: float | None = None
    """Compare not the signal but its rise over its lowest of so many seconds."""
    keep_firing_for_s: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the alert is, beside its name and severity: receivers and inhibitions go by them."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What a person may want to read, beside the summary and the sentence."""

    def cleared(self, value: float) -> bool:
        """Whether `value` is at the clear level or better."""
        return value <= self.clear if self.condition.comparison is Comparison.ABOVE else value >= self.clear


@dataclass(frozen=True, slots=True)
class Transition:
    """One rule went from one state to another; `now_s` is the View's monotonic time."""

    rule: Rule
    before: AlertState
    after: AlertState
    now_s: float
    value: float
    sentence: str
    """The numbers, in words."""

    @property
    def annotations(self) -> dict[str, str]:
        """All that a person is told of it: the rule's annotations, its summary, the sentence as description."""
        return {**self.rule.annotations, "summary": self.rule.summary, "description": self.sentence}
