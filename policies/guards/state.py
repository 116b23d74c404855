"""What the guards remember of each knob, worked out from the views and from what was let through.

Whether a change took effect is seen in a later view, so the same views give the same memory: a history can be
replayed. Belongs here: that memory. Never: what may pass (checks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from domain.knobs import TRAITS
from domain.runtime import EngineRuntime
from domain.view import View
from policies.guards.settings import GuardSettings

MOST_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class KnobMemory:
    """One knob. Times are the View's monotonic seconds, None: never."""

    name: str
    changed_s: float | None = None
    """When the guards last let a change of it through that took effect."""
    direction: int = 0
    """Which way that was; 0: none on this boot, or an operator's."""
    reversals: tuple[float, ...] = ()
    """When it went the other way than the time before, inside the reversal window."""
    level: int = 0
    """How often the dwell is doubled, as of the last reversal."""
    failures: int = 0
    """Changes in a row that did not take effect."""
    rests_until_s: float | None = None
    """After such a failure."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A change that was let through and is not seen in a view yet."""

    knob: str
    old: float
    value: float
    at_s: float
    operator: bool = False


@dataclass(frozen=True, slots=True)
class GuardState:
    """Plain values."""

    boot_id: str | None = None
    met_s: float | None = None
    knobs: tuple[KnobMemory, ...] = ()
    sent: tuple[Sent, ...] = ()
    loosened: str | None = None
    """The knob that was loosened last, and when."""
    loosened_s: float | None = None

    def of(self, knob: str) -> KnobMemory:
        """What is remembered of a knob."""
        return next((one for one in self.knobs if one.name == knob), KnobMemory(knob))

    def with_(self, memory: KnobMemory) -> GuardState:
        """The same with another memory of one knob."""
        others = tuple(one for one in self.knobs if one.name != memory.name)
        return replace(self, knobs=tuple(sorted((*others, memory), key=lambda one: one.name)))


def observe(state: GuardState, view: View, settings: GuardSettings, tick_s: float) -> GuardState:
    """Meet a boot, and see what became of what was sent. Nothing is concluded while the engine does not answer."""
    runtime = view.runtime
    if runtime is None:
        return state
    if runtime.boot_id != state.boot_id:
        # Times stay, of what was sent just before too: a restart is no leave to change more often.
        for sent in state.sent:
            state = state.with_(replace(state.of(sent.knob), changed_s=sent.at_s))
        kept = tuple(KnobMemory(one.name, one.changed_s, reversals=one.reversals) for one in state.knobs)
        return GuardState(boot_id=runtime.boot_id, met_s=view.now_s, knobs=kept)
    for sent in state.sent:
        state = _conclude(state, sent, runtime, settings, tick_s)
    return replace(state, sent=())


def note_sent(state: GuardState, sent: Sent, *, loosening: bool, seen: bool) -> GuardState:
    """A change is let through. `seen` False: no view will show it, so it counts as in effect at once."""
    if loosening and not sent.operator:
        state = replace(state, loosened=sent.knob, loosened_s=sent.at_s)
    if not seen:
        return state.with_(replace(state.of(sent.knob), changed_s=sent.at_s))
    return replace(state, sent=(*state.sent, sent))


def withdraw(state: GuardState) -> GuardState:
    """What was let through last was not sent after all: it is no failure of the engine's."""
    return replace(state, sent=())


def in_window(memory: KnobMemory, now_s: float, settings: GuardSettings) -> tuple[float, ...]:
    """The reversals that still count."""
    return tuple(at_s for at_s in memory.reversals if now_s - at_s < settings.reversal_window_s)


def dwell_s(memory: KnobMemory, now_s: float, settings: GuardSettings) -> float:
    """How long the knob stays put before it may be loosened: 0 where it never turned back, or not for long."""
    level = _level(memory, now_s, settings)
    return TRAITS[memory.name].effect_delay_s * 2.0**level if level else 0.0


def _level(memory: KnobMemory, now_s: float, settings: GuardSettings) -> int:
    if not memory.reversals or not memory.level:
        return 0
    quiet = math.floor(max(0.0, now_s - memory.reversals[-1]) / settings.dwell_decay_s)
    return max(0, memory.level - quiet)


def _conclude(
    state: GuardState, sent: Sent, runtime: EngineRuntime, settings: GuardSettings, tick_s: float
) -> GuardState:
    knob, memory = runtime.knob(sent.knob), state.of(sent.knob)
    if knob is None or knob.value != sent.value or knob.disagreeing:
        failures = memory.failures + 1
        pause_s = 0.9 * tick_s * 2.0 ** min(failures, MOST_DOUBLINGS)
        rest_s = min(pause_s, max(settings.back_off_s, tick_s))
        return state.with_(replace(memory, failures=failures, rests_until_s=sent.at_s + rest_s))
    memory = replace(memory, changed_s=sent.at_s, failures=0, rests_until_s=None)
    direction = (sent.value > sent.old) - (sent.value < sent.old)
    if sent.operator:
        return state.with_(replace(memory, direction=0))
    if memory.direction * direction < 0:
        level = min(_level(memory, sent.at_s, settings) + 1, settings.dwell_doublings)
        memory = replace(memory, level=level, reversals=(*in_window(memory, sent.at_s, settings), sent.at_s))
    return state.with_(replace(memory, direction=direction or memory.direction))
