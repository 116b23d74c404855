"""The knobs that live in the API processes: `max_num_queued_reqs`, `keep_alive_s`, `connection_close`.

Here: the wanted value of each, kept in the engine core so that several API processes agree and a lease that runs out
takes these knobs along. Never here: how one is put in force; each API process asks for the wanted values once a
second and does that (api/).

None is a value of all three: as vLLM was started.
"""

from __future__ import annotations

from typing import cast

from .base import Bounds, Engine, Support, Value, Values, check_int, check_switch

QUEUE = "max_num_queued_reqs"
KEEP_ALIVE = "keep_alive_s"
CLOSE = "connection_close"


class ApiSideKnob:
    """A knob whose value is wanted here and put in force elsewhere, where support and bounds are known too."""

    name = ""
    part = ""  # none of the schedule() hook

    def __init__(self, engine: Engine) -> None:
        self._processes = engine.api_processes
        self._wanted: int | None = None

    @property
    def support(self) -> Support:
        """The least that any API process says; off until one has reported."""
        offers = self._processes.offers(self.name)
        if not offers:
            return Support("off", "no API process has reported that it carries it; they do once a second")
        for level in ("off", "limited"):
            for offer in offers:
                if offer.level == level:
                    return Support(level, offer.reason or "an API process does not say why")
        return Support("native")

    @property
    def startup(self) -> Value:
        """The value the API processes were started with; None where vLLM has no such setting switched on."""
        offers = self._processes.offers(self.name)
        return cast(Value, offers[0].startup if offers else None)

    @property
    def failed(self) -> str | None:
        """Why an API process could not set it, if one could not."""
        return next((offer.reason for offer in self._processes.offers(self.name) if offer.failed), None)

    def read(self) -> Value:
        """The wanted value: what is in force wherever an API process has converged."""
        return self.startup if self._wanted is None else self._wanted

    def check_type(self, value: object) -> Value:
        """An integer, or null for the start-up value."""
        return self.startup if value is None else check_int(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """What every API process allows."""
        offers = self._processes.offers(self.name)
        low = max((offer.low for offer in offers), default=0)
        return Bounds(low, max(low, min((offer.high for offer in offers), default=low)))

    def apply(self, value: Value) -> None:
        """Want a value from now on."""
        self._wanted = self.wish(value)

    def wish(self, value: Value | None) -> int | None:
        """What an API process is told: None for the start-up value, which each of them knows best for itself."""
        return None if value is None or value == self.startup else int(value)

    def release(self) -> None:
        """Want the start-up value."""
        self._wanted = None


class QueueLimit(ApiSideKnob):
    """How many requests may wait, over all engine cores; one more is answered 503."""

    name = QUEUE


class KeepAlive(ApiSideKnob):
    """Seconds an idle client connection is kept."""

    name = KEEP_ALIVE


class ConnectionClose(ApiSideKnob):
    """True: every answer ends its connection, so that clients spread anew; false: as usual."""

    name = CLOSE

    @property
    def startup(self) -> Value:
        """False."""
        return False

    def read(self) -> Value:
        """Whether connections are closed."""
        return bool(self._wanted)

    def check_type(self, value: object) -> Value:
        """True or false, or null for the start-up value."""
        return False if value is None else check_switch(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """On or off."""
        return Bounds(False, True)
