"""Whether a knob may be moved by hand now.

Belongs here: the mode, a rollback, another daemon. Never: the engine's bounds, the guards between policies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.engine import holder
from controller.loop import Loop
from controller.operations.refusal import Kind, Refused
from domain.decision import Mode
from domain.snapshot import Source
from policies.trial import shown


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Two clauses for people."""

    reason: str
    remedy: str


def forbidden(loop: Loop, knobs: Iterable[str] = ()) -> Forbidden | None:
    """Why these knobs (none: an act such as a purge) may not be moved by an operator; None: they may."""
    if why := steered_by_another(loop):
        return why
    rollback, mode = loop.rollback[0], loop.observed.mode
    held = loop.settings.policies.static.values if mode is Mode.STATIC and rollback is None else {}
    for knob in knobs:
        if rollback is not None and knob in rollback.values:
            return Forbidden(f"a rollback holds {knob} at {shown(rollback.values[knob])}", "undo the rollback first")
        if knob in held:
            return Forbidden(f"mode static holds {knob} at {shown(held[knob])}", "switch to mode auto or manual first")
    if mode not in (Mode.OBSERVE, Mode.PAUSED):
        return None
    if window := loop.observed.maintenance:
        reason = f"the maintenance window {window.name} is open until {window.until:%Y-%m-%d %H:%M} UTC"
        return Forbidden(reason, "wait for its end, or take it out of the settings and reload")
    return Forbidden(f"mode {mode} changes nothing", "switch to mode auto or manual first")


def steered_by_another(loop: Loop) -> Forbidden | None:
    """While another daemon holds the engine's lease this one only observes."""
    if loop.held_by is None:
        return None
    who = holder.shown(loop.held_by)
    return Forbidden(f"{who} steers this engine, and this daemon only observes it", "ask that one, or stop it")


def engine_silent(loop: Loop, doing: str) -> Refused:
    """The refusal of whatever needs an engine that answers."""
    snapshot = loop.observed.snapshot
    problem = None if snapshot is None else snapshot.problems.get(Source.RUNTIME)
    why = "no tick has read it yet" if problem is None else problem
    remedy = f"see that vLLM runs at {loop.settings.engine.url} with the governor's plugin, then try again"
    return Refused(Kind.UNAVAILABLE, doing, f"the engine does not answer ({why})", remedy)
