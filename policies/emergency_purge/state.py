"""What emergency_purge carries from one view to the next.

Belongs here: the phases, the state, what is remembered of memory. Never: a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from policies.hysteresis import OFF, Held
from policies.oom import OomWatch
from policies.trend import Spans

HOUR_S = 3600.0


class Phase(StrEnum):
    """Where an emergency stands."""

    CALM = "calm"
    ACTING = "acting"
    RECOVERING = "recovering"


class Cause(StrEnum):
    """What kind of pressure it is."""

    MEMORY = "memory"
    OOM = "oom"
    RESTARTED = "restarted"
    """The engine came back from an end that bore the signature of running out of memory."""
    CROWDED = "crowded"
    ASKED = "asked"
    """None that is seen here: an alert from outside asks for the measures."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a measure has to bring down."""

    memory_ratio: float | None = None
    preemptions_per_s: float | None = None
    oldest_waiting_s: float | None = None


@dataclass(frozen=True, slots=True)
class EmergencyState:
    """Plain values; times are the View's monotonic seconds, None: never."""

    boot_id: str | None = None
    memory: Spans = ()
    """Lowest GPU memory of late, to see it grow."""
    tight: Held = OFF
    crowded: Held = OFF
    oom: OomWatch = field(default_factory=OomWatch)
    started: tuple[float, ...] = ()
    """When the emergencies of the last hour began; then its purges and its preemptions."""
    purged: tuple[float, ...] = ()
    preempted: tuple[float, ...] = ()

    asked: str | None = None
    """Who asks from outside for the measures now, as a clause; heard by one view alone."""
    phase: Phase = Phase.CALM
    cause: Cause | None = None
    began_s: float = 0.0
    measure: int = 0
    """Which measure is in force, counted from 1."""
    measured_s: float = 0.0
    before: Figures = Figures()
    relieved: bool | None = None
    """None: not judged yet."""
    budget_before: float | None = None
    """What the budget goes back to; None: it was not cut."""
    queue_cut: bool = False
    queue_before: float | None = None
    """What the queue limit goes back to; None: no limit."""
    budget_from: float | None = None
    """What the last step back of the budget began at; None: none was asked for yet."""
    budget_top: float | None = None
    """The highest that the budget was seen at on its way back."""
    budget_vain: int = 0
    """How many steps in a row were asked for and not made."""
    stage: int = 0
    eased_s: float = 0.0
    """How long the present stage has been seen without pressure."""
    eased_seen_s: float | None = None
    relapses: int = 0


def within_hour(times: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Those that still count."""
    return tuple(at_s for at_s in times if now_s - at_s < HOUR_S)


def ask(state: EmergencyState, who: str) -> EmergencyState:
    """The state with a wish from outside, which the next view grants or refuses like pressure of its own."""
    return replace(state, asked=who)


def unrelieved(state: EmergencyState | None) -> bool:
    """Whether the last measure was judged and did not help, for the alert."""
    return acting(state) and state is not None and state.relieved is False


def acting(state: EmergencyState | None) -> bool:
    """Whether measures are being taken, for the alert; not where the policy does not run (None)."""
    return state is not None and state.phase is Phase.ACTING
