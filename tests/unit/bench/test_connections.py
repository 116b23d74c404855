"""The laws of the search and of the figures, and both styles through a real nginx to a small server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from bench.connections import certificate, nginx_files, setting_up
from bench.connections.holding import CLOSE_ENOUGH, Held, Most, hold, most
from bench.connections.nginx import Nginx
from bench.connections.nginx_files import Fit, Unfit
from bench.connections.run import figures
from bench.connections.setting_up import TURNS, SetUp
from bench.connections.style import LONG, SHORT, STYLES, TUNED, Style
from bench.ports import free_port
from tests.programs import need

Start = Callable[[Style], Nginx]


def breaking_at(limit: int, tried: list[int]) -> Callable[[int], Held]:
    """A machine that holds fewer than `limit`."""

    def attempt(count: int) -> Held:
        tried.append(count)
        errors = Counter({"reset": 3}) if count >= limit else Counter[str]()
        return Held(count, errors, 0.02, "worker_connections are not enough" if errors else "")

    return attempt


@pytest.mark.parametrize("limit", [17, 251, 512, 1501, 3999])
def test_the_search_ends_just_below_what_does_not_hold(limit: int) -> None:
    found = most(breaking_at(limit, []), 4000)
    assert found.held is not None
    assert limit - 1 - CLOSE_ENOUGH <= found.held.count < limit
    assert found.first_error == "reset; nginx says: worker_connections are not enough"


def test_the_search_never_tries_more_than_the_ceiling_and_says_that_it_met_it() -> None:
    tried: list[int] = []
    found = most(breaking_at(10**6, tried), 1700)
    assert max(tried) == 1700
    assert found.held is not None
    assert (found.held.count, found.first_error) == (1700, None)


def test_where_nothing_holds_memory_is_unknown_and_not_nothing() -> None:
    shown = figures(SetUp((0.001,), 0, 1), Most(most(breaking_at(1, []), 100).held, "reset"), 3.0)
    assert (shown["max_ok"], shown["mb_per_conn"]) == (0, None)


def test_set_up_is_spread_over_the_requests_that_it_carried() -> None:
    assert SetUp((0.004, 0.002), 1, 20).ms_per_request == pytest.approx(0.3)


def test_a_shipped_file_that_lost_a_place_to_fit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nginx.conf").write_text("events {}")
    monkeypatch.setattr(nginx_files, "SHIPPED", tmp_path)
    with pytest.raises(Unfit, match=r"pid /run/nginx\.pid"):
        nginx_files.shipped(Fit(tmp_path, 1, certificate.make(tmp_path), "127.0.0.1:8000"))


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Makes an nginx of a style before a server that answers as vLLM does."""

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def completion(_: web.Request) -> web.Response:
        return web.Response(body=b"data: {}\n\ndata: [DONE]\n\n", content_type="text/event-stream")

    application = web.Application()
    application.router.add_get("/health", health)
    application.router.add_post("/v1/completions", completion)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issued = certificate.make(tmp_path)

    def made(style: Style) -> Nginx:
        fit = Fit(tmp_path / style.name, free_port(), issued, f"127.0.0.1:{runner.addresses[0][1]}")
        texts = nginx_files.shipped(fit) if style.shipped else nginx_files.defaults(fit)
        return Nginx(need("nginx"), nginx_files.write(fit, texts), fit.port)

    yield made
    await runner.cleanup()


@pytest.mark.parametrize(("style", "connections", "resumed"), [(SHORT, 3 * TURNS, 0), (LONG, 3, 0), (TUNED, 3, 2)])
async def test_a_dialogue_takes_the_connections_and_resumes_the_sessions_of_its_style(
    start: Start, tmp_path: Path, style: Style, connections: int, resumed: int
) -> None:
    trust = certificate.Certificate(tmp_path, tmp_path, tmp_path / "ca.crt").trusting()
    with start(style) as nginx:
        found = await asyncio.to_thread(setting_up.measure, nginx.port, trust, style, 3)
    logged = nginx.requests()
    assert (len(found.setups_s), found.resumed, found.requests) == (connections, resumed, 3 * TURNS)
    assert len({number for number, *_ in logged}) == connections
    assert len({number for number, _, was_resumed, _ in logged if was_resumed}) == resumed


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
async def test_a_few_connections_are_held_in_every_style(start: Start, tmp_path: Path, style: Style) -> None:
    trust = certificate.Certificate(tmp_path, tmp_path, tmp_path / "ca.crt").trusting()
    with start(style) as nginx:
        found = await asyncio.to_thread(hold, nginx, trust, style, 20, 0.0)
    assert (found.count, found.errors) == (20, Counter())
    assert len(nginx.requests()) == (40 if style.kept else 20)


async def test_more_connections_than_nginxs_own_limit_are_errors_that_nginx_explains(
    start: Start, tmp_path: Path
) -> None:
    trust = certificate.Certificate(tmp_path, tmp_path, tmp_path / "ca.crt").trusting()
    with start(LONG) as nginx:
        found = await asyncio.to_thread(hold, nginx, trust, LONG, 600, 0.0)
    assert found.errors.total() > 0
    assert "worker_connections" in found.nginx_said
