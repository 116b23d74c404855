"""The sensor: a reading when asked for one, and patience with a server that has none to give.

Belongs here: how often a blind daemon asks. Never: HTTP, parsing.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from controller import clock as system_clock
from controller.sensors.vllm.parse import Parser
from controller.sensors.vllm.scrape import fetch
from domain.errors import RecoverableError
from domain.readings.vllm import VllmReading

PATIENCE = 5
"""Failures in a row after which the server is asked less often."""
PAUSE_S = 5.0


class VllmSensor:
    """`/metrics` of the vLLM server at `url`; what the session connects to (TCP, TLS, a Unix socket) is its own affair.

    After PATIENCE failures in a row it is asked once in PAUSE_S; the reads between repeat what the last one said.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        timeout_s: float,
        clock: Callable[[], system_clock.Now] = system_clock.now,
    ) -> None:
        self._session = session
        self._url = f"{url.rstrip('/')}/metrics"
        self._timeout_s = timeout_s
        self._clock = clock
        self._parser = Parser(self._url)
        self._failures = 0
        self._asked_s = 0.0
        self._said: RecoverableError | None = None

    async def read(self) -> VllmReading:
        """One scrape. Raises EngineUnreachable when there is no answer, BadReading when it says nothing of vLLM.

        The daemon is blind then: the text is the same as long as the cause is.
        """
        now_s = self._clock().monotonic_s
        if self._said is not None and self._failures >= PATIENCE and now_s - self._asked_s < PAUSE_S:
            raise type(self._said)(str(self._said))
        self._asked_s = now_s
        try:
            reading = self._parser.parse(await fetch(self._session, self._url, self._timeout_s))
        except RecoverableError as error:
            self._failures += 1
            self._said = type(error)(str(error))  # without the traceback, which would hold the body
            raise
        self._failures, self._said = 0, None
        return reading
