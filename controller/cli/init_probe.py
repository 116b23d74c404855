"""What is there on this machine: an engine, its plugin, its GPUs, a Prometheus.

Belongs here: asking each of them once, briefly, and what came of it. Never: what is made of it (init.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from controller.engine.client import EngineClient
from controller.sensors.vllm.parse import Parser
from controller.sensors.vllm.scrape import fetch
from domain.errors import EngineRefused, GovernorError, PluginMissing
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime

ASK_S = 3.0


@dataclass(frozen=True, slots=True)
class Engine:
    """`absence`: why it was not seen, `plugin`: why the plugin's routes do not answer; None: they do."""

    url: str
    absence: str | None = None
    version: str | None = None
    reading: VllmReading | None = None
    runtime: EngineRuntime | None = None
    plugin: str | None = None
    plugin_there: bool = False


@dataclass(frozen=True, slots=True)
class Prometheus:
    """`engines`: labels of each vLLM that it scrapes."""

    url: str
    version: str
    engines: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """All of it. `gpus` empty: `no_gpus` says why."""

    engine: Engine
    gpus: tuple[str, ...] = ()
    no_gpus: str | None = None
    prometheus: Prometheus | None = None


async def probe(engine_url: str, token_file: Path | None, prometheus_url: str) -> Found:
    """Ask everything. Raises nothing that has to do with what is or is not there."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        engine = await _engine(session, engine_url, token_file)
        prometheus = await _prometheus(session, prometheus_url)
    gpus, absence = _gpus()
    return Found(engine, gpus, absence, prometheus)


async def _engine(session: aiohttp.ClientSession, url: str, token_file: Path | None) -> Engine:
    try:
        text = await fetch(session, f"{url}/metrics", ASK_S)
        reading = Parser(url).parse(text)
    except GovernorError as error:
        return Engine(url, absence=str(error))
    document = await _json(session, f"{url}/version")
    version = document.get("version")
    runtime, plugin, there = await _runtime(session, url, token_file)
    return Engine(url, None, None if version is None else str(version), reading, runtime, plugin, there)


async def _runtime(
    session: aiohttp.ClientSession, url: str, token_file: Path | None
) -> tuple[EngineRuntime | None, str | None, bool]:
    try:
        return await EngineClient(session, url, token_file, ASK_S).runtime(), None, True
    except PluginMissing as error:
        return None, str(error), False
    except EngineRefused as error:
        return None, str(error), True
    except GovernorError as error:
        return None, str(error), False


async def _prometheus(session: aiohttp.ClientSession, url: str) -> Prometheus | None:
    built = await _json(session, f"{url}/api/v1/status/buildinfo")
    try:
        version = str(built["data"]["version"])
    except (KeyError, TypeError):
        return None
    answer = await _json(session, f"{url}/api/v1/query?query=vllm:num_requests_running")
    try:
        rows = [row["metric"] for row in answer["data"]["result"]]
    except (KeyError, TypeError):
        rows = []
    there = {(row.get("job", ""), row.get("instance", "")): None for row in rows}
    return Prometheus(url, version, tuple({"job": job, "instance": instance} for job, instance in there))


async def _json(session: aiohttp.ClientSession, url: str) -> Mapping[str, Any]:
    """The object at an address; empty where there is none."""
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=ASK_S)) as answer:
            document = await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return {}
    return document if isinstance(document, Mapping) and answer.status == 200 else {}


def _gpus() -> tuple[tuple[str, ...], str | None]:
    """Names of the GPUs that NVML sees, or why it sees none."""
    import pynvml

    from controller.sensors.nvml.calls import LibraryLost
    from controller.sensors.nvml.devices import count_cards, list_cards

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return (), f"NVML is not available ({error})"
    try:
        cards = list_cards(count_cards())
        return tuple(card.name for card in cards), None if cards else "NVML sees no GPU"
    except LibraryLost as error:
        return (), f"NVML does not answer ({error})"
    finally:
        pynvml.nvmlShutdown()
