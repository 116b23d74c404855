"""The status as it is served: one answer for many, and never one from before a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api.status import KEPT_S
from tests.api_rig import ApiRig, serving

STATUS = "/api/v1/status"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path, {"mode": "observe"}) as rig:
        yield rig


async def test_who_asks_at_the_same_moment_gets_the_same_answer(api: ApiRig) -> None:
    assert (await api.ask("GET", STATUS)).body == (await api.ask("GET", STATUS)).body


async def test_a_change_shows_at_once(api: ApiRig) -> None:
    assert (await api.ask("GET", STATUS)).said["mode"]["configured"] == "observe"
    assert (await api.ask("PUT", "/api/v1/mode", json={"mode": "auto"})).status == 200
    assert (await api.ask("GET", STATUS)).said["mode"]["configured"] == "auto"


async def test_a_tick_shows_at_once(api: ApiRig) -> None:
    before = (await api.ask("GET", STATUS)).said["ticks"]["ticks"]
    await api.rig.loop.tick()
    assert (await api.ask("GET", STATUS)).said["ticks"]["ticks"] == before + 1


async def test_ages_go_on_while_nothing_happens(api: ApiRig) -> None:
    before = (await api.ask("GET", STATUS)).said["sources"][0]["age_s"]
    api.rig.clock.s += 2 * KEPT_S
    assert (await api.ask("GET", STATUS)).said["sources"][0]["age_s"] == pytest.approx(before + 2 * KEPT_S)
