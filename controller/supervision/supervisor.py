"""When the service manager is told what.

Belongs here: ready, reloading, stopping, the watchdog, the status line. Never: datagrams (notifier.py), a tick.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence

from controller import clock
from controller.alerting.ticked import Ticked
from controller.metrics.observed import Observed
from controller.supervision.notifier import Notifier
from domain.decision import Decision, Status
from policies.trial import shown

logger = logging.getLogger(__name__)

US = 1_000_000


class Supervisor:
    """Called at the end of each tick; one for the daemon's life.

    The watchdog is fed by ticks that ran to their end, whatever they read: an engine that does not answer is none of
    its business, a tick that fails or never ends is.
    """

    def __init__(
        self, observed: Observed, notifier: Notifier | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._observed = observed
        self._notifier = Notifier(environment) if notifier is None else notifier
        self._unit_us = watchdog_us(environment)
        self._last: Decision | None = None
        self._status = ""

    def ready(self) -> None:
        """The start is over, or a reload is, one that was refused too: then the old settings go on."""
        self._status = self._said()
        self._notifier.tell(READY=1, STATUS=self._status, **self._watchdog())

    def reloading(self) -> None:
        """The settings are being read again; `ready` follows."""
        self._notifier.tell(RELOADING=1, MONOTONIC_USEC=int(clock.now().monotonic_s * US))

    def stopping(self) -> None:
        """The stop has begun."""
        self._notifier.tell(STOPPING=1, STATUS="stopping: the engine takes its fallback values when the lease runs out")

    def close(self) -> None:
        """Nothing is told any more."""
        self._notifier.close()

    def __call__(self, ticked: Ticked) -> None:
        """A tick is over."""
        self._last = _newest(self._last, ticked.news)
        fed = {} if ticked.failed else {"WATCHDOG": 1}
        status = self._said(ticked)
        told = {} if status == self._status else {"STATUS": status}
        self._status = status
        if fed or told:
            self._notifier.tell(**fed, **told)

    def _watchdog(self) -> dict[str, int]:
        """Settings may let a tick take longer than the unit's WatchdogSec: then the manager waits as long as they."""
        if self._unit_us is None:
            return {}
        return {"WATCHDOG_USEC": max(self._unit_us, round(self._observed.fresh_for_s * US)), "WATCHDOG": 1}

    def _said(self, ticked: Ticked | None = None) -> str:
        parts = [f"mode {self._observed.mode.value}"]
        if ticked is not None and ticked.failed:
            parts.append("the last tick failed")
        elif ticked is not None and self._observed.runtime is None:
            parts.append("the engine does not answer")
        return "; ".join((*parts, "nothing decided yet" if self._last is None else _words(self._last)))


def watchdog_us(environment: Mapping[str, str]) -> int | None:
    """The unit's WatchdogSec in microseconds; None: the manager expects nothing of this process."""
    given, whose = environment.get("WATCHDOG_USEC"), environment.get("WATCHDOG_PID")
    if not given or (whose and whose != str(os.getpid())):
        return None
    if not given.isascii() or not given.isdecimal() or int(given) == 0:
        logger.warning("cannot use WATCHDOG_USEC = %r: it is no number of microseconds; no watchdog is fed", given)
        return None
    return int(given)


def _newest(before: Decision | None, news: Sequence[Decision]) -> Decision | None:
    """The last decision. Holds are many, and say less than the change before them: they count until there is one."""
    for decision in news:
        if before is None or before.status is Status.HOLD or decision.status is not Status.HOLD:
            before = decision
    return before


def _words(decision: Decision) -> str:
    change = "" if decision.requested is None else f" {_value(decision.old)} -> {_value(decision.requested)}"
    what = f"{decision.knob}{change}, {decision.status.value}"
    return f"{decision.at:%Y-%m-%d %H:%M:%S} UTC {what}: {decision.sentence}"


def _value(value: float | None) -> str:
    return "-" if value is None else shown(value)
