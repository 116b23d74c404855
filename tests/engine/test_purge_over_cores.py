"""POST purge from the API process: it waits until every engine core is done, an idle one included.

Here: the call over one and several real engine cores. Never here: what a purge does in one (test_purge_call).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError
from vllm_governor_engine.fanout import Fanout

Drive = Callable[..., Any]


class Cores:
    """vLLM's engine core client of 0.32 over engine cores in this process."""

    def __init__(self, *driven: Any) -> None:
        self.driven = driven
        self.core_engines = list(range(len(driven)))
        self.calls: list[str] = []

    async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
        self.calls.append(args[0])
        return [getattr(one.core, method)(*args) for one in self.driven]


def _filled(drive: Drive, index: int = 0) -> Any:
    driven = drive(num_blocks=20_000, max_num_batched_tokens=8192)
    driven.core.engine_index = index
    for number in range(150):
        driven.engine.add_request(f"f{number}", [number] * 1600, 1)
    driven.engine.run_until_idle()
    return driven


def _boot(client: Cores) -> str:
    return "+".join(one.governor.boot_id for one in client.driven)


def test_one_call_purges_an_idle_engine_to_the_end(drive: Drive) -> None:
    client = Cores(_filled(drive))
    runtime = asyncio.run(Fanout(client).purge({"boot_id": _boot(client), "ratio": 0.5, "preempt": 0}))
    report = runtime["engines"][0]["purge"]["last"]
    assert (report["done"], report["blocks"]) == (True, 7500)
    assert client.calls.count("purge") == 1
    assert client.calls.count("runtime") > 1  # what drove it


def test_every_engine_core_purges_its_own(drive: Drive) -> None:
    client = Cores(_filled(drive, 0), _filled(drive, 1))
    runtime = asyncio.run(Fanout(client).purge({"boot_id": _boot(client), "ratio": 1.0, "preempt": 0}))
    assert [core["purge"]["last"]["blocks"] for core in runtime["engines"]] == [15_000, 15_000]


def test_a_purge_that_one_core_refuses_begins_in_none(drive: Drive) -> None:
    client = Cores(_filled(drive), drive(prefix_caching=False))
    with pytest.raises(GovernorError) as caught:
        asyncio.run(Fanout(client).purge({"boot_id": _boot(client), "ratio": 1.0, "preempt": 0}))
    assert caught.value.code == "unsupported"
    assert client.driven[0].governor.purging.describe()["last"] is None


def test_a_purge_of_another_boot_is_stale(drive: Drive) -> None:
    client = Cores(drive())
    with pytest.raises(GovernorError) as caught:
        asyncio.run(Fanout(client).purge({"boot_id": "other", "ratio": 1.0, "preempt": 0}))
    assert caught.value.code == "stale"


def test_a_purge_that_outlasts_the_timeout_is_told_as_under_way_and_goes_on(drive: Drive) -> None:
    client = Cores(_filled(drive))
    fanout = Fanout(client)
    client.driven[0].governor.purging.advance, advance = (lambda: None), client.driven[0].governor.purging.advance
    fanout._timeout_s = 0.2
    runtime = asyncio.run(fanout.purge({"boot_id": _boot(client), "ratio": 1.0, "preempt": 0}))
    assert not runtime["engines"][0]["purge"]["last"]["done"]
    client.driven[0].governor.purging.advance = advance
    while client.driven[0].governor.purging.under_way:
        client.driven[0].read()
    assert client.driven[0].read()["purge"]["last"]["done"]
