"""Settings that proved bad, each with the load and the engine that it proved bad for.

Belongs here: remembering, forgetting, which of them hold now. Never: the verdict itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from domain.outcome import Refuted
from domain.runtime import EngineRuntime
from domain.view import View
from policies.evidence import Load
from policies.judgement import JudgementSettings

SAME_LOAD = 1.5
"""Loads within this factor are one regime."""
MOST_REGIMES = 64
FORGOTTEN_AFTER = 3.0
"""Times as long as it was avoided: then the next time counts as the first."""


@dataclass(frozen=True, slots=True)
class Regime:
    """One setting that was undone."""

    knob: str
    value: float
    instead_of: float
    envelope: tuple[tuple[str, float], ...]
    load: Load | None
    until_s: float
    for_s: float


def remember(
    known: Sequence[Regime],
    knob: str,
    value: float,
    instead_of: float,
    view: View,
    load: Load | None,
    settings: JudgementSettings,
) -> tuple[Regime, ...]:
    """Avoid a setting for a while, twice as long as the last time."""
    envelope = envelope_of(view.runtime)
    again = [one for one in known if _same(one, knob, value, instead_of, envelope, load)]
    for_s = min(settings.refuted_max_s, max((2 * one.for_s for one in again), default=settings.refuted_s))
    fresh = Regime(knob, value, instead_of, envelope, load, view.now_s + for_s, for_s)
    kept = [one for one in known if one not in again and view.now_s < one.until_s + FORGOTTEN_AFTER * one.for_s]
    return (*kept, fresh)[-MOST_REGIMES:]


def active(known: Sequence[Regime], view: View, load: Load | None) -> frozenset[Refuted]:
    """Those that hold now."""
    if not known:
        return frozenset()
    envelope = envelope_of(view.runtime)
    return frozenset(
        Refuted(one.knob, one.value, one.instead_of, one.until_s)
        for one in known
        if view.now_s < one.until_s and one.envelope == envelope and alike(one.load, load)
    )


def envelope_of(runtime: EngineRuntime | None) -> tuple[tuple[str, float], ...]:
    """What an engine was started with: another envelope is another engine, the same after a restart is not."""
    return () if runtime is None else tuple(sorted(runtime.envelope.items()))


def alike(one: Load | None, other: Load | None) -> bool:
    """Whether two loads are one regime: as many arrive, or as many are inside. Unknown is alike."""
    if one is None or other is None:
        return True
    return _near(one.per_s, other.per_s) or _near(one.inside, other.inside)


def _near(one: float, other: float) -> bool:
    low, high = sorted((one, other))
    return high <= SAME_LOAD * low


def _same(
    one: Regime,
    knob: str,
    value: float,
    instead_of: float,
    envelope: tuple[tuple[str, float], ...],
    load: Load | None,
) -> bool:
    past = Refuted(one.knob, one.value, one.instead_of, one.until_s).covers(knob, value)
    same_way = (value > instead_of) == (one.value > one.instead_of)
    return past and same_way and one.envelope == envelope and alike(one.load, load)
