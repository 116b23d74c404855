"""The governor in a real vLLM engine core: each knob by its effect, the lease, what fails alone."""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])


def _refused(call: Callable[[], object]) -> GovernorError:
    with pytest.raises(GovernorError) as caught:
        call()
    return caught.value


def _tokens(step: Any) -> int:
    return int(step.total_num_scheduled_tokens)


# --- nothing until asked ---


def test_reading_puts_no_hook_in_place_and_changes_nothing(drive: Drive) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512)
    before = dict(vars(driven.scheduler))
    runtime = driven.read()
    assert vars(driven.scheduler) == before
    assert runtime["generation"] == 0
    assert runtime["degraded"] == []
    knobs, lease = runtime["knobs"], runtime["lease"]
    assert (lease["held"], lease["remaining_s"], lease["expirations"]) == (False, None, 0)
    assert lease["fallback"] == {name: knob["startup"] for name, knob in knobs.items() if knob["support"] != "off"}
    cap = {"value": 32, "startup": 32, "min": 1, "max": 32}
    budget = {"value": 512, "startup": 512, "min": 32, "max": 512, "support": "native", "reason": None}
    assert cap.items() <= knobs["max_num_seqs"].items()
    assert knobs["max_num_batched_tokens"] == budget
    assert all((knob["reason"] is None) == (knob["support"] == "native") for knob in knobs.values())
    assert all(knob["value"] == knob["startup"] for knob in knobs.values())


def test_a_refused_patch_puts_no_hook_in_place(drive: Drive) -> None:
    driven = drive(max_num_seqs=32)
    _refused(lambda: driven.patch(max_num_seqs=0))
    assert "schedule" not in vars(driven.scheduler)


def test_the_first_call_gives_an_engine_core_its_governor_and_later_ones_find_it(drive: Drive) -> None:
    driven = drive()
    del driven.core._vllm_governor
    first, second = driven.read(), driven.read()
    assert first["boot_id"] == second["boot_id"]
    assert first["boot_id"] != driven.governor.boot_id


@pytest.mark.parametrize(
    ("variable", "assigned", "shown"),
    [(None, None, None), ("2,3", None, "2,3"), ("", None, ""), ("2,3", [3], "3"), (None, [0, 5], "0,5")],
)
def test_the_process_and_the_gpus_it_computes_on_are_named_as_vllm_assigned_them(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, variable: str | None, assigned: list[int] | None, shown: str | None
) -> None:
    driven = drive()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    driven.core.vllm_config.parallel_config.assigned_physical_gpu_ids = assigned
    runtime = driven.read()
    assert (runtime["pid"], runtime["cuda_visible_devices"]) == (os.getpid(), shown)


