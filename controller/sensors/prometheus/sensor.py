"""When the server is asked, and what the daemon may rest on until the next answer.

Belongs here: the refresh in the background, how long an answer counts. Never: PromQL, HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller import clock as system_clock
from controller.metrics.series import metric_name
from controller.sensors.prometheus import queries
from controller.sensors.prometheus.client import NoAnswer, PrometheusClient, Refused, Samples
from controller.settings import PrometheusSettings
from controller.threads import BoundedCall
from controller.watch import Condition
from domain.errors import RecoverableError
from domain.readings.prometheus import Absence, LongWindows

logger = logging.getLogger(__name__)

COUNTS_FOR = 3
"""How many intervals an answer counts."""
RETRY_S = 10.0
"""After a failure the server is asked again this soon, where the interval is longer."""


class PrometheusSensor:
    """Asks one server every `interval_s`, beside the ticks. Without `url` it answers None and asks nobody."""

    def __init__(self, settings: PrometheusSettings, clock: Callable[[], system_clock.Now] = system_clock.now) -> None:
        self._settings = settings
        self._clock = clock
        self._where = f"Prometheus at {settings.url}"
        self._ask = BoundedCall("prometheus", Questions(settings))
        self._asking: asyncio.Task[None] | None = None
        self._due_s = -math.inf
        self._answer: LongWindows | None = None
        self._answered_s = -math.inf
        self._failure: str | None = None
        self._parts = Condition("prometheus, in part")

    async def read(self) -> LongWindows | None:
        """The last answer; never waits for the server. None before the first.

        Raises RecoverableError when the server gave nothing at the last try, or nothing for three intervals.
        """
        if self._settings.url is None:
            return None
        now_s = self._clock().monotonic_s
        if now_s >= self._due_s and (self._asking is None or self._asking.done()):
            self._due_s = now_s + self._settings.interval_s
            self._asking = asyncio.create_task(self._refresh(), name="prometheus")
        if self._failure is not None:
            raise RecoverableError(self._failure)
        if self._answer is not None and now_s - self._answered_s > COUNTS_FOR * self._settings.interval_s:
            limit_s = COUNTS_FOR * self._settings.interval_s
            raise RecoverableError(f"cannot use {self._where}: its last answer is older than {limit_s:g} s")
        return self._answer

    async def backfill(self, signals: Iterable[str], window_s: float, step_s: float) -> Mapping[str, Samples]:
        """What this daemon exported under these signals before it was started: (age_s, value) each, oldest first.

        A signal without a series, or with several (the selector picks other daemons too), is left out. Raises
        RecoverableError when the server does not answer.
        """
        if self._settings.url is None:
            return {}
        names = tuple(signals)
        call = BoundedCall("prometheus-past", lambda: _past(self._settings, names, window_s, step_s))
        try:
            found = await call(self._settings.timeout_s * (len(names) + 2))
        except (Refused, NoAnswer) as error:
            raise RecoverableError(f"cannot ask {self._where} for the time before the start: {error}") from error
        if found is None:
            raise RecoverableError(f"cannot ask {self._where} for the time before the start: it has not answered")
        samples, several = found
        if several:
            logger.warning(
                "prometheus: several daemons export %s: name this one's labels in prometheus.governor_selector to have "
                "the time before the start",
                ", ".join(several),
            )
        return samples

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _refresh(self) -> None:
        limit_s = self._settings.timeout_s * (len(queries.long_windows("")) + 2)
        try:
            answered = await self._ask(limit_s)
            if answered is None:
                raise RecoverableError(f"cannot ask {self._where}: no answer within {limit_s:g} s")
        except RecoverableError as error:
            self._failed(str(error))
        except Exception as error:  # a broken library must not end the asking
            self._failed(f"cannot ask {self._where}: {type(error).__name__}: {error}")
        else:
            self._failure = None
            self._answer, refusal = answered
            self._answered_s = self._clock().monotonic_s
            self._parts.report(refusal)

    def _failed(self, words: str) -> None:
        self._failure = words
        self._due_s = min(self._due_s, self._clock().monotonic_s + RETRY_S)


class Questions:
    """All the queries of one refresh; called in a thread."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._client = PrometheusClient(settings)
        self._selector = settings.vllm_selector
        self._where = f"Prometheus at {settings.url}"

    def __call__(self) -> tuple[LongWindows, str | None]:
        """The answers, and what was refused among them. Raises RecoverableError when there are none."""
        try:
            self._one_server_only()
            return self._all()
        finally:
            self._client.close()

    def _all(self) -> tuple[LongWindows, str | None]:
        values: dict[str, Any] = {}
        why: dict[str, Absence] = {}
        said: dict[str, str] = {}
        for name, query in queries.long_windows(self._selector).items():
            try:
                answer = self._client.value(query)
            except Refused as error:
                answer, said[name] = Absence.REFUSED, str(error)
            except NoAnswer as error:
                answer, said[name] = Absence.UNREACHABLE, str(error)
            if isinstance(answer, Absence):
                why[name] = answer
            else:
                values[name] = answer
        if len(said) == len(values) + len(why):
            raise RecoverableError(f"cannot ask {self._where}: {next(iter(said.values()))}")
        return LongWindows(**values, why=why), "; ".join(f"{name}: {words}" for name, words in said.items()) or None

    def _one_server_only(self) -> None:
        """Raises RecoverableError unless the selector picks one vLLM at most, and the server answers at all."""
        try:
            count = self._client.value(queries.servers(self._selector))
        except Refused as error:
            raise RecoverableError(
                f"cannot ask {self._where}: it refused the query: {error}; check prometheus.vllm_selector "
                f"({self._selector or 'empty'}) and prometheus.token_file"
            ) from error
        except NoAnswer as error:
            raise RecoverableError(f"cannot ask {self._where}: {error}; check prometheus.url") from error
        if not isinstance(count, Absence) and count > 1:
            raise RecoverableError(
                f"cannot use {self._where}: {count:g} scrape targets are a vLLM and their sums would be taken for this "
                'one\'s; name its labels in prometheus.vllm_selector, as job="vllm",instance="gpu1:8000"'
            )


def _past(
    settings: PrometheusSettings, signals: tuple[str, ...], window_s: float, step_s: float
) -> tuple[dict[str, Samples], list[str]]:
    """Samples by signal with their ages, and the signals that more than one daemon exports; called in a thread."""
    client = PrometheusClient(settings)
    try:
        now_s = client.now_s()
        samples: dict[str, Samples] = {}
        several = []
        for signal in signals:
            found = client.past(
                queries.series(metric_name(signal), settings.governor_selector), now_s, window_s, step_s
            )
            if len(found) > 1:
                several.append(signal)
            elif found:
                samples[signal] = [(now_s - at_s, value) for at_s, value in found[0] if math.isfinite(value)]
        return samples, several
    finally:
        client.close()
