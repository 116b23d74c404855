"""Every knob can be taken back: switched off, an engine is as vLLM started it.

Here: the undoing of all knobs of the engine core, one by one and together. Never here: what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

Drive = Callable[..., Any]
MOVED: dict[str, Any] = {
    "max_num_seqs": 4,
    "max_num_batched_tokens": 200,
    "long_prefill_token_threshold": 64,
    "admission_delay_ms": 30,
    "length_grouping": True,
    "watermark_blocks": 20,
    "hot_cache_ratio": 0.4,
    "hot_cache_min_size_mb": 1,
    "hot_ttl_s": 60,
    "cold_ttl_s": 10,
    "cold_cache_reclaim_threshold": 0.5,
}


def _state(driven: Any) -> tuple[Any, ...]:
    scheduler = driven.scheduler
    manager = scheduler.kv_cache_manager
    return (
        getattr(scheduler, driven.governor.window.limit),
        scheduler.max_num_running_reqs,
        scheduler.max_num_scheduled_tokens,
        scheduler.scheduler_config.long_prefill_token_threshold,
        manager.watermark_blocks,
        type(manager.block_pool.free_block_queue),
        driven.governor.window.delay_s,
        driven.governor.window.grouping,
    )


def test_all_knobs_switched_off_leave_the_engine_as_it_was_started(drive: Drive) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512, num_blocks=300)
    before = _state(driven)
    driven.patch(**MOVED)
    assert all(now != then for now, then in zip(_state(driven)[2:], before[2:], strict=True))
    driven.add(20, max_tokens=10)
    for _ in range(5):
        driven.engine.step()
    for name in MOVED:
        driven.governor.knobs.switch_off(name, "a test says so")
    assert _state(driven) == before
    assert driven.governor.engine.hook.parts == ("lease",)
    assert len(driven.engine.run_until_idle()) == 20
    assert {entry["part"] for entry in driven.read()["degraded"]} == set(MOVED)


def test_all_knobs_set_back_leave_the_engine_as_it_was_started(drive: Drive) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512, num_blocks=300)
    before, startup = _state(driven), {name: driven.read()["knobs"][name]["startup"] for name in MOVED}
    for turn in range(3):
        driven.patch(**MOVED)
        driven.add(10, max_tokens=5, name=f"t{turn}-")
        driven.engine.step()
        assert driven.patch(**startup)["knobs"]["max_num_seqs"]["value"] == 32
        assert _state(driven) == before
        assert driven.governor.engine.hook.parts == ("lease",)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 30


@pytest.mark.parametrize("name", list(MOVED))
def test_a_knob_that_cannot_be_set_is_off_and_the_rest_is_put_back(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512, num_blocks=300)
    before = _state(driven)

    def broken(value: object) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(driven.governor.knobs._knobs[name], "apply", broken)
    with pytest.raises(Exception, match="not today"):
        driven.patch(**MOVED)
    assert _state(driven) == before
    assert driven.read()["knobs"][name]["support"] == "off"
