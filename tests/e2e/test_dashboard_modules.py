"""Laws of the dashboard's modules, in a real Chromium without a daemon: the stream's frames, gaps, scales, groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page

from controller.api.static import FOLDER
from tests.browser import chromium, page

pytestmark = pytest.mark.asyncio(loop_scope="module")
HERE = "<!doctype html><title>modules</title>"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def modules(browser: Browser) -> AsyncIterator[Page]:
    """An empty page that may import the modules."""
    application = web.Application()
    application.router.add_static("/static", FOLDER)
    application.router.add_get("/", _page)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with page(browser) as watched:
            await watched.page.goto(f"http://127.0.0.1:{port}/")
            yield watched.page
    finally:
        await runner.cleanup()


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text=HERE, content_type="text/html")


async def answer(page: Page, module: str, body: str, *arguments: Any) -> Any:
    """What a function of a module's exports answers."""
    return await page.evaluate(
        f"async (given) => {{ const m = await import('/static/js/{module}.js'); return ({body})(m, ...given); }}",
        list(arguments),
    )


async def test_a_frame_is_the_same_in_whatever_pieces_it_comes(modules: Page) -> None:
    text = 'id: a-1\nevent: tick\ndata: {"n":1}\n\n: alive\nid: a-2\n\nid: a-3\nevent: gap\ndata: {}\n\n'
    split = """(m, text, size) => {
        const frames = new m.Frames();
        const found = [];
        for (let n = 0; n < text.length; n += size) found.push(...frames.push(text.slice(n, n + size)));
        return [found, frames.lastId];
    }"""
    whole = [[{"kind": "tick", "data": {"n": 1}}, {"kind": "gap", "data": {}}], "a-3"]
    for size in (1, 2, 7, len(text)):
        assert await answer(modules, "stream", split, text, size) == whole


async def test_what_came_live_goes_on_where_the_history_ends_and_a_gap_stays_one(modules: Page) -> None:
    joined = """(m) => {
        const at = (s) => new Date(s * 1000).toISOString();
        m.setPast({ at: [at(1), at(2), at(3)], means: { running: [1, null, 3] }, knobs: {} });
        for (const s of [2, 3, 4, 60]) m.addTick({ at: at(s), signals: { running: s * 10 }, latencies: {}, knobs: {} });
        return m.signal("running", [0, 100000]);
    }"""
    assert await answer(modules, "series", joined) == {"x": [1000, 3000, 4000, 4001, 60000], "y": [1, 3, 40, None, 600]}


async def test_a_limit_that_is_off_is_no_number_and_no_zero(modules: Page) -> None:
    shown = "(m) => ['no limit', null, undefined, 0, 1234.5].map(m.knobValue)"
    said = await answer(modules, "format", shown)
    assert said == ["no_limit", "–", "–", "0", "1,234.5"]  # its word is looked up: no language is loaded here


async def test_an_axis_ends_on_a_round_number_and_holds_every_value(modules: Page) -> None:
    for values in ([0.4], [3, None, 7], [99.9], [100], [101], [123456]):
        found = await answer(modules, "scales", "(m, values) => m.scale('count', values)", values)
        most = max(value for value in values if value is not None)
        assert found["ticks"][-1] >= most
        assert str(found["ticks"][-1]).rstrip("0.") in ("1", "2", "5")
    low, high = (await answer(modules, "scales", "(m) => m.scale('log', [0.004, 2.5, null])"))["range"]
    assert 10**low <= 0.004 <= 2.5 <= 10**high


async def test_marks_that_would_cover_each_other_are_one_and_stay_one_while_time_goes_on(modules: Page) -> None:
    grouped = """async (m) => {
        const time = await import("/static/js/timeline.js");
        const decided = { knob: "k", status: "applied", old: 1, wanted: 2 };
        const marks = [1000, 1400, 90000].map((ms) => ({ ...decided, ms: 1e9 + ms }));
        const keys = [];
        for (const now of [100000, 100500, 101500]) {
            time.newest(1e9 + now);
            keys.push(m.grouped(marks, 900).map((group) => `${group.key} ${group.all.length}`));
        }
        return keys;
    }"""
    first, *later = await answer(modules, "marks", grouped)
    assert [key.split()[-1] for key in first] == ["2", "1"]
    assert all(keys == first for keys in later)


async def test_a_failure_hides_behind_no_other_mark(modules: Page) -> None:
    shown = """async (m) => {
        const time = await import("/static/js/timeline.js");
        time.newest(2e9);
        const mark = (ms, status) => ({ ms, knob: "k", status, old: 1, wanted: 2, requested: 2 });
        const marks = [mark(2e9 - 5000, "failed"), mark(2e9 - 4900, "applied")];
        return m.grouped(marks, 900).map((group) => group.shown.status);
    }"""
    assert "failed" in await answer(modules, "marks", shown)
