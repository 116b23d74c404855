"""The dashboard in a real Chromium against a daemon that steers a real vLLM under load."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from bench.emulated_nvml.build import NoLibrary, build
from bench.emulated_nvml.cards import card
from bench.emulated_nvml.script import VARIABLE, Machine
from bench.load import Load
from bench.ports import free_port
from tests.browser import DESK, PHONE, chromium, page
from tests.e2e.dashboard_page import SLOW_MS, Dashboard
from tests.e2e.rig import LOAD, Rig
from tests.programs import without
from tests.waiting import until

TOKEN = "token-of-the-daemon"
OBJECTIVE = {"inter_token_latency": {"percentile": 95, "bound_s": 0.05}}
RELOADED = "net::ERR_CONNECTION_REFUSED"
"""What Chromium itself notes of a daemon that is not there."""


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with chromium(tmp_path) as found:
        yield found


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    token_file = folder / "daemon.token"
    token_file.write_text(TOKEN)
    return {"api": {"port": free_port(), "token_file": str(token_file)}, **more}


async def ready(rig: Rig, port: int) -> None:
    async def answers() -> bool:
        try:
            async with rig.session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                return answer.status == 200
        except OSError:
            return False

    await until("the daemon is ready", answers)


async def changed(rig: Rig, port: int) -> None:
    async def some() -> bool:
        async with rig.session.get(f"http://127.0.0.1:{port}/api/v1/decisions?changes=true&status=applied") as answer:
            return bool((await answer.json())["decisions"])

    await until("something was decided", some)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_an_operator_sees_explains_steers_and_is_back_after_a_restart(
    rig: Rig, browser: Browser, tmp_path: Path
) -> None:
    chosen = settings(tmp_path, mode="auto", slo=OBJECTIVE)
    port = chosen["api"]["port"]
    rig.daemon.start(**chosen)
    await ready(rig, port)
    async with Load(rig.server.url, "tiny", LOAD), page(browser) as watched:
        await changed(rig, port)
        dashboard = Dashboard(watched, f"http://127.0.0.1:{port}/")
        await dashboard.open()
        await charts_move(dashboard)
        assert await dashboard.shifts() < 0.01
        await a_mark_explains(dashboard)
        await rolls_back_and_undoes(rig, dashboard)
        await overrides_and_lifts(dashboard)
        assert watched.errors == []

        await rig.daemon.stop()
        await dashboard.lost()
        assert "has not answered" in await dashboard.text("#strip-text")
        rig.daemon.start(**chosen)
        await dashboard.live()
        await charts_move(dashboard)
        assert [error for error in watched.errors if RELOADED not in error] == []


async def charts_move(dashboard: Dashboard) -> None:
    before = await dashboard.lines()
    assert len(before) == 5
    await dashboard.page.wait_for_function(
        "(newest) => [0, 1, 2].every((n) => document.querySelectorAll('.js-plotly-plot')[n].data"
        ".some((line) => line.y.some((value) => value !== null) && line.x.at(-1) > newest))",
        arg=max((line[0][-1] for chart in before for line in chart if line[0]), default=0),
        timeout=SLOW_MS,
    )
    # Not known for a moment after each change of a knob: the window begins anew.
    await dashboard.page.wait_for_function(
        "/^[\\d.,]+$/.test(document.querySelector('[data-tile=rate] b').textContent)", timeout=SLOW_MS
    )


async def a_mark_explains(dashboard: Dashboard) -> None:
    """By the keyboard alone, and the focus comes back."""
    lanes = ":is([data-lane=max_num_seqs], [data-lane=max_num_batched_tokens])"
    mark = dashboard.page.locator(f"{lanes} .mark:not(:has(.mark-count))").last
    await mark.wait_for(timeout=SLOW_MS)
    await mark.focus()
    said = await mark.get_attribute("aria-label") or ""
    await dashboard.page.keyboard.press("Enter")
    await dashboard.page.wait_for_selector("#drawer .three", timeout=SLOW_MS)
    await dashboard.page.wait_for_selector("#drawer-body:not(:has(#drawer-loading))", timeout=SLOW_MS)
    explained = await dashboard.text("#drawer")
    assert all(word in explained for word in ("wanted", "requested", "observed", "What it rested on"))
    assert re.search(r": (\w+)", said).group(1) in explained  # type: ignore[union-attr]
    await dashboard.page.keyboard.press("Escape")
    assert await dashboard.page.evaluate("document.activeElement.className") == "mark"


async def rolls_back_and_undoes(rig: Rig, dashboard: Dashboard) -> None:
    said = await dashboard.ask("#rollback")
    assert "Sets max_num_seqs to 8" in said
    assert "Mode auto is suspended" in said
    await dashboard.confirm(TOKEN)
    await dashboard.page.wait_for_selector("#rollback[data-on]", timeout=SLOW_MS)
    assert await rig.cap() == 8
    await expect(dashboard.page.locator("#mode")).to_contain_text("static", timeout=SLOW_MS)
    said = await dashboard.ask("#rollback")
    assert "in force before the rollback" in said
    assert await dashboard.page.locator("#dialog input[name=token]").count() == 0  # it was given once
    await dashboard.confirm()
    await dashboard.page.wait_for_selector("#rollback:not([data-on])", timeout=SLOW_MS)
    await expect(dashboard.page.locator("#mode")).to_contain_text("auto", timeout=SLOW_MS)


async def overrides_and_lifts(dashboard: Dashboard) -> None:
    lane = "[data-lane=hot_ttl_s]"
    await dashboard.ask(f"{lane} .lane-change")
    await dashboard.page.fill("#dialog input[name=value]", "600")
    assert "600 is held until" in await dashboard.text("#dialog")
    await dashboard.confirm()
    await dashboard.page.wait_for_selector(f"{lane} .lane-note[data-held]", timeout=SLOW_MS)
    await expect(dashboard.page.locator(f"{lane} .lane-value")).to_have_text("600", timeout=SLOW_MS)
    assert "the admin token from 127.0.0.1" in await dashboard.ask(f"{lane} .lane-change")
    await dashboard.confirm()
    await dashboard.page.wait_for_selector(f"{lane} .lane-note:not([data-held])", timeout=SLOW_MS)
    await dashboard.page.locator("[data-lane=acts] .mark").first.wait_for(timeout=SLOW_MS)


async def test_a_refusal_shows_its_remedy_and_a_purge_says_first_what_it_will_do(
    rig: Rig, browser: Browser, tmp_path: Path
) -> None:
    chosen = settings(tmp_path, mode="manual")
    rig.daemon.start(**chosen)
    assert await rig.complete(prompt_tokens=300) == 200  # or there would be nothing to purge
    await ready(rig, chosen["api"]["port"])
    async with page(browser) as watched:
        dashboard = Dashboard(watched, f"http://127.0.0.1:{chosen['api']['port']}/")
        await dashboard.open()
        assert "Evicts 50% of the free cached blocks" in await dashboard.ask("#purge")
        await dashboard.page.fill("#dialog input[name=token]", "wrong")
        await dashboard.page.click("#dialog button[type=submit]")
        refusal = dashboard.page.locator("#dialog [role=alert]")
        await refusal.wait_for(timeout=SLOW_MS)
        assert "send the token of api.token_file" in await refusal.inner_text()
        assert await dashboard.page.evaluate("sessionStorage.length") == 0
        await dashboard.confirm(TOKEN)
        await expect(dashboard.page.locator("#toast")).to_contain_text("The purge was done", timeout=SLOW_MS)
        kept = await dashboard.page.evaluate(
            "[JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie]"
        )
        assert [TOKEN in where for where in kept] == [True, False, False]


async def test_a_gpu_that_is_read_is_drawn_and_a_daemon_without_a_token_says_what_is_missing(
    rig: Rig, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(build().parent))
    except NoLibrary as why:
        without(str(why))
    Machine([card("Scripted GPU", "GPU-5c000000-0000-0000-0000-000000000000", 80)]).write(tmp_path / "nvml")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nvml"))
    port = free_port()
    rig.daemon.start(mode="manual", api={"port": port})
    await ready(rig, port)
    async with page(browser) as watched:
        dashboard = Dashboard(watched, f"http://127.0.0.1:{port}/")
        await dashboard.open()
        await dashboard.page.get_by_text("300 W, 54 °C").wait_for(timeout=SLOW_MS)
        await expect(dashboard.page.locator("[data-tile=gpu] b")).to_have_text("37 %", timeout=SLOW_MS)
        drawn = "document.querySelector('[data-plot=gpu]').data.some((line) => line.y.includes(0.37))"
        await dashboard.page.wait_for_function(drawn, timeout=SLOW_MS)
        await dashboard.ask("#rollback")
        await dashboard.page.click("#dialog button[type=submit]")
        refusal = dashboard.page.locator("#dialog [role=alert]")
        await refusal.wait_for(timeout=SLOW_MS)
        assert "api.token_file" in await refusal.inner_text()


async def test_a_phone_in_chinese_has_everything_within_its_width(rig: Rig, browser: Browser, tmp_path: Path) -> None:
    chosen = settings(tmp_path, mode="manual")
    rig.daemon.start(**chosen)
    await ready(rig, chosen["api"]["port"])
    async with page(browser, PHONE, dark=False, language="zh-CN") as watched:
        dashboard = Dashboard(watched, f"http://127.0.0.1:{chosen['api']['port']}/")
        await dashboard.open()
        await expect(dashboard.page.locator("#mode")).to_have_text("模式 手动", timeout=SLOW_MS)
        assert await dashboard.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert await dashboard.page.evaluate("document.documentElement.dataset.theme") == "light"
        await dashboard.page.click("#language")
        await expect(dashboard.page.locator("html")).to_have_attribute("lang", "en-GB", timeout=SLOW_MS)
        await dashboard.page.click("#theme")
        await dashboard.reload()
        await expect(dashboard.page.locator("#mode")).to_have_text("Mode manual", timeout=SLOW_MS)
        assert await dashboard.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert watched.errors == []


async def test_the_keyboard_reaches_the_mode_and_the_time_shown(rig: Rig, browser: Browser, tmp_path: Path) -> None:
    chosen = settings(tmp_path, mode="manual")
    rig.daemon.start(**chosen)
    await ready(rig, chosen["api"]["port"])
    async with page(browser, DESK) as watched:
        dashboard = Dashboard(watched, f"http://127.0.0.1:{chosen['api']['port']}/")
        await dashboard.open()
        keyboard = dashboard.page.keyboard
        await keyboard.press("3")
        await expect(dashboard.page.locator("#span")).to_have_value("3600", timeout=SLOW_MS)
        await keyboard.press("f")
        await dashboard.page.wait_for_selector("#live[aria-pressed=false]", timeout=SLOW_MS)
        await keyboard.press("m")
        await dashboard.page.wait_for_selector("#dialog fieldset", timeout=SLOW_MS)
        await keyboard.press("ArrowDown")
        await dashboard.confirm(TOKEN)
        await dashboard.page.wait_for_selector("#mode[data-mode=paused]", timeout=SLOW_MS)
        assert watched.errors == []
