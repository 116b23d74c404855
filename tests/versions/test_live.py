"""A live server of any vLLM: read, change, lease, under completions. What it says of itself is kept for the table.

Here: the smoke that every version has to pass. Never here: what a knob does in detail; tests/engine holds that.
"""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from bench.engines.command import FOUND
from bench.server import VllmServer
from tests.versions.conftest import VERSION, Client, until

CAP = "max_num_seqs"


@pytest.fixture
def client(one: VllmServer, session: aiohttp.ClientSession) -> Client:
    return Client(one, session)


async def test_the_server_is_of_the_version_asked_for_and_says_what_it_supports(client: Client) -> None:
    await client.ok("GET", "stats")  # collecting begins
    await client.complete(0)
    runtime = await client.runtime()
    assert runtime["vllm_version"].split("+")[0] == VERSION
    (core,) = runtime["engines"]
    assert core["degraded"] == []
    assert core["knobs"][CAP]["support"] in ("native", "limited")
    for name, knob in core["knobs"].items():
        assert (knob["support"] == "native") == (knob["reason"] is None), name
    stats = await client.ok("GET", "stats")
    FOUND.mkdir(parents=True, exist_ok=True)
    (FOUND / f"{VERSION}.live.json").write_text(json.dumps({"runtime": runtime, "stats": stats}))


async def test_fifty_completions_are_answered_whole_while_the_cap_goes_up_and_down(client: Client) -> None:
    assert (await client.patch(**{CAP: 2}))["engines"][0]["knobs"][CAP]["value"] == 2
    completions = [asyncio.ensure_future(client.complete(number, 80)) for number in range(50)]
    seen: list[int] = []

    async def watch() -> int:
        core = (await client.runtime())["engines"][0]
        seen.append(core["running"])
        return int(core["waiting"])

    async def queued() -> bool:
        return await watch() > 25

    async def full() -> bool:
        await watch()
        return seen[-1] > 8

    async def drained() -> bool:
        await watch()
        return seen[-1] <= 3

    try:
        await until("the others wait", queued, 30)
        assert max(seen) <= 2
        await client.patch(**{CAP: 16})
        await until("more than 8 run", full, 30)
        await client.patch(**{CAP: 3})
        await until("at most 3 run", drained, 30)
        await client.patch(**{CAP: 16})
        assert await asyncio.gather(*completions) == [80] * 50
    finally:
        for completion in completions:
            completion.cancel()
    assert (await client.runtime())["engines"][0]["degraded"] == []


async def test_every_knob_that_is_not_off_can_be_set_and_comes_back_with_the_lease(client: Client) -> None:
    before = (await client.runtime())["engines"][0]
    knobs = {name: knob for name, knob in before["knobs"].items() if knob["support"] != "off"}
    wanted = {name: _another(knob) for name, knob in knobs.items()}
    after = (await client.patch(lease_s=1, **wanted))["engines"][0]
    assert {name: after["knobs"][name]["value"] for name in wanted} == wanted
    assert await client.complete(1) == 12

    async def fallen_back() -> bool:
        core = (await client.runtime())["engines"][0]
        return bool(core["lease"]["expirations"] > before["lease"]["expirations"])

    await until("the lease has run out", fallen_back, 5)
    core = (await client.runtime())["engines"][0]
    assert {name: core["knobs"][name]["value"] for name in knobs} == {n: k["startup"] for n, k in knobs.items()}
    assert core["degraded"] == []
    assert await client.complete(2) == 12


def _another(knob: dict[str, object]) -> object:
    """A value within the bounds that is not the one in force."""
    value, low, high = knob["value"], knob["min"], knob["max"]
    if isinstance(low, bool):
        return not value
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    middle = low + (high - low) / 2
    return int(middle) if isinstance(low, int) else middle


async def test_a_purge_and_a_freeze_are_answered_as_the_runtime_promises(client: Client) -> None:
    now = await client.runtime()
    status, answer = await client.call("POST", "purge", {"boot_id": now["boot_id"], "ratio": 1.0})
    assert (status, answer) if now["engines"][0]["purge"]["support"] == "off" else status == 200, answer
    if status == 200:
        assert answer["engines"][0]["purge"]["last"]["done"]
    frozen = await client.ok("POST", "freeze", {"boot_id": now["boot_id"], "frozen": True})
    assert frozen["engines"][0]["frozen"]
    status, _ = await client.call(
        "PATCH",
        "runtime",
        {"boot_id": now["boot_id"], "generation": frozen["generation"], "lease_s": 5, "knobs": {CAP: 3}},
    )
    assert status == 423
    lifted = await client.ok("POST", "freeze", {"boot_id": now["boot_id"], "frozen": False})
    assert not lifted["engines"][0]["frozen"]


async def test_without_the_token_nothing_is_told(client: Client) -> None:
    async with client.session.get(f"{client.server.url}/governor/v1/runtime") as answer:
        assert answer.status == 401
