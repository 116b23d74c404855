"""Pictures of the dashboard for the docs, out of a real run of five minutes.

They go where DASHBOARD_PICTURES says, else into the test's own folder.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench.load import Load
from tests.browser import DESK, PHONE, chromium, page
from tests.e2e.dashboard_page import SLOW_MS, Dashboard
from tests.e2e.rig import LOAD, Rig
from tests.e2e.test_dashboard import OBJECTIVE, TOKEN, ready, settings

CLIENTS = (64, 12, 64)
STRETCH_S = 80.0
TALL = (1440, 1600)
PHONE_TALL = (390, 1460)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_pictures_of_a_live_run_at_desk_and_phone_width(rig: Rig, tmp_path: Path) -> None:
    folder = Path(os.environ.get("DASHBOARD_PICTURES") or tmp_path)
    chosen = settings(tmp_path, mode="auto", slo=OBJECTIVE)
    # A browser that draws beside it takes the daemon's turns: its lease must not run out meanwhile.
    engine = {"url": rig.server.url, "token_file": str(rig.server.token_file), "lease_s": 30.0}
    rig.daemon.start(**chosen, engine=engine)
    port = chosen["api"]["port"]
    await ready(rig, port)
    async with chromium(tmp_path) as browser, page(browser, TALL) as desk:
        dashboard = Dashboard(desk, f"http://127.0.0.1:{port}/")
        for place, clients in enumerate(CLIENTS):
            async with Load(rig.server.url, "tiny", replace(LOAD, clients=clients, seed=place, limit_s=600)):
                if place == 0:
                    await dashboard.open()
                    await dashboard.page.keyboard.press("1")
                await asyncio.sleep(STRETCH_S)
                if place == 1:
                    await dashboard.ask("#rollback")
                    await taken(dashboard, folder / "dashboard-rollback.png", DESK)
                    await dashboard.confirm(TOKEN)
                    await asyncio.sleep(10)
                    await dashboard.ask("#rollback")
                    await dashboard.confirm()
                    await dashboard.page.set_viewport_size({"width": TALL[0], "height": TALL[1]})
                if place == 2:
                    await at_the_end(dashboard, folder)
                    async with page(browser, PHONE, dark=False, language="zh-CN") as phone:
                        small = Dashboard(phone, dashboard.url)
                        await small.open()
                        await small.page.keyboard.press("1")
                        await taken(small, folder / "dashboard-phone.png", PHONE_TALL)
        assert desk.errors == []


async def at_the_end(dashboard: Dashboard, folder: Path) -> None:
    await taken(dashboard, folder / "dashboard.png", TALL)
    await dashboard.page.click("#theme")
    await dashboard.page.evaluate("document.querySelector('#lanes .mark[data-verdict]:not(:has(.mark-count))').click()")
    await dashboard.page.wait_for_selector("#drawer-body:not(:has(#drawer-loading))", timeout=SLOW_MS)
    await dashboard.page.evaluate("scrollTo(0, 0)")
    await taken(dashboard, folder / "dashboard-explained.png", TALL)
    await dashboard.page.keyboard.press("Escape")


async def taken(dashboard: Dashboard, path: Path, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    await dashboard.page.set_viewport_size({"width": size[0], "height": size[1]})
    await dashboard.page.wait_for_timeout(4000)
    await dashboard.page.screenshot(path=path)