def test_a_vllm_that_assigns_no_devices_itself_is_told_by_the_variable(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f3c")
    monkeypatch.delattr(driven.core.vllm_config.parallel_config, "assigned_physical_gpu_ids")
    monkeypatch.delattr(type(driven.core.vllm_config.parallel_config), "assigned_physical_gpu_ids", raising=False)
    assert driven.read()["cuda_visible_devices"] == "GPU-8f3c"


# --- max_num_seqs ---


@SYNC_AND_ASYNC
def test_a_lowered_cap_drains_and_a_raised_one_fills(drive: Drive, async_scheduling: bool) -> None:
    driven = drive(max_num_seqs=24, async_scheduling=async_scheduling)
    driven.add(120, max_tokens=30)
    for _ in range(6):
        driven.engine.step()
    assert len(driven.scheduler.running) == 24
    assert driven.patch(max_num_seqs=5)["running"] == 24  # nobody was thrown out
    most = 24
    while len(driven.scheduler.running) > 5:
        driven.engine.step()
        assert len(driven.scheduler.running) <= most
        most = len(driven.scheduler.running)
    for _ in range(20):
        driven.engine.step()
        assert len(driven.scheduler.running) <= 5
    driven.patch(max_num_seqs=17)
    for _ in range(4):
        driven.engine.step()
    assert len(driven.scheduler.running) == 17
    finished = driven.engine.run_until_idle()
    assert finished
    assert len(driven.engine.finish_reasons) == 120


def test_the_scheduler_asserts_on_the_start_up_value_whatever_the_cap(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    if driven.read()["knobs"]["max_num_seqs"]["support"] != "native":
        pytest.skip("this vLLM admits by the value it asserts on; see the ratchet")
    driven.patch(max_num_seqs=2)
    assert driven.scheduler.max_num_running_reqs == 24


@SYNC_AND_ASYNC
def test_the_ratchet_drains_without_ever_failing_the_schedulers_assertion(
    drive: Drive, old_admission: Callable[[Any], None], async_scheduling: bool
) -> None:
    driven = drive(max_num_seqs=24, async_scheduling=async_scheduling)
    old_admission(driven)
    knob = driven.read()["knobs"]["max_num_seqs"]
    assert (knob["support"], knob["value"], knob["max"]) == ("limited", 24, 24)
    assert knob["reason"]
    driven.add(120, max_tokens=30)
    for _ in range(6):
        driven.engine.step()
    assert len(driven.scheduler.running) == 24
    assert driven.patch(max_num_seqs=4)["knobs"]["max_num_seqs"]["value"] == 4
    assert driven.scheduler.max_num_running_reqs == 24  # at the cap it would kill the engine
    while len(driven.scheduler.running) > 4:
        driven.engine.step()
    for _ in range(40):
        driven.engine.step()
        assert len(driven.scheduler.running) <= 4
    driven.patch(max_num_seqs=8)
    for _ in range(4):
        driven.engine.step()
    assert len(driven.scheduler.running) == 8
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 120


def test_a_ratchet_whose_hook_fails_lets_go_of_the_cap_and_serving_goes_on(
    drive: Drive, old_admission: Callable[[Any], None]
) -> None:
    driven = drive(max_num_seqs=24)
    old_admission(driven)
    driven.add(60, max_tokens=20)
    driven.engine.step()
    driven.patch(max_num_seqs=4)
    generation = driven.governor.generation

    def broken() -> None:
        raise RuntimeError("no ratchet today")

    driven.governor._hook.add("max_num_seqs", broken)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 60
    runtime = driven.read()
    assert runtime["knobs"]["max_num_seqs"]["support"] == "off"
    assert runtime["knobs"]["max_num_seqs"]["value"] is None
    assert [entry["part"] for entry in runtime["degraded"]] == ["max_num_seqs"]
    assert runtime["generation"] == generation + 1
    assert driven.scheduler.max_num_running_reqs == 24
    assert _refused(lambda: driven.patch(max_num_seqs=4)).code == "unsupported"
    assert driven.patch(max_num_batched_tokens=512)["knobs"]["max_num_batched_tokens"]["value"] == 512


# --- max_num_batched_tokens ---


@SYNC_AND_ASYNC
def test_no_step_holds_more_tokens_than_the_budget(drive: Drive, async_scheduling: bool) -> None:
    driven = drive(max_num_seqs=16, max_num_batched_tokens=512, async_scheduling=async_scheduling)
    steps = driven.watch_steps()
    driven.add(40, prompt_tokens=300, max_tokens=12)
    for _ in range(3):
        driven.engine.step()
    assert max(map(_tokens, steps)) == 512
    driven.patch(max_num_batched_tokens=64)
    steps.clear()
    for _ in range(30):
        driven.engine.step()
    assert max(map(_tokens, steps)) == 64
    driven.patch(max_num_batched_tokens=256)
    steps.clear()
    driven.engine.run_until_idle()
    assert max(map(_tokens, steps)) == 256
    assert len(driven.engine.finish_reasons) == 40


def test_the_budget_is_refused_below_what_a_full_batch_needs(drive: Drive) -> None:
    driven = drive(max_num_seqs=48, block_size=32, max_num_batched_tokens=512)
    error = _refused(lambda: driven.patch(max_num_batched_tokens=47))
    assert (error.code, error.where["knob"]) == ("out_of_bounds", "max_num_batched_tokens")
    assert (error.where["min"], error.where["max"]) == (48, 512)
    driven.patch(max_num_batched_tokens=48)
    driven.patch(max_num_seqs=8)
    assert driven.read()["knobs"]["max_num_batched_tokens"]["min"] == 32  # a block, then
    driven.patch(max_num_batched_tokens=32)


def test_the_budget_is_refused_below_what_is_running_even_if_the_cap_is_lower(drive: Drive) -> None:
    driven = drive(max_num_seqs=48, max_num_batched_tokens=512)
    driven.add(48, max_tokens=30)
    driven.engine.step()
    error = _refused(lambda: driven.patch(max_num_seqs=8, max_num_batched_tokens=32))
    assert (error.where["knob"], error.where["min"]) == ("max_num_batched_tokens", 48)
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 48


def test_a_cap_above_the_budget_is_refused_alone_and_taken_together_with_the_budget(drive: Drive) -> None:
    driven = drive(max_num_seqs=48, max_num_batched_tokens=512)
    driven.patch(max_num_seqs=16, max_num_batched_tokens=20)
    error = _refused(lambda: driven.patch(max_num_seqs=40))
    assert (error.code, error.where["knob"]) == ("out_of_bounds", "max_num_batched_tokens")
    assert (error.where["min"], error.where["max"]) == (40, 512)
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 16
    driven.patch(max_num_seqs=40, max_num_batched_tokens=40)
    driven.patch(max_num_seqs=20)  # and lowering is always possible


def test_without_chunked_prefill_the_budget_holds_the_longest_prompt(drive: Drive) -> None:
    driven = drive(chunked_prefill=False, max_model_len=1024, max_num_batched_tokens=2048, max_num_seqs=16)
    assert driven.read()["knobs"]["max_num_batched_tokens"]["min"] == 1024
    assert _refused(lambda: driven.patch(max_num_batched_tokens=1023)).where["min"] == 1024
    driven.patch(max_num_batched_tokens=1024)
    driven.add(8, prompt_tokens=900, max_tokens=3)
    driven.engine.run_until_idle(max_steps=200)
    assert len(driven.engine.finish_reasons) == 8


# --- refusals change nothing ---


@pytest.mark.parametrize(
    ("knobs", "code"),
    [
        ({"max_num_seqs": 33}, "out_of_bounds"),
        ({"max_num_seqs": 0}, "out_of_bounds"),
        ({"max_num_seqs": -1}, "out_of_bounds"),
        ({"max_num_seqs": 10**100}, "out_of_bounds"),
        ({"max_num_seqs": True}, "wrong_type"),
        ({"max_num_seqs": 32.0}, "wrong_type"),
        ({"max_num_seqs": "8"}, "wrong_type"),
        ({"max_num_seqs": None}, "wrong_type"),
        ({"max_num_seqs": [8]}, "wrong_type"),
        ({"max_num_running_reqs": 8}, "unknown_knob"),
        ({"__class__": 8}, "unknown_knob"),
        ({"\ud800": 8}, "unknown_knob"),
        ({"max_num_batched_tokens": 513}, "out_of_bounds"),
    ],
)
def test_a_patch_with_one_bad_knob_sets_none(drive: Drive, knobs: dict[str, Any], code: str) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512)
    before = driven.read()
    for wanted in ({"max_num_batched_tokens": 100, **knobs}, {**knobs, "max_num_seqs": knobs.get("max_num_seqs", 4)}):
        error = _refused(lambda wanted=wanted: driven.patch(**wanted))  # type: ignore[misc]
        assert error.code == code
        assert error.where["knob"]
        assert error.message.isascii()
    assert driven.read() == before


def test_a_knob_that_cannot_be_set_is_switched_off_and_the_others_are_put_back(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512)
    budget = driven.governor.knobs._knobs["max_num_batched_tokens"]

    def broken(value: int) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(budget, "apply", broken)
    assert _refused(lambda: driven.patch(max_num_seqs=8, max_num_batched_tokens=64)).code == "unsupported"
    runtime = driven.read()
    assert runtime["knobs"]["max_num_seqs"]["value"] == 32
    assert runtime["knobs"]["max_num_batched_tokens"]["support"] == "off"
    assert runtime["degraded"][0]["part"] == "max_num_batched_tokens"
    driven.patch(max_num_seqs=8)


# --- generation and boot_id ---


def test_only_a_reader_of_the_last_change_may_change(drive: Drive) -> None:
    driven = drive()
    governor = driven.governor
    first = driven.patch(max_num_seqs=8)
    assert first["generation"] == 1
    error = _refused(lambda: driven.call("set", expect={governor.boot_id: 0}, knobs={"max_num_seqs": 9}, lease_s=9))
    assert (error.code, error.where["current"]) == ("stale", {"boot_id": governor.boot_id, "generation": 1})
    error = _refused(lambda: driven.call("set", expect={"another": 1}, knobs={"max_num_seqs": 9}, lease_s=9))
    assert error.code == "stale"
    assert _refused(lambda: driven.call("lease", expect={"another": None}, lease_s=9)).code == "stale"
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 8


def test_one_call_counts_as_one_change_and_one_that_moves_nothing_as_none(drive: Drive) -> None:
    driven = drive(max_num_seqs=32, max_num_batched_tokens=512)
    assert driven.patch(max_num_seqs=8, max_num_batched_tokens=100)["generation"] == 1
    assert driven.patch(max_num_seqs=8)["generation"] == 1
    assert driven.patch()["generation"] == 1
    assert driven.lease()["generation"] == 1


def test_a_new_scheduler_is_a_new_boot(drive: Drive) -> None:
    driven, other = drive(), drive()
    driven.core.scheduler = other.scheduler
    assert driven.read()["boot_id"] != driven.governor.boot_id


def test_a_call_whose_caller_has_given_up_changes_nothing(drive: Drive) -> None:
    from vllm_governor_engine import deadline

    driven = drive()
    expect = {driven.governor.boot_id: 0}
    late = deadline.at(driven.clock.now - 0.1)
    call = {"expect": expect, "knobs": {"max_num_seqs": 4}, "lease_s": 9, "deadline": late}
    assert _refused(lambda: driven.call("set", **call)).code == "engine_unavailable"
    assert driven.read()["generation"] == 0
    call["deadline"] = deadline.at(driven.clock.now + 0.1)
    assert driven.call("set", **call)["generation"] == 1


# --- the lease ---


@SYNC_AND_ASYNC
def test_a_lease_that_runs_out_under_load_sets_the_fallback_before_the_next_step(
    drive: Drive, async_scheduling: bool
) -> None:
    driven = drive(max_num_seqs=24, max_num_batched_tokens=512, async_scheduling=async_scheduling)
    driven.add(100, max_tokens=25)
    driven.patch(lease_s=15, max_num_seqs=4)
    assert driven.read()["lease"]["remaining_s"] == 15.0
    for _ in range(40):
        driven.engine.step()
        assert len(driven.scheduler.running) <= 4
    driven.clock.now += 14.999
    driven.engine.step()
    assert driven.limit == 4
    driven.clock.now += 0.001
    driven.engine.step()
    assert driven.limit == 24
    runtime = driven.read()
    assert runtime["generation"] == 2
    assert (runtime["lease"]["held"], runtime["lease"]["expirations"]) == (False, 1)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 100
    assert driven.read()["generation"] == 2


def test_a_lease_that_runs_out_while_idle_is_noticed_at_the_next_call(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    driven.patch(lease_s=5, max_num_seqs=4)
    driven.clock.now += 5
    runtime = driven.read()
    assert runtime["knobs"]["max_num_seqs"]["value"] == 24
    assert (runtime["generation"], runtime["lease"]["expirations"]) == (2, 1)


def test_a_patch_that_arrives_after_the_lease_ran_out_is_stale(drive: Drive) -> None:
    driven = drive()
    driven.patch(lease_s=5, max_num_seqs=4)
    driven.clock.now += 6
    assert _refused(lambda: driven.patch(max_num_seqs=9)).where["current"]["generation"] == 2


def test_a_named_fallback_is_what_the_engine_returns_to_and_stays_named(drive: Drive) -> None:
    driven = drive(max_num_seqs=24, max_num_batched_tokens=512)
    runtime = driven.lease(lease_s=5, fallback={"max_num_seqs": 8})
    named = runtime["lease"]["fallback"]
    assert (named["max_num_seqs"], named["max_num_batched_tokens"]) == (8, 512)
    assert runtime["knobs"]["max_num_seqs"]["value"] == 24
    driven.patch(lease_s=5, max_num_seqs=12, max_num_batched_tokens=128)
    driven.clock.now += 5
    values = driven.read()["knobs"]
    assert (values["max_num_seqs"]["value"], values["max_num_batched_tokens"]["value"]) == (8, 512)
    assert driven.lease(lease_s=5)["lease"]["fallback"]["max_num_seqs"] == 8
    replaced = driven.lease(lease_s=5, fallback={"max_num_batched_tokens": 100})
    named = replaced["lease"]["fallback"]
    assert (named["max_num_seqs"], named["max_num_batched_tokens"]) == (24, 100)
    assert driven.lease(lease_s=5, fallback={})["lease"]["fallback"]["max_num_batched_tokens"] == 512


def test_a_renewed_lease_does_not_run_out(drive: Drive) -> None:
    driven = drive()
    driven.patch(lease_s=5, max_num_seqs=4)
    for _ in range(10):
        driven.clock.now += 4
        assert driven.lease(lease_s=5)["lease"]["held"]
    assert driven.read()["lease"]["expirations"] == 0


@pytest.mark.parametrize(
    ("fallback", "code"),
    [
        ({"max_num_seqs": 99}, "out_of_bounds"),
        ({"max_num_batched_tokens": 8}, "out_of_bounds"),
        ({"max_num_seqs": 20, "max_num_batched_tokens": 16}, "out_of_bounds"),
        ({"max_num_seqs": False}, "wrong_type"),
        ({"nothing": 1}, "unknown_knob"),
    ],
)
def test_a_fallback_is_validated_as_a_whole_and_a_bad_one_takes_no_lease(
    drive: Drive, fallback: dict[str, Any], code: str
) -> None:
    driven = drive(max_num_seqs=24, max_num_batched_tokens=512)
    before = driven.read()
    assert _refused(lambda: driven.lease(fallback=fallback)).code == code
    assert driven.read() == before
    assert "schedule" not in vars(driven.scheduler)


def test_a_tight_fallback_waits_for_running_requests_and_starves_none(drive: Drive) -> None:
    driven = drive(max_num_seqs=48, max_num_batched_tokens=512)
    driven.lease(lease_s=5, fallback={"max_num_seqs": 4, "max_num_batched_tokens": 16})
    driven.add(48, prompt_tokens=4, max_tokens=2)
    driven.add(10, prompt_tokens=4, max_tokens=30, name="late")
    steps = driven.watch_steps()
    driven.engine.step()
    running = len(driven.scheduler.running)
    assert running == 48
    driven.clock.now += 5
    driven.engine.step()
    assert driven.scheduler.max_num_scheduled_tokens == running
    assert set(steps[-1].num_scheduled_tokens.values()) == {1}
    assert len(steps[-1].num_scheduled_tokens) == running
    for _ in range(3):
        driven.engine.step()
    assert driven.scheduler.max_num_scheduled_tokens == 16
    assert len(driven.scheduler.running) <= 4
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 58


def test_a_fallback_value_that_fails_degrades_its_knob_and_the_others_are_set(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive(max_num_seqs=24, max_num_batched_tokens=512)
    driven.patch(lease_s=5, max_num_seqs=4, max_num_batched_tokens=64)
    cap = driven.governor.knobs._knobs["max_num_seqs"]
    monkeypatch.setattr(cap, "apply", lambda value: 1 / 0)
    driven.clock.now += 5
    runtime = driven.read()
    assert runtime["knobs"]["max_num_seqs"]["support"] == "off"
    assert driven.limit == 24
    assert runtime["knobs"]["max_num_batched_tokens"]["value"] == 512
    assert [entry["part"] for entry in runtime["degraded"]] == ["max_num_seqs"]
    assert runtime["lease"]["expirations"] == 1


def test_a_lease_check_that_raises_is_taken_out_and_serving_and_calls_go_on(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive(max_num_seqs=24)
    driven.add(60, max_tokens=20)
    driven.patch(lease_s=5, max_num_seqs=8)
    driven.engine.step()
    assert driven.governor._hook.installed
    monkeypatch.setattr(driven.governor.lease, "expire", lambda now: 1 / 0)
    driven.clock.now += 5  # it is not looked at before it runs out
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 60
    _assert_no_lease_in_the_hook(driven)
    monkeypatch.undo()
    runtime = driven.read()
    assert [entry["part"] for entry in runtime["degraded"]] == ["lease"]
    assert driven.patch(lease_s=5, max_num_seqs=9)["knobs"]["max_num_seqs"]["value"] == 9
    _assert_no_lease_in_the_hook(driven)  # what raised stays out
    driven.clock.now += 5
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 24  # and calls still check


def _assert_no_lease_in_the_hook(driven: Any) -> None:
    """And no hook at all, unless a knob lives by it."""
    parts = driven.governor.engine.hook.parts
    assert "lease" not in parts
    assert ("schedule" in vars(driven.scheduler)) == bool(parts)


# --- the border ---


def test_no_numpy_number_crosses_the_border(drive: Drive) -> None:
    import numpy

    driven = drive(max_num_seqs=24, max_num_batched_tokens=512)
    setattr(driven.scheduler, driven.limit_name, numpy.int64(24))
    driven.scheduler.max_num_scheduled_tokens = numpy.int32(512)
    driven.scheduler.get_request_counts = lambda: (numpy.int64(0), numpy.int64(3))
    driven.adopt()
    driven.governor.lease.expirations = numpy.int64(2)
    runtime = driven.patch(max_num_seqs=8)
    assert runtime["lease"]["expirations"] == 2
    assert runtime["waiting"] == 3
    driven.read()
    assert type(driven.limit) is int


@pytest.mark.parametrize(
    "payload", ["", "[]", "{}", "null", '{"expect": 1}', '{"expect": {}, "deadline": 7}', "\ud800"]
)
@pytest.mark.parametrize("op", ["set", "lease", "check", "undo", "nonsense", "", "__init__"])
def test_no_payload_makes_the_method_raise(drive: Drive, op: str, payload: str) -> None:
    driven = drive()
    reply = json.loads(driven.core.governor_call(op, payload))
    assert "error" in reply
    assert driven.read()["generation"] == 0


def test_an_engine_core_it_cannot_read_is_an_error_and_no_exception() -> None:
    from types import SimpleNamespace

    from vllm_governor_engine.core import call

    assert json.loads(call(SimpleNamespace(), "runtime", "{}"))["error"]["code"] == "engine_unavailable"


def test_a_scheduler_it_does_not_know_switches_off_its_knobs_with_a_reason() -> None:
    from types import SimpleNamespace

    from vllm_governor_engine.core import call

    class Strange:
        running: tuple[()] = ()
        waiting: tuple[()] = ()

        def schedule(self) -> None:
            """Reads nothing."""

    core = SimpleNamespace(scheduler=Strange(), vllm_config=None)
    runtime = json.loads(call(core, "runtime", "{}"))["ok"]
    for knob in runtime["knobs"].values():
        assert (knob["support"], knob["value"], knob["min"], knob["max"]) == ("off", None, None, None)
        assert knob["reason"]
    assert "Strange" in runtime["knobs"]["max_num_seqs"]["reason"]
    assert runtime["lease"]["fallback"] == {}
    assert runtime["degraded"] == []


def test_each_change_is_logged_once_with_what_moved(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    driven = drive(max_num_seqs=24)
    with caplog.at_level(logging.INFO, logger="vllm_governor_engine"):
        driven.patch(lease_s=5, max_num_seqs=8)
        driven.patch(lease_s=5, max_num_seqs=8)
        driven.clock.now += 5
        driven.read()
    lines = [record.getMessage() for record in caplog.records if record.name == "vllm_governor_engine"]
    assert len(lines) == 2
    assert "max_num_seqs 24 -> 8" in lines[0]
    assert "lease ran out: max_num_seqs 8 -> 24" in lines[1]


@SYNC_AND_ASYNC
@pytest.mark.parametrize("old", [False, True], ids=["native", "ratchet"])
def test_requests_survive_any_sequence_of_changes(
    drive: Drive,
    old_admission: Callable[[Any], None],
    async_scheduling: bool,
    old: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not old:
        monkeypatch.undo()
    driven = drive(
        max_num_seqs=32, max_num_batched_tokens=256, num_blocks=96, max_model_len=512, async_scheduling=async_scheduling
    )
    if old:
        old_admission(driven)
    source = random.Random(7)
    steps = driven.watch_steps()
    refusals: set[str] = set()
    added = 0
    for _ in range(1500):
        if added < 600 and source.random() < 0.4:
            driven.add(1, source.randint(1, 120), source.randint(1, 30), name=f"q{added}-")
            added += 1
        choice = source.random()
        if choice < 0.3:
            wanted = {"max_num_seqs": source.randint(1, 32), "max_num_batched_tokens": source.randint(16, 256)}
            if source.random() < 0.5:
                wanted.popitem()
            driven.read()  # a lease that has run out shows now and does not make the patch stale
            try:
                driven.patch(lease_s=source.randint(1, 5), **wanted)
            except GovernorError as error:
                refusals.add(error.code)
        elif choice < 0.35:
            cap = source.randint(1, 32)
            driven.lease(lease_s=2, fallback={"max_num_seqs": cap, "max_num_batched_tokens": max(16, cap)})
        driven.clock.now += source.random()
        driven.engine.step()
        budget = driven.scheduler.max_num_scheduled_tokens
        assert budget >= min(256, len(driven.scheduler.running))
        assert _tokens(steps[-1]) <= 256
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == added
    assert refusals == {"out_of_bounds"}
    runtime = driven.read()
    assert runtime["degraded"] == []
    assert runtime["lease"]["expirations"] > 5


def test_a_cap_raised_while_the_budget_still_goes_down_is_not_left_above_it(drive: Drive) -> None:
    driven = drive(max_num_seqs=64, max_num_batched_tokens=2048, block_size=16)
    driven.lease(lease_s=5, fallback={"max_num_seqs": 16, "max_num_batched_tokens": 16})
    driven.add(60, max_tokens=60)
    for _ in range(3):
        driven.engine.step()
    driven.clock.now += 6
    driven.engine.step()
    assert driven.read()["knobs"]["max_num_batched_tokens"]["value"] > 16
    driven.patch(max_num_seqs=32)
    driven.engine.run_until_idle(max_steps=2000)
    budget = driven.read()["knobs"]["max_num_batched_tokens"]
    assert budget["value"] == budget["min"] == 32
    if driven.read()["knobs"]["max_num_seqs"]["support"] == "native":
        assert "max_num_batched_tokens" not in driven.governor._hook.parts


def test_a_cap_that_switches_itself_off_takes_a_budget_that_is_too_small_for_it_along(drive: Drive) -> None:
    driven = drive(max_num_seqs=64, max_num_batched_tokens=2048)
    driven.patch(max_num_seqs=8, max_num_batched_tokens=40)
    driven.governor.knobs.switch_off("max_num_seqs", "a test")
    assert driven.limit == 64
    assert driven.read()["knobs"]["max_num_batched_tokens"]["value"] in (64, 2048)


# --- who holds the lease ---


def test_while_one_holds_the_lease_another_can_neither_renew_it_nor_set_a_knob(drive: Drive) -> None:
    driven = drive(max_num_seqs=32)
    expect = {driven.governor.boot_id: driven.governor.generation}
    driven.call("lease", expect=expect, lease_s=10, holder="a")
    assert driven.read()["lease"]["holder"] == "a"
    held = _refused(lambda: driven.call("lease", expect=expect, lease_s=10, holder="b"))
    assert (held.code, held.where) == ("held", {"holder": "a", "remaining_s": 10.0})
    set_it = {"expect": expect, "knobs": {"max_num_seqs": 8}, "lease_s": 10}
    assert _refused(lambda: driven.call("set", **set_it, holder="b")).code == "held"
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 32
    assert driven.call("set", **set_it)["knobs"]["max_num_seqs"]["value"] == 8
    assert driven.read()["lease"]["holder"] == "a"


def test_a_lease_that_ran_out_or_whose_holder_is_known_to_be_gone_is_taken_over(drive: Drive) -> None:
    driven = drive()
    expect = {driven.governor.boot_id: None}
    driven.call("lease", expect=expect, lease_s=10, holder="a")
    assert driven.call("lease", expect=expect, lease_s=10, holder="b", instead_of="a")["lease"]["holder"] == "b"
    driven.clock.now += 10
    assert driven.call("lease", expect=expect, lease_s=10, holder="c")["lease"]["holder"] == "c"
