"""One look at both ends: what the daemon says of itself, and what the engine reads.

Belongs here: asking, and the answers as values. Never: judging them.

The engine is asked directly, never through the proxy: what is in force is its word, whatever the daemon believes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from controller.engine.client import EngineClient
from domain.errors import RecoverableError
from domain.runtime import EngineRuntime

PREFIX = "vllm_governor_"
TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class DaemonSays:
    """From the daemon's /metrics."""

    ticked_at: float | None
    """Unix seconds at which the last tick began that did not fail."""
    boot_id: str | None
    up: frozenset[str]
    """Sources that gave a reading in that tick."""
    wanted: Mapping[str, float]
    """By knob, what the policy wanted in that tick; a knob it abstained on is absent."""
    requested: Mapping[str, float]
    """By knob, what this process last asked of this boot of the engine."""


@dataclass(frozen=True, slots=True)
class Look:
    """Both at one moment; None where one does not answer. `at_s` is monotonic, `wall_s` Unix seconds."""

    at_s: float
    wall_s: float
    daemon: DaemonSays | None
    engine: EngineRuntime | None
    values: Mapping[str, float] = field(default_factory=dict)
    """By knob, what the engine reads; a knob that its cores disagree on is absent."""

    @property
    def boot_id(self) -> str | None:
        return self.engine.boot_id if self.engine is not None else None


class Lookout:
    """Looks when asked. Nothing that a fault causes is an error here."""

    def __init__(self, session: aiohttp.ClientSession, client: EngineClient, daemon_url: str) -> None:
        self._session = session
        self._client = client
        self._daemon_url = daemon_url

    async def look(self) -> Look:
        """The daemon first: what it has asked for by then, the engine must read."""
        daemon = await self._daemon()
        try:
            engine: EngineRuntime | None = await self._client.runtime()
        except RecoverableError:
            engine = None
        return Look(time.monotonic(), time.time(), daemon, engine, values_of(engine))

    async def _daemon(self) -> DaemonSays | None:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with self._session.get(f"{self._daemon_url}/metrics", timeout=timeout) as answer:
                return parse(await answer.text()) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None


def values_of(engine: EngineRuntime | None) -> dict[str, float]:
    """What every engine core reads alike."""
    knobs = [engine.knob(name) for name in engine.cores[0].knobs] if engine is not None else []
    return {k.name: k.value for k in knobs if k is not None and k.value is not None and not k.disagreeing}


def parse(text: str) -> DaemonSays:
    """The daemon's exposition. Raises ValueError when it is none."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    by_knob: dict[str, dict[str, float]] = {"knob_wanted": {}, "knob_requested": {}}
    up: set[str] = set()
    ticked_at: float | None = None
    boot_id: str | None = None
    for sample in samples:
        name = sample.name.removeprefix(PREFIX)
        if name in by_knob:
            by_knob[name][sample.labels["knob"]] = sample.value
        elif name == "source_up" and sample.value == 1:
            up.add(sample.labels["source"])
        elif name == "last_tick_timestamp_seconds":
            ticked_at = sample.value
        elif name == "engine_info":
            boot_id = sample.labels.get("boot_id")
    return DaemonSays(ticked_at, boot_id, frozenset(up), by_knob["knob_wanted"], by_knob["knob_requested"])
