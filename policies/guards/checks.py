"""The guards one by one: each answers why a change may not be made now, or nothing.

Belongs here: freshness, warm-up, draining, refuted settings, cooldown, dwell, one at a time, reversals. Never: the
order they are asked in (ruling), what is remembered (state).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from domain.decision import Mode, Priority
from domain.knobs import MAX_NUM_SEQS, TRAITS, Loosens, loosens, tightens
from domain.outcome import Refuted
from domain.runtime import EngineRuntime
from domain.snapshot import Source
from domain.view import View
from policies.guards.choice import ACTS
from policies.guards.settings import GuardSettings
from policies.guards.state import GuardState, dwell_s, in_window


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for: one knob from `old` to `new`."""

    knob: str
    old: float
    new: float
    priority: Priority

    @property
    def loosening(self) -> bool:
        """It lets more work in."""
        return loosens(self.knob, self.old, self.new)

    @property
    def tightening(self) -> bool:
        """It lets less work in."""
        return tightens(self.knob, self.old, self.new)

    @property
    def urgent(self) -> bool:
        """An emergency's cut or act: nothing else is urgent, more work least of all."""
        return self.priority is Priority.EMERGENCY and (self.tightening or self.knob in ACTS)

    @property
    def direction(self) -> int:
        """1 up, -1 down."""
        return (self.new > self.old) - (self.new < self.old)


def forbidden_by_mode(mode: Mode, priority: Priority) -> str | None:
    """Modes of docs/operations.md."""
    if mode in (Mode.AUTO, Mode.STATIC) or (mode is Mode.MANUAL and priority is Priority.OPERATOR):
        return None
    return f"mode {mode} changes nothing"


def backing_off(state: GuardState, change: Change, now_s: float) -> str | None:
    """Changes that did nothing are tried again later and later."""
    memory = state.of(change.knob)
    if memory.rests_until_s is None or now_s >= memory.rests_until_s:
        return None
    return f"{change.knob} rests after {memory.failures} changes without effect"


def warming_up(state: GuardState, settings: GuardSettings, now_s: float) -> str | None:
    """Right after meeting an engine nothing that is measured speaks of it yet."""
    since_s = now_s - state.met_s if state.met_s is not None else 0.0
    if since_s >= settings.warm_up_s:
        return None
    return f"the engine was met {since_s:.1f} s ago, no change before {settings.warm_up_s:g} s"


def blind(view: View, settings: GuardSettings, tick_s: float, change: Change) -> str | None:
    """Only less work may be let in on old readings, and no emergency is declared on them."""
    if change.tightening and change.priority is not Priority.EMERGENCY:
        return None
    for source in (Source.METRICS, Source.RUNTIME):
        age_s = view.ages_s.get(source)
        if age_s is None:
            return f"{source} never gave a reading"
        if age_s > settings.stale_ticks * tick_s:
            return f"{source} is {age_s:.1f} s old"
    return None


def draining(runtime: EngineRuntime, change: Change) -> str | None:
    """While more run than the last cut allows: no second cut of the cap, and nothing that lets more in."""
    if change.knob != MAX_NUM_SEQS and not change.loosening:
        return None
    over = [core for core in runtime.cores if core.draining]
    if not over:
        return None
    return f"the last cut of {MAX_NUM_SEQS} is draining, {max(core.running for core in over)} still run"


def refuted_before(refuted: Iterable[Refuted], change: Change, now_s: float) -> str | None:
    """What was tried at this load and was worse."""
    if change.priority <= Priority.ROLLBACK:
        return None
    for one in refuted:
        if now_s < one.until_s and one.covers(change.knob, change.new):
            left_s = one.until_s - now_s
            return f"{change.knob} at {one.value:g} was worse than {one.instead_of:g}, not again for {left_s:.0f} s"
    return None


def resting(state: GuardState, settings: GuardSettings, change: Change, now_s: float) -> str | None:
    """The cooldown of a knob; a second cut waits for the effect of the first; a raise after a turn waits the dwell."""
    memory = state.of(change.knob)
    if memory.changed_s is None:
        return None
    since_s, wait_s = now_s - memory.changed_s, settings.rest_s(change.knob)
    if change.tightening and memory.direction == change.direction:
        wait_s = max(wait_s, TRAITS[change.knob].effect_delay_s)
    elif not change.tightening:
        wait_s = max(wait_s, dwell_s(memory, now_s, settings))
    if since_s >= wait_s:
        return None
    return f"{change.knob} rests: the last change is {since_s:.1f} s old, the next is due after {wait_s:g} s"


def one_at_a_time(state: GuardState, change: Change, now_s: float) -> str | None:
    """What one loosening does must be seen before the next of another knob; so must it before a mere try."""
    if state.loosened is None or state.loosened_s is None or state.loosened == change.knob:
        return None
    explores = TRAITS[change.knob].loosens is Loosens.NEITHER and change.priority >= Priority.GROW
    if not change.loosening and not explores:
        return None
    since_s, wait_s = now_s - state.loosened_s, TRAITS[state.loosened].effect_delay_s
    if since_s >= wait_s:
        return None
    return f"one at a time: {state.loosened} was loosened {since_s:.1f} s ago, its effect takes {wait_s:g} s"


def turning_too_often(state: GuardState, settings: GuardSettings, change: Change, now_s: float) -> str | None:
    """A cut is always allowed, so whatever loosens leaves room in the count for the cut that may have to follow."""
    if change.tightening:
        return None
    memory = state.of(change.knob)
    count = len(in_window(memory, now_s, settings))
    turns = memory.direction * change.direction < 0
    room = 1 if change.loosening else 0
    if count + turns + room <= settings.max_reversals:
        return None
    return f"{change.knob} turned back {count} times within {settings.reversal_window_s:g} s"
