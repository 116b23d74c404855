"""The event stream: from now on, from an id on, only some kinds, and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from controller.api import events as api_events
from controller.operations.events import EventKind
from tests.api_rig import ADMIN, ApiRig, serving
from tests.waiting import PATIENCE_S, until

EVENTS = "/api/v1/events"
Said = dict[str, str]


class Stream:
    """Reads one stream, event by event."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def block(self) -> Said:
        """The next block of lines, by field; a comment is under the empty name."""
        said: Said = {}
        async with asyncio.timeout(PATIENCE_S):
            while line := (await self.answer.content.readline()).decode():
                if line == "\n":
                    return said
                name, _, value = line.rstrip("\n").partition(": ")
                said[name] = value
        return said

    async def event(self) -> Said:
        """The next block with data; none at the end."""
        while (said := await self.block()) and "data" not in said:
            pass
        return said


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path, streams=3) as rig:
        yield rig


@asynccontextmanager
async def listening(api: ApiRig, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    headers |= {"Authorization": f"Bearer {ADMIN}"}
    async with api.session.get(f"{api.url}{EVENTS}{query}", headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield Stream(answer)


def publish(api: ApiRig, number: int, kind: EventKind = EventKind.SOURCE) -> str:
    return api.operations.events.publish(kind, {"n": number}).id


async def test_a_listener_hears_what_happens_from_now_on(api: ApiRig) -> None:
    async with listening(api) as stream:
        first = await stream.block()
        assert (first["retry"], first["id"]) == ("2000", api.operations.events.last_id)
        number = publish(api, 1)
        said = await stream.event()
        assert (said["id"], said["event"], json.loads(said["data"])) == (number, "source", {"n": 1})


async def test_a_tick_tells_its_signals_and_knobs(api: ApiRig) -> None:
    async with listening(api, "?kind=tick") as stream:
        await stream.block()
        await api.rig.loop.tick()
        data = json.loads((await stream.event())["data"])
    assert data["signals"]["running"] > 0
    assert data["knobs"]["max_num_seqs"] > 0


@pytest.mark.parametrize("by", ["header", "query"])
async def test_a_listener_that_comes_again_misses_nothing(api: ApiRig, by: str) -> None:
    seen = publish(api, 1)
    missed = [publish(api, number) for number in (2, 3)]
    headers = {"Last-Event-ID": seen} if by == "header" else {}
    async with listening(api, f"?last_event_id={seen}" if by == "query" else "", **headers) as stream:
        assert [(await stream.event())["id"] for _ in missed] == missed


async def test_of_another_life_it_is_told_that_there_is_a_gap_and_gets_what_is_kept(api: ApiRig) -> None:
    last = publish(api, 1)
    async with listening(api, "?kind=source", **{"Last-Event-ID": "0badcafe-7"}) as stream:
        assert (await stream.event())["event"] == "gap"
        assert (await stream.event())["id"] == last


async def test_without_following_it_gets_what_is_kept_and_an_end(api: ApiRig) -> None:
    numbers = [publish(api, number) for number in range(3)]
    async with listening(api, "?follow=false&kind=source") as stream:
        said = [await stream.event() for _ in numbers]
        assert [one["id"] for one in said] == numbers
        assert await stream.event() == {}


async def test_a_silent_stream_shows_that_it_is_alive_and_how_far_it_came(
    api: ApiRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "PULSE_S", 0.05)
    async with listening(api, "?kind=alert") as stream:
        await stream.block()
        assert await stream.block() == {"": "alive"}
        left_out = publish(api, 1)
        while (said := await stream.block()) == {"": "alive"}:
            pass
        assert said == {"": "alive", "id": left_out}


async def test_more_streams_than_are_allowed_are_told_to_come_later_and_one_that_ends_makes_room(api: ApiRig) -> None:
    async with listening(api), listening(api):
        async with listening(api):
            refused = await api.ask("GET", EVENTS)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
            assert "api.streams = 3" in refused.said["reason"]
        await until("one has gone", lambda: bool(publish(api, 1)) and api.operations.events.listeners == 2)
        async with listening(api):
            pass


async def test_who_takes_nothing_is_cut_off_and_holds_nobody_up(api: ApiRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_events, "WRITE_S", 2.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.api.port, limit=1024)
    writer.write(f"GET {EVENTS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode())
    assert b" 200 " in await reader.readline()
    async with listening(api) as stream:
        await stream.block()
        big = {"text": "x" * 100_000}
        for number in range(300):
            said = api.operations.events.publish(EventKind.SOURCE, {**big, "n": number}).id
            assert (await stream.event())["id"] == said
        await until("it is cut off", lambda: api.operations.events.listeners == 1)
    writer.close()


async def test_when_the_daemon_stops_every_stream_ends_at_once(api: ApiRig) -> None:
    async with listening(api) as one, listening(api) as two:
        await one.block()
        await two.block()
        api.operations.events.close()
        async with asyncio.timeout(PATIENCE_S):
            await api.api.stop()
        assert await one.event() == await two.event() == {}


async def test_what_it_does_not_know_it_refuses(api: ApiRig) -> None:
    for query in ("?kind=nothing", "?follow=maybe", f"?last_event_id={'x' * 65}"):
        assert (await api.ask("GET", EVENTS + query)).status == 400
    assert (await api.ask("GET", EVENTS, headers={"Last-Event-ID": "x" * 65})).status == 400
