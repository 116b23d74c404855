"""The time before the daemon's start, for windows that would otherwise begin empty.

Belongs here: asking once beside the ticks, and handing the answer over once. Never: the query, what is done with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from controller.sensors.prometheus import PrometheusSensor
from domain.errors import RecoverableError

logger = logging.getLogger(__name__)

WINDOW_S = 300.0
"""As far back as the longest trend goes."""
STEP_S = 10.0

Samples = Mapping[str, list[tuple[float, float]]]


class Backfill:
    """Begins at the first `take`; a later one answers what came."""

    def __init__(self, sensor: PrometheusSensor, signals: Iterable[str]) -> None:
        self._sensor = sensor
        self._signals = tuple(signals)
        self._began_s = 0.0
        self._asking: asyncio.Task[Samples] | None = None
        self._taken = False

    def take(self, now_s: float) -> Samples:
        """(age_s, value) by signal, aged to `now_s` (monotonic) and from before the first `take`. Never waits.

        Empty until the server has answered, and again ever after. A server that does not answer is logged once.
        """
        if self._taken:
            return {}
        if self._asking is None:
            self._began_s = now_s
            asked = self._sensor.backfill(self._signals, WINDOW_S, STEP_S)
            self._asking = asyncio.create_task(asked, name="backfill")
        if not self._asking.done():
            return {}
        self._taken = True
        try:
            found = self._asking.result()
        except asyncio.CancelledError:
            return {}
        except RecoverableError as error:
            logger.warning("prometheus: %s", error)
            return {}
        # The ages were those of the moment of asking. What this process exported itself, its own windows hold.
        waited_s = now_s - self._began_s
        aged = {name: [(age_s + waited_s, value) for age_s, value in rows] for name, rows in found.items()}
        if aged:
            count = sum(len(rows) for rows in aged.values())
            logger.info("prometheus: %d samples from before the start, of %s", count, ", ".join(aged))
        return aged

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
