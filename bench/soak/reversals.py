"""How often a knob changed its direction, from the history.

Belongs here: counting. Never: reading the history, the guards' own count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from domain.decision import Decision, Status
from domain.knobs import PREEMPT, PURGE

MINUTE_S = 60.0
ACTS = frozenset({PURGE, PREEMPT})
MOVED = frozenset({Status.APPLIED, Status.PARTIAL, Status.DIVERGED})


@dataclass(frozen=True, slots=True)
class Reversals:
    """By knob: changes, reversals, reversals a minute over the whole run, and the most in any one minute."""

    changes: dict[str, int]
    reversals: dict[str, int]
    per_min: dict[str, float]
    most_in_a_minute: dict[str, int]

    @property
    def worst_per_min(self) -> float:
        """Of the knob that swings most; 0 when none moved."""
        return max(self.per_min.values(), default=0.0)


def count(decisions: Iterable[Decision], minutes: float) -> Reversals:
    """Changes of direction among the changes that reached the engine, `decisions` oldest first.

    A restart of the engine begins a knob's memory anew: it then stands where vLLM was started, which nobody decided. A
    restart of the daemon does not.
    """
    boots: dict[str, str | None] = {}
    directions: dict[str, int] = {}
    changes: Counter[str] = Counter()
    at_s: dict[str, list[float]] = {}
    for decision in decisions:
        direction = _direction(decision)
        if direction == 0:
            continue
        knob = decision.knob
        changes[knob] += 1
        turned = boots.get(knob) == decision.boot_id and directions.get(knob) == -direction
        boots[knob], directions[knob] = decision.boot_id, direction
        turns = at_s.setdefault(knob, [])
        if turned:
            turns.append(decision.at.timestamp())
    return Reversals(
        changes=dict(changes),
        reversals={knob: len(turns) for knob, turns in at_s.items()},
        per_min={knob: len(turns) / minutes for knob, turns in at_s.items()},
        most_in_a_minute={knob: _most_within(turns, MINUTE_S) for knob, turns in at_s.items()},
    )


def _direction(decision: Decision) -> int:
    """1 up, -1 down, 0 for what moved nothing."""
    if decision.knob in ACTS or decision.status not in MOVED:
        return 0
    if decision.old is None or decision.observed is None:
        return 0
    return (decision.observed > decision.old) - (decision.observed < decision.old)


def _most_within(at_s: list[float], window_s: float) -> int:
    return max((sum(begin <= t < begin + window_s for t in at_s) for begin in at_s), default=0)
