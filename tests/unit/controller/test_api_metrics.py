"""The series for Prometheus and the probes, as they are scraped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controller import __version__
from tests.api_rig import ApiRig, serving

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path, {"mode": "observe"}) as rig:
        yield rig


@pytest.fixture
async def session(api: ApiRig) -> AsyncIterator[aiohttp.ClientSession]:
    plain = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(api.url, headers=plain, auto_decompress=False) as session:
        yield session


async def test_a_scraper_gets_the_format_that_it_asks_for(session: aiohttp.ClientSession) -> None:
    async with session.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert 'vllm_governor_mode_info{mode="observe"} 1.0' in await answer.text()
    async with session.get("/metrics", headers={"Accept": OPENMETRICS}) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert (await answer.text()).endswith("# EOF\n")


async def test_the_process_is_measured_beside_the_signals(session: aiohttp.ClientSession) -> None:
    async with session.get("/metrics?any=thing") as answer:
        text = await answer.text()
    assert "\nprocess_resident_memory_bytes " in text
    assert "\nprocess_cpu_seconds_total " in text


async def test_an_answer_is_compressed_only_for_who_takes_that(session: aiohttp.ClientSession) -> None:
    async with session.get("/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert (await answer.read())[:2] == b"\x1f\x8b"
    async with session.get("/metrics") as answer:
        assert "Content-Encoding" not in answer.headers


async def test_it_is_alive_while_it_answers_and_ready_while_the_loop_turns(
    api: ApiRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await api.ask("GET", "/healthz", None)).said == {"status": "ok", "version": __version__}
    ready = await api.ask("GET", "/readyz", None)
    assert (ready.status, ready.said["status"]) == (200, "ready")
    api.rig.clock.s += 3600  # the loop stands still
    still = await api.ask("GET", "/readyz", None)
    assert still.status == 503
    assert still.said["reason"].startswith("no tick has succeeded since 1970-01-01")
    assert (await api.ask("GET", "/healthz", None)).status == 200
