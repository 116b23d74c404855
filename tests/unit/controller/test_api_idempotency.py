"""A change that is sent twice with one key is made once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.api.idempotency import KEPT_S, MOST_BYTES, MOST_KEYS, REPLAYED, Remembered
from controller.api.problem import Problem
from tests.api_rig import serving


class Change:
    """Counts how often it was made."""

    def __init__(self, *statuses: int, body: bytes = b"{}") -> None:
        self.statuses, self.body = list(statuses), body
        self.made = 0
        self.going = asyncio.Event()
        self.going.set()

    async def __call__(self) -> web.Response:
        self.made += 1
        await self.going.wait()
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200, body=self.body)


async def test_the_second_is_answered_as_the_first_and_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        call: dict[str, Any] = {"json": {"ratio": 0.5}, "headers": {"Idempotency-Key": "one"}}
        first = await api.ask("POST", "/api/v1/purge", **call)
        again = await api.ask("POST", "/api/v1/purge", **call)
        assert (again.status, again.body) == (200, first.body)
        assert again.headers[REPLAYED] == "true"
        assert REPLAYED not in first.headers
        assert len(api.rig.engine.purges) == 1
        other = await api.ask("POST", "/api/v1/purge", json={"ratio": 0.4}, headers=call["headers"])
        assert (other.status, other.said["field"]) == (422, "Idempotency-Key")
        assert "was used for another request" in other.said["reason"]
        assert len(await api.actions()) == 1


async def test_two_at_once_make_one_change() -> None:
    remembered, change = Remembered(), Change()
    change.going.clear()
    both = asyncio.gather(remembered.once("k", b"r", change), remembered.once("k", b"r", change))
    await asyncio.sleep(0)
    change.going.set()
    assert [one.status for one in await both] == [200, 200]
    assert change.made == 1


async def test_what_was_refused_may_be_tried_again_with_the_same_key() -> None:
    remembered, change = Remembered(), Change(409, 200)
    assert (await remembered.once("k", b"r", change)).status == 409
    assert (await remembered.once("k", b"r", change)).status == 200
    assert (await remembered.once("k", b"r", change)).headers[REPLAYED] == "true"
    assert change.made == 2


async def test_a_change_that_failed_is_made_by_the_one_that_waited() -> None:
    remembered, change = Remembered(), Change(500, 200)
    change.going.clear()
    both = asyncio.gather(remembered.once("k", b"r", change), remembered.once("k", b"r", change))
    await asyncio.sleep(0)
    change.going.set()
    assert sorted(one.status for one in await both) == [200, 500]
    assert change.made == 2


async def test_without_a_key_each_is_made() -> None:
    remembered, change = Remembered(), Change()
    for _ in range(3):
        await remembered.once(None, b"r", change)
    assert change.made == 3


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256])
async def test_a_key_that_cannot_be_compared_is_refused(key: str) -> None:
    with pytest.raises(Problem, match="Idempotency-Key cannot be used"):
        await Remembered().once(key, b"r", Change())


async def test_a_key_is_forgotten_after_a_day() -> None:
    now = [0.0]
    remembered, change = Remembered(lambda: now[0]), Change()
    await remembered.once("k", b"r", change)
    now[0] = KEPT_S + 1
    await remembered.once("k", b"another request", change)
    assert change.made == 2


async def test_neither_keys_nor_answers_grow_without_bound() -> None:
    remembered = Remembered()
    for number in range(MOST_KEYS + 10):
        await remembered.once(f"k{number}", b"r", Change())
    assert len(remembered._entries) == MOST_KEYS
    for number in range(20):
        await remembered.once(f"big{number}", b"r", Change(body=bytes(MOST_BYTES // 8)))
    assert remembered._bytes <= MOST_BYTES
    assert remembered._bytes == sum(
        len(kept.body) for entry in remembered._entries.values() if (kept := entry.answer.result()) is not None
    )
