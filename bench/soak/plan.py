"""Which fault comes when, and how long it lasts.

Belongs here: names, lengths, times. Never: making a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FIRST_CLIENTS = 8
MANY_CLIENTS = 64
FEW_CLIENTS = 16

MINUTES = 20.0
QUICK_MINUTES = 3.0
LEASE_S = 15.0
"""The daemon's default: a fault longer than this sends the engine to its fallback values."""
QUIET_FIRST_S = 10.0
"""Steered and undisturbed, before the first fault."""
RECOVERY_S = 6.0
"""What the plan leaves after each fault; a longer recovery puts the next one off."""


class Kind(StrEnum):
    """What is done to whom; the value is shown."""

    LOAD = "load"
    ENGINE_RESTART = "engine restart"
    DAEMON_KILL = "daemon SIGKILL"
    METRICS_500 = "metrics: 500"
    METRICS_HANG = "metrics: hang"
    METRICS_EMPTY = "metrics: empty"
    ADMIN_500 = "admin RPC: 500"
    ADMIN_HANG = "admin RPC: hang"
    CHANGE_500 = "change: 500"
    CHANGE_CUT = "change: cut"
    CHANGE_STALE = "change: 412"


METRICS = frozenset({Kind.METRICS_500, Kind.METRICS_HANG, Kind.METRICS_EMPTY})
ADMIN = frozenset({Kind.ADMIN_500, Kind.ADMIN_HANG})
CHANGES = frozenset({Kind.CHANGE_500, Kind.CHANGE_CUT, Kind.CHANGE_STALE})
"""Of the admin calls only those that change something: with no other call answered the daemon would not try one."""


SAID = {
    Kind.LOAD: "so many closed-loop clients from now on",
    Kind.ENGINE_RESTART: "vLLM gets SIGTERM and is started again",
    Kind.DAEMON_KILL: "the daemon gets SIGKILL and is started again after a while",
    Kind.METRICS_500: "vLLM's /metrics answers 500",
    Kind.METRICS_HANG: "vLLM's /metrics does not answer",
    Kind.METRICS_EMPTY: "vLLM's /metrics answers 200 with nothing",
    Kind.ADMIN_500: "every admin call answers 500, none reaches the engine",
    Kind.ADMIN_HANG: "no admin call is answered, none reaches the engine",
    Kind.CHANGE_500: "every change of a knob answers 500 and does not reach the engine",
    Kind.CHANGE_CUT: "every change of a knob is carried out, and the connection breaks instead of an answer",
    Kind.CHANGE_STALE: "every change of a knob is refused as stale",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One disturbance. `lasts_s` is 0 for a step of the load; of an engine restart it is what a start takes here.

    A fault of changes lasts longer where none is made in that time (bench/soak/faults.py).
    """

    kind: Kind
    lasts_s: float = 0.0
    clients: int | None = None
    """Of a step of the load."""

    @property
    def what(self) -> str:
        """As it is shown and reported."""
        return f"{self.kind}: {self.clients} clients" if self.clients is not None else self.kind.value


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault and when it is due, seconds from the start of the soak. It waits for the one before to be mended."""

    at_s: float
    fault: Fault


def _clients(number: int) -> Fault:
    return Fault(Kind.LOAD, clients=number)


START_S = 40.0
"""What the plan leaves for a restart of the engine."""

ROUND = (
    _clients(MANY_CLIENTS),
    Fault(Kind.CHANGE_500, 10.0),
    _clients(FEW_CLIENTS),
    Fault(Kind.METRICS_500, 45.0),
    _clients(MANY_CLIENTS),
    Fault(Kind.ADMIN_500, 10.0),
    Fault(Kind.DAEMON_KILL, LEASE_S / 3),
    _clients(FEW_CLIENTS),
    Fault(Kind.ADMIN_HANG, LEASE_S + 10.0),
    _clients(MANY_CLIENTS),
    Fault(Kind.METRICS_HANG, 45.0),
    _clients(FEW_CLIENTS),
    Fault(Kind.ENGINE_RESTART, START_S),
    _clients(MANY_CLIENTS),
    Fault(Kind.CHANGE_CUT, 15.0),
    Fault(Kind.METRICS_EMPTY, 45.0),
    _clients(FEW_CLIENTS),
    Fault(Kind.DAEMON_KILL, LEASE_S + 10.0),
    _clients(MANY_CLIENTS),
    Fault(Kind.CHANGE_STALE, 15.0),
    _clients(FIRST_CLIENTS),
)
"""Most come right after a step of the load, while something is to be changed."""

QUICK_ROUND = (
    _clients(MANY_CLIENTS),
    Fault(Kind.CHANGE_500, 4.0),
    Fault(Kind.ADMIN_500, 4.0),
    Fault(Kind.ADMIN_HANG, 5.0),
    Fault(Kind.METRICS_500, 5.0),
    Fault(Kind.METRICS_HANG, 5.0),
    Fault(Kind.METRICS_EMPTY, 5.0),
    Fault(Kind.DAEMON_KILL, LEASE_S + 2.0),
    _clients(FEW_CLIENTS),
    Fault(Kind.CHANGE_CUT, 4.0),
    Fault(Kind.CHANGE_STALE, 4.0),
    Fault(Kind.ENGINE_RESTART, START_S),
)
"""Each kind once, as short as it can be and still be seen."""


def needed_s(faults: Sequence[Fault]) -> float:
    """The least time that `faults` take one after another."""
    return QUIET_FIRST_S + sum(fault.lasts_s + RECOVERY_S for fault in faults)


def schedule(minutes: float, *, quick: bool) -> tuple[Planned, ...]:
    """The faults spread over so many minutes, each right after its step of the load.

    Raises ValueError when they do not fit.
    """
    total_s = 60.0 * minutes
    round_ = QUICK_ROUND if quick else ROUND
    least_s = needed_s(round_)
    if total_s < least_s:
        raise ValueError(
            f"cannot fit {len(round_)} faults into {minutes:g} minutes: give at least {least_s / 60:.1f}"
            + ("" if quick else ", or --quick")
        )
    # A long soak repeats the round rather than to wait between its faults.
    faults = round_ * max(1, int(total_s / max(60.0 * MINUTES, least_s)))
    gap_s = (total_s - needed_s(faults)) / sum(fault.kind is not Kind.LOAD for fault in faults)
    planned, at_s = [], QUIET_FIRST_S
    for fault in faults:
        planned.append(Planned(at_s, fault))
        at_s += fault.lasts_s + RECOVERY_S + (0.0 if fault.kind is Kind.LOAD else gap_s)
    return tuple(planned)
