"""`long_prefill_token_threshold` and `watermark_blocks` by their effect on a live scheduler.

Here: tokens per prefill chunk, admissions refused for want of headroom, bounds and fallback of the two. Never here:
other knobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
THRESHOLD = "long_prefill_token_threshold"


def _refused(call: Callable[[], object]) -> GovernorError:
    with pytest.raises(GovernorError) as caught:
        call()
    return caught.value


def _largest_chunk(steps: list[Any]) -> int:
    return max(max(step.num_scheduled_tokens.values(), default=0) for step in steps)


# --- long_prefill_token_threshold ---


@SYNC_AND_ASYNC
@pytest.mark.parametrize("prefix_caching", [True, False], ids=["cached", "uncached"])
def test_no_prompt_takes_more_of_a_step_than_the_threshold(
    drive: Drive, async_scheduling: bool, prefix_caching: bool
) -> None:
    driven = drive(
        max_num_batched_tokens=2048, max_num_seqs=16, async_scheduling=async_scheduling, prefix_caching=prefix_caching
    )
    steps = driven.watch_steps()
    largest = []
    for turn, threshold in enumerate((0, 100, 300, 0)):
        driven.patch(**{THRESHOLD: threshold})
        for number in range(6):
            driven.engine.add_request(f"t{turn}-{number}", [turn * 50 + number] * 1000, 4)
        driven.engine.run_until_idle()
        largest.append(_largest_chunk(steps))
        steps.clear()
    assert largest == [1000, 100, 300, 1000]
    assert len(driven.engine.finish_reasons) == 24


def test_the_threshold_goes_both_ways_from_its_start_up_value_and_back_with_the_lease(drive: Drive) -> None:
    driven = drive(long_prefill_token_threshold=256, max_model_len=1024)
    knob = driven.read()["knobs"][THRESHOLD]
    assert knob == {"value": 256, "startup": 256, "min": 0, "max": 1024, "support": "native", "reason": None}
    for value in (0, 1, 1024):
        assert driven.patch(lease_s=5, **{THRESHOLD: value})["knobs"][THRESHOLD]["value"] == value
    assert _refused(lambda: driven.patch(**{THRESHOLD: 1025})).code == "out_of_bounds"
    assert _refused(lambda: driven.patch(**{THRESHOLD: -1})).code == "out_of_bounds"
    driven.clock.now += 6
    assert driven.read()["knobs"][THRESHOLD]["value"] == 256
    assert driven.scheduler.scheduler_config.long_prefill_token_threshold == 256


def test_vllms_adaptive_flag_makes_the_threshold_limited(drive: Drive) -> None:
    from vllm.engine.arg_utils import EngineArgs

    if not hasattr(EngineArgs, "long_prefill_token_threshold_adaptive"):
        pytest.skip("this vLLM has no such flag")
    driven = drive(max_num_batched_tokens=2048, extra={"long_prefill_token_threshold_adaptive": True})
    knob = driven.read()["knobs"][THRESHOLD]
    assert (knob["support"], "adaptive" in knob["reason"]) == ("limited", True)
    steps = driven.watch_steps()
    driven.patch(**{THRESHOLD: 10})
    for number in range(4):
        driven.engine.add_request(f"r{number}", [number] * 1000, 2)
    driven.engine.step()
    assert _largest_chunk(steps) == 2048 // 4  # what the reason says


def test_without_chunked_prefill_there_is_no_threshold(drive: Drive) -> None:
    driven = drive(chunked_prefill=False, max_model_len=1024, max_num_batched_tokens=2048)
    knob = driven.read()["knobs"][THRESHOLD]
    assert (knob["support"], knob["value"]) == ("off", None)
    assert _refused(lambda: driven.patch(**{THRESHOLD: 100})).code == "unsupported"


def test_a_threshold_that_would_cut_decodes_with_drafts_is_refused_and_zero_is_not(drive: Drive) -> None:
    driven = drive()
    driven.scheduler.num_spec_tokens = 4
    driven.adopt()
    knob = driven.read()["knobs"][THRESHOLD]
    assert (knob["min"], knob["value"]) == (5, 0)
    error = _refused(lambda: driven.patch(**{THRESHOLD: 4}))
    assert (error.code, error.where["min"]) == ("out_of_bounds", 5)
    driven.patch(**{THRESHOLD: 5})
    driven.patch(**{THRESHOLD: 0})


# --- watermark_blocks ---


@SYNC_AND_ASYNC
@pytest.mark.parametrize("prefix_caching", [True, False], ids=["cached", "uncached"])
def test_an_admission_leaves_the_watermark_free_and_a_lone_request_always_gets_in(
    drive: Drive, async_scheduling: bool, prefix_caching: bool
) -> None:
    driven = drive(
        num_blocks=101,
        max_model_len=1600,
        max_num_seqs=64,
        async_scheduling=async_scheduling,
        prefix_caching=prefix_caching,
    )
    pool = driven.scheduler.kv_cache_manager.block_pool

    def least_free(name: str) -> int:
        for number in range(30):
            driven.engine.add_request(f"{name}{number}", [number] * 150, 3)
        driven.engine.step()
        return int(pool.get_num_free_blocks())

    assert least_free("stock") == 0  # ten prompts of ten blocks
    driven.engine.run_until_idle()
    driven.patch(watermark_blocks=35)
    assert 35 <= least_free("marked") < 45
    driven.engine.run_until_idle()
    driven.patch(watermark_blocks=50)
    driven.engine.add_request("large", [7] * 1500, 3)  # 94 of 100 blocks: allowed, since nothing else runs
    assert len(driven.engine.run_until_idle()["large"]) == 3
    assert len(driven.engine.finish_reasons) == 61


def test_the_watermark_goes_up_to_half_of_the_pool_and_back_with_the_lease(drive: Drive) -> None:
    driven = drive(num_blocks=101, max_model_len=1600, extra={"watermark": 0.1})
    knob = driven.read()["knobs"]["watermark_blocks"]
    assert (knob["value"], knob["min"], knob["max"], knob["support"]) == (10, 0, 50, "native")
    assert _refused(lambda: driven.patch(watermark_blocks=51)).code == "out_of_bounds"
    driven.patch(lease_s=5, watermark_blocks=50)
    driven.clock.now += 6
    driven.read()
    assert driven.scheduler.kv_cache_manager.watermark_blocks == 10


def test_where_allocation_reads_no_watermark_the_knob_is_off(drive: Drive) -> None:
    driven = drive()
    manager = driven.scheduler.kv_cache_manager

    class Old(type(manager)):  # type: ignore[misc]
        def allocate_slots(self, *args: Any) -> None:
            """Knows no watermark."""

    manager.__class__ = Old
    driven.adopt()
    knob = driven.read()["knobs"]["watermark_blocks"]
    assert (knob["support"], "Old" in knob["reason"]) == ("off", True)
