"""The RPC on a real vLLM: what must be refused is refused with a sentence, nothing moves, and serving goes on."""

from __future__ import annotations

from typing import Any

import pytest

from bench.load import Load
from domain.knobs import MAX_NUM_SEQS
from tests.e2e.rig import LOAD, Rig
from tests.waiting import until

RUNTIME = "/governor/v1/runtime"


async def patch(rig: Rig, **changes: Any) -> dict[str, Any]:
    runtime = await rig.client.runtime()
    body = {"boot_id": runtime.boot_id, "generation": runtime.generation, "lease_s": 15, "knobs": {MAX_NUM_SEQS: 32}}
    return body | changes


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic d3Jvbmc="}])
async def test_without_the_right_token_nothing_is_told_or_changed(rig: Rig, headers: dict[str, str]) -> None:
    before = await rig.client.runtime()
    for method, body in (("GET", None), ("PATCH", await patch(rig)), ("PATCH", None)):
        status, answer = await rig.raw(method, RUNTIME, json=body, headers=headers)
        assert status == 401
        assert answer["error"]["code"] == "unauthorized"
    after = await rig.client.runtime()
    assert (after.generation, after.knob(MAX_NUM_SEQS)) == (before.generation, before.knob(MAX_NUM_SEQS))


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"knobs": {MAX_NUM_SEQS: 0}}, 422, "out_of_bounds"),
        ({"knobs": {MAX_NUM_SEQS: 65}}, 422, "out_of_bounds"),
        ({"knobs": {MAX_NUM_SEQS: -1}}, 422, "out_of_bounds"),
        ({"knobs": {MAX_NUM_SEQS: "32"}}, 422, "wrong_type"),
        ({"knobs": {MAX_NUM_SEQS: 32.5}}, 422, "wrong_type"),
        ({"knobs": {MAX_NUM_SEQS: True}}, 422, "wrong_type"),
        ({"knobs": {MAX_NUM_SEQS: None}}, 422, "wrong_type"),
        ({"knobs": {MAX_NUM_SEQS: float("nan")}}, 422, "wrong_type"),
        ({"knobs": {MAX_NUM_SEQS: float("inf")}}, 422, "wrong_type"),
        ({"knobs": {"max_seqs": 32}}, 422, "unknown_knob"),
        ({"knobs": {MAX_NUM_SEQS: 32, "max_num_batched_tokens": 1}}, 422, "out_of_bounds"),
        ({"lease_s": 0}, 422, "out_of_bounds"),
        ({"extra": 1}, 422, "unknown_key"),
        ({"generation": 10_000}, 412, "stale"),
        ({"boot_id": "another"}, 412, "stale"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_whole(
    rig: Rig, changes: dict[str, Any], status: int, code: str
) -> None:
    before = await rig.client.runtime()
    answered, answer = await rig.raw("PATCH", RUNTIME, json=await patch(rig, **changes), headers=rig.authorized)
    after = await rig.client.runtime()
    assert (answered, answer["error"]["code"]) == (status, code)
    assert len(answer["error"]["message"]) > 20
    assert after.generation == before.generation
    assert after.cores[0].knobs == before.cores[0].knobs
    assert await rig.complete() == 200


async def test_the_cap_takes_effect_between_two_steps_and_nothing_is_lost(rig: Rig) -> None:
    async with Load(rig.server.url, "tiny", LOAD) as load:

        async def full() -> bool:
            return (await rig.client.runtime()).running > 16

        async def drained() -> bool:
            runtime = await rig.client.runtime()
            return 0 < runtime.running <= 4 and runtime.waiting > 0

        await until("more than 16 run", full)
        await rig.client.set_knobs(await rig.client.runtime(), {MAX_NUM_SEQS: 4}, 120)
        await until("at most 4 run", drained)
    assert load.failed_total == 0
    assert load.ok_total > 0


async def test_a_lease_that_runs_out_sets_the_named_fallback(rig: Rig) -> None:
    runtime = await rig.client.runtime()
    await rig.client.renew_lease(runtime.boot_id, 1.0, {MAX_NUM_SEQS: 24})

    async def fallen_back() -> bool:
        return await rig.cap() == 24

    await until("the fallback is in force", fallen_back)
    assert (await rig.client.runtime()).lease_expirations > runtime.lease_expirations
    await rig.client.renew_lease(runtime.boot_id, 1.0, {})
