"""The checks on the dashboard, in a real Chromium: counts, what does not hold, the command that cures it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from bench.demo.daemon import Daemon
from bench.ports import free_port
from tests.browser import DESK, PHONE, chromium, page
from tests.e2e.dashboard_page import SLOW_MS, Dashboard
from tests.fake_engine import FakeEngine
from tests.waiting import until

TOKEN = "token-of-the-daemon"
TOKENS = "#checks > [data-key=tokens] > button"
"""The check that a test makes good or bad by the mode of a file."""


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with chromium(tmp_path) as found:
        yield found


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "daemon.token"
    path.write_text(TOKEN)
    hide(path)
    return path


def hide(path: Path) -> None:
    path.chmod(0o600)


def tell_all(path: Path) -> None:
    """The check of tokens fails then."""
    path.chmod(0o644)


@pytest.fixture
async def url(tmp_path: Path, token: Path) -> AsyncIterator[str]:
    """A daemon beside an engine, with an objective that no batch keeps."""
    engine, port = FakeEngine(), free_port()
    await engine.server.start_server()
    settings = {
        "engine": {"url": engine.url},
        "api": {"port": port, "token_file": str(token)},
        "store": {"url": str(tmp_path / "history.db")},
        "slo": {"time_to_first_token": {"bound_s": 0.04}},
    }
    daemon = Daemon(tmp_path / "daemon", settings)
    daemon.start(mode="manual")
    url = f"http://127.0.0.1:{port}/"
    async with aiohttp.ClientSession() as session:

        async def ready() -> bool:
            daemon.check()
            try:
                async with session.get(f"{url}readyz") as answer:
                    return answer.status == 200
            except OSError:
                return False

        await until("the daemon is ready", ready)
    yield url
    await daemon.stop()
    await engine.server.close()


async def run(dashboard: Dashboard, token: str | None = None) -> None:
    """By the button, with what its dialog says."""
    assert "changes nothing" in await dashboard.ask("#check-run")
    await dashboard.confirm(token)


async def test_a_check_is_run_read_and_explained_with_its_cure_by_the_keyboard_alone(
    browser: Browser, url: str, token: Path
) -> None:
    async with page(browser, DESK) as watched:
        dashboard = Dashboard(watched, url)
        await dashboard.open()
        tell_all(token)
        await run(dashboard, TOKEN)
        row = dashboard.page.locator(TOKENS)
        await expect(row).to_have_attribute("data-state", "fail", timeout=SLOW_MS)
        await expect(row).to_contain_text("mode 0644", timeout=SLOW_MS)
        await expect(dashboard.page.locator("#checks > [data-key=real_time]")).to_contain_text(
            "under 50 ms", timeout=SLOW_MS
        )
        counts = dashboard.page.locator("#check-counts [data-state]")
        assert [await counts.nth(n).get_attribute("data-state") for n in range(2)] == ["fail", "warn"], (
            "the worst first"
        )
        assert (await counts.first.inner_text()).split() == ["■", str(await shown(dashboard, "fail")), "fail"]
        await row.focus()
        await dashboard.page.keyboard.press("Enter")
        await expect(dashboard.page.locator("#drawer .cure")).to_have_text(
            f"sudo chmod o=,g-w {token}", timeout=SLOW_MS
        )
        assert "every token and key is in a file that its owner and group alone read" in await dashboard.text("#drawer")
        await dashboard.page.keyboard.press("Escape")
        await expect(row).to_be_focused(timeout=SLOW_MS)
        await dashboard.page.click("#check-all")
        all_of_them = await dashboard.text("#check-all")
        assert all_of_them == f"all {await dashboard.page.locator('#drawer .check-entry').count()}"
        assert watched.errors == []


async def shown(dashboard: Dashboard, state: str) -> int:
    return await dashboard.page.locator(f"#checks [data-state={state}]").count()


async def test_one_that_is_mended_goes_and_one_that_turned_bad_says_so(browser: Browser, url: str, token: Path) -> None:
    async with page(browser, DESK) as watched:
        dashboard = Dashboard(watched, url)
        await dashboard.open()
        row = dashboard.page.locator(TOKENS)
        await run(dashboard, TOKEN)
        await expect(dashboard.page.locator("#check-counts [data-state=pass]")).to_be_visible(timeout=SLOW_MS)
        await expect(row).to_have_count(0, timeout=SLOW_MS)
        tell_all(token)
        await run(dashboard)
        await expect(row).to_contain_text("was good before", timeout=SLOW_MS)
        hide(token)
        await run(dashboard)
        await expect(row).to_have_count(0, timeout=SLOW_MS)
        assert watched.errors == []


async def test_a_phone_in_chinese_has_the_checks_and_their_commands_within_its_width(
    browser: Browser, url: str, token: Path
) -> None:
    async with page(browser, PHONE, dark=False, language="zh-CN") as watched:
        dashboard = Dashboard(watched, url)
        await dashboard.open()
        tell_all(token)
        await dashboard.ask("#check-run")
        await dashboard.confirm(TOKEN)
        row = dashboard.page.locator(TOKENS)
        await row.wait_for(timeout=SLOW_MS)
        assert "失败" in await dashboard.text("#check-counts")
        await row.tap()
        await expect(dashboard.page.locator("#drawer .cure")).to_contain_text("chmod", timeout=SLOW_MS)
        assert "解决办法" in await dashboard.text("#drawer")
        assert await dashboard.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert await dashboard.page.evaluate("document.querySelector('#drawer').scrollWidth") <= PHONE[0]
        assert watched.errors == []
