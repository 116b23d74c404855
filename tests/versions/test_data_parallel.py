"""Two engine cores behind two API processes: each answers for itself, a change reaches both, a lease ends in both.

Here: what only several processes can get wrong. Runs on the newest vLLM, on emulated GPUs.
"""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from bench.server import VllmServer
from tests.versions.conftest import NEWEST, Client, until

pytestmark = pytest.mark.skipif(not NEWEST, reason="data parallel runs on the newest vLLM only")
CAP = "max_num_seqs"


@pytest.fixture
def client(two: VllmServer, session: aiohttp.ClientSession) -> Client:
    return Client(two, session)


async def _values(client: Client, knob: str = CAP) -> list[object]:
    return [core["knobs"][knob]["value"] for core in (await client.runtime())["engines"]]


async def test_every_core_answers_for_itself_whichever_api_process_is_asked(client: Client) -> None:
    documents = await asyncio.gather(*(client.runtime() for _ in range(12)))
    for runtime in documents:
        assert [core["engine"] for core in runtime["engines"]] == [0, 1]
        boots = [core["boot_id"] for core in runtime["engines"]]
        assert len(set(boots)) == 2
        assert runtime["boot_id"] == "+".join(boots)
    assert len({runtime["boot_id"] for runtime in documents}) == 1


async def test_both_api_processes_report_to_both_cores_and_converge_on_a_change(client: Client) -> None:
    changed = await client.patch(max_num_seqs=9)
    assert [core["knobs"][CAP]["value"] for core in changed["engines"]] == [9, 9]

    async def converged() -> bool:
        cores = (await client.runtime())["engines"]
        return all(
            len(core["api_processes"]) == 2 and all(known["converged"] for known in core["api_processes"])
            for core in cores
        )

    await until("both API processes have the change", converged, 5)
    assert len({known["pid"] for known in (await client.runtime())["engines"][0]["api_processes"]}) == 2
    for _ in range(6):  # whichever of the two answers
        assert await _values(client) == [9, 9]


async def test_a_change_holds_in_both_cores_under_load_and_nothing_is_lost(client: Client) -> None:
    completions = [asyncio.ensure_future(client.complete(number, 60)) for number in range(60)]
    try:
        await client.patch(max_num_seqs=3)

        async def bounded() -> bool:
            cores = (await client.runtime())["engines"]
            return all(0 < core["running"] <= 3 for core in cores) and any(core["waiting"] for core in cores)

        await until("both cores run, and at most 3 each", bounded, 30)
        await client.patch(max_num_seqs=16)
        assert await asyncio.gather(*completions) == [60] * 60
    finally:
        for completion in completions:
            completion.cancel()
    assert [core["degraded"] for core in (await client.runtime())["engines"]] == [[], []]


async def test_a_stale_or_impossible_change_reaches_neither_core(client: Client) -> None:
    before = await client.runtime()
    body = {"boot_id": before["boot_id"], "generation": before["generation"] + 1, "lease_s": 5, "knobs": {CAP: 4}}
    assert (await client.call("PATCH", "runtime", body))[0] == 412
    body |= {"generation": before["generation"], "knobs": {CAP: 17}}
    assert (await client.call("PATCH", "runtime", body))[0] == 422
    after = await client.runtime()
    assert (after["generation"], await _values(client)) == (before["generation"], [16, 16])


async def test_a_lease_that_runs_out_sets_the_fallback_in_both_cores(client: Client) -> None:
    before = await client.runtime()
    await client.ok("POST", "lease", {"boot_id": before["boot_id"], "lease_s": 60, "fallback": {CAP: 7}})
    await client.patch(lease_s=1, max_num_seqs=5)
    assert await _values(client) == [5, 5]

    async def fallen_back() -> bool:
        return await _values(client) == [7, 7]

    await until("both cores fell back", fallen_back, 5)
    leases = [core["lease"] for core in (await client.runtime())["engines"]]
    assert [lease["held"] for lease in leases] == [False, False]
    assert await client.complete(1) == 12
