"""The admission window: whom it holds and for how long, in which order they go, and that it can always be undone.

Here: `admission_delay_ms` and `length_grouping` by their effect on a live scheduler. Never here: other knobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import StepModel

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])


def _build(drive: Drive, step_ms: float = 2.0, **settings: Any) -> Any:
    """An engine whose steps all take as long, with one request that runs throughout and a governor on its clock."""
    steps = StepModel(base_ms=step_ms, per_token_us=0, per_context_token_ns=0)
    driven = drive(gpu=EmulatedGpu(step=steps), **{"max_num_seqs": 32, **settings})
    _adopt(driven)
    driven.engine.add_request("runs", range(8), 1500)
    for _ in range(4):
        driven.engine.step()
    return driven


def _adopt(driven: Any) -> None:
    driven.clock = driven.engine.clock.now_s
    driven.adopt()


def _admitted(step: Any) -> list[str]:
    return [request.req_id for request in step.scheduled_new_reqs]


def _limit(driven: Any) -> int:
    return int(getattr(driven.scheduler, driven.governor.window.limit))


def _one_a_step(driven: Any, count: int, name: str = "r") -> None:
    for number in range(count):
        driven.engine.add_request(f"{name}{number}", range(8), 5)
        driven.engine.step()


class _Waits:
    """How long each request waited for its admission, on the engine's clock, seconds."""

    def __init__(self, driven: Any) -> None:
        self.came: dict[str, float] = {}
        self.waited: dict[str, float] = {}
        now, inner, add = driven.engine.clock.now_s, driven.scheduler.schedule, driven.engine.add_request

        def adding(name: str, *rest: Any, **more: Any) -> None:
            self.came[name] = now()
            add(name, *rest, **more)

        def watching(*args: Any, **kwargs: Any) -> Any:
            output = inner(*args, **kwargs)
            for name in _admitted(output):
                if name in self.came:
                    self.waited[name] = now() - self.came[name]
            return output

        driven.engine.add_request = adding
        driven.scheduler.schedule = watching


@SYNC_AND_ASYNC
def test_arrivals_are_held_for_the_delay_and_admitted_together(drive: Drive, async_scheduling: bool) -> None:
    driven = _build(drive, async_scheduling=async_scheduling)
    driven.patch(admission_delay_ms=20)
    waits, steps = _Waits(driven), driven.watch_steps()
    _one_a_step(driven, 40)
    driven.engine.run_until_idle()
    groups = [_admitted(step) for step in steps if step.scheduled_new_reqs]
    assert max(map(len, groups)) >= 8
    assert len(groups) <= 8  # 40 without the window, one a step
    assert [name for group in groups for name in group] == [f"r{number}" for number in range(40)]
    assert max(waits.waited.values()) > 0.012
    assert max(waits.waited.values()) <= 0.020 + 1e-9
    assert driven.governor.window.counters()["windows"] == len(groups)
    assert driven.governor.window.held == 0


def test_without_a_delay_each_arrival_is_admitted_at_the_next_step(drive: Drive) -> None:
    driven = _build(drive)
    steps = driven.watch_steps()
    _one_a_step(driven, 10)
    assert [_admitted(step) for step in steps] == [[f"r{number}"] for number in range(10)]
    assert "held" in driven.read()


def test_the_limit_is_lowered_for_the_call_only_and_the_readback_never_shows_it(drive: Drive) -> None:
    driven = _build(drive)
    driven.patch(admission_delay_ms=50, max_num_seqs=20)
    seen: list[int] = []
    manager = driven.scheduler.kv_cache_manager
    allocate = manager.allocate_slots

    def allocating(*args: Any, **kwargs: Any) -> Any:  # what schedule() calls for the request that runs
        seen.append(_limit(driven))
        return allocate(*args, **kwargs)

    driven.engine.add_request("held", range(8), 5)
    manager.allocate_slots = allocating
    driven.engine.step()
    assert seen == [1]
    assert _limit(driven) == 20
    runtime = driven.read()
    assert runtime["knobs"]["max_num_seqs"]["value"] == 20
    assert (runtime["waiting"], runtime["held"]) == (1, 1)


def test_nobody_is_held_when_nothing_runs(drive: Drive) -> None:
    driven = drive(max_num_seqs=32)
    _adopt(driven)
    driven.patch(admission_delay_ms=100)
    driven.add(5)
    driven.engine.step()
    assert len(driven.scheduler.running) == 5
    assert driven.governor.window.counters() == {"held": 0, "windows": 0, "regroupings": 0}


def test_nobody_is_held_when_a_step_takes_longer_than_the_delay(drive: Drive) -> None:
    driven = _build(drive, step_ms=30)
    driven.patch(admission_delay_ms=20)
    driven.engine.step()
    waits = _Waits(driven)
    _one_a_step(driven, 10)
    assert max(waits.waited.values()) < 0.001
    assert driven.governor.window.windows == 0


def test_who_waits_for_the_cap_is_not_held_when_there_is_room(drive: Drive) -> None:
    driven = _build(drive, max_num_seqs=4)
    driven.patch(admission_delay_ms=50)
    driven.add(3, max_tokens=60, name="fill")
    while len(driven.scheduler.running) < 4:
        driven.engine.step()
    driven.engine.add_request("queued", range(8), 5)
    driven.engine.step()
    assert driven.read()["held"] == 0  # the cap holds it, not the window
    driven.engine.abort("fill0")
    driven.engine.step()
    assert "queued" in [request.request_id for request in driven.scheduler.running]


@SYNC_AND_ASYNC
def test_a_preempted_request_is_not_held_and_lets_the_others_go(drive: Drive, async_scheduling: bool) -> None:
    driven = _build(drive, async_scheduling=async_scheduling)
    driven.engine.add_request("victim", range(8), 50)
    for _ in range(4):
        driven.engine.step()
    driven.patch(admission_delay_ms=100)
    driven.engine.add_request("held", range(8), 50)
    driven.engine.step()
    assert driven.read()["held"] == 1
    assert driven.governor.purging.preempt(1) == 1
    for _ in range(3):  # with two batches in flight vLLM waits for what is on its way
        driven.engine.step()
    assert {request.request_id for request in driven.scheduler.running} == {"runs", "victim", "held"}
    assert driven.read()["held"] == 0


@SYNC_AND_ASYNC
def test_a_held_request_can_be_aborted(drive: Drive, async_scheduling: bool) -> None:
    driven = _build(drive, async_scheduling=async_scheduling)
    driven.patch(admission_delay_ms=40)
    for name in ("a", "b", "c"):
        driven.engine.add_request(name, range(8), 5)
        driven.engine.step()
    driven.engine.abort("b")
    assert driven.read()["held"] == 2
    driven.engine.abort("a", "c")
    assert driven.read()["held"] == 0
    driven.engine.abort("runs")
    driven.engine.run_until_idle()
    driven.engine.add_request("d", range(8), 5)
    assert driven.engine.run_until_idle() == {"d": driven.engine.expected("d", 5)}


def test_a_window_whose_requests_are_all_gone_leaves_the_next_one_its_whole_delay(drive: Drive) -> None:
    driven = _build(drive)
    driven.patch(admission_delay_ms=40)
    driven.engine.add_request("gone", range(8), 5)
    driven.engine.step()
    driven.engine.abort("gone")
    for _ in range(30):  # 60 ms
        driven.engine.step()
    driven.engine.add_request("next", range(8), 5)
    for _ in range(10):
        driven.engine.step()
    assert driven.read()["held"] == 1
    assert driven.governor.window.windows == 2


@SYNC_AND_ASYNC
def test_a_window_goes_in_order_of_prompt_length_ties_as_they_came(drive: Drive, async_scheduling: bool) -> None:
    driven = _build(drive, async_scheduling=async_scheduling, prefix_caching=False)
    driven.patch(admission_delay_ms=40, length_grouping=True)
    steps = driven.watch_steps()
    lengths = [90, 10, 50, 10, 90, 30]
    for number, length in enumerate(lengths):
        driven.engine.add_request(f"r{number}", range(length), 5)
        driven.engine.step()
    while not any(step.scheduled_new_reqs for step in steps):
        driven.engine.step()
    (group,) = [_admitted(step) for step in steps if step.scheduled_new_reqs]
    assert group == ["r1", "r3", "r5", "r2", "r0", "r4"]
    assert driven.governor.window.regroupings == 1
    driven.patch(length_grouping=False)
    steps.clear()
    for number, length in enumerate(lengths):
        driven.engine.add_request(f"s{number}", range(length), 5)
        driven.engine.step()
    while not any(step.scheduled_new_reqs for step in steps):
        driven.engine.step()
    (group,) = [_admitted(step) for step in steps if step.scheduled_new_reqs]
    assert group == [f"s{number}" for number in range(6)]
    assert driven.governor.window.regroupings == 1


def test_what_does_not_fit_into_the_step_after_a_window_is_not_held_again(drive: Drive) -> None:
    driven = _build(drive, max_num_batched_tokens=128, prefix_caching=False)
    driven.patch(admission_delay_ms=30, length_grouping=True)
    steps = driven.watch_steps()
    for number in range(6):
        driven.engine.add_request(f"r{number}", range(100), 5)
        driven.engine.step()
    while not any(step.scheduled_new_reqs for step in steps):
        driven.engine.step()
    until = len(steps) + 5
    while len(steps) < until:
        driven.engine.step()
    assert sum(len(_admitted(step)) for step in steps) == 6


def test_a_switch_is_taken_as_true_false_one_or_zero_and_as_nothing_else(drive: Drive) -> None:
    driven = drive()
    for given, means in ((1, True), (0, False), (True, True), (False, False)):
        assert driven.patch(length_grouping=given)["knobs"]["length_grouping"]["value"] is means
    for wrong in (2, 1.0, "true", None):
        with pytest.raises(GovernorError) as caught:
            driven.patch(length_grouping=wrong)
        assert caught.value.code == "wrong_type"


@pytest.mark.parametrize("given", [-1, 100.5, 101, 10**400])
def test_a_delay_is_refused_out_of_bounds(drive: Drive, given: float) -> None:
    with pytest.raises(GovernorError) as caught:
        drive().patch(admission_delay_ms=given)
    assert (caught.value.code, caught.value.where["max"]) == ("out_of_bounds", 100.0)


def test_under_the_priority_policy_there_is_a_window_but_no_grouping(drive: Drive) -> None:
    driven = _build(drive, scheduling_policy="priority")
    knobs = driven.read()["knobs"]
    assert (knobs["length_grouping"]["support"], knobs["admission_delay_ms"]["support"]) == ("off", "native")
    driven.patch(admission_delay_ms=20)
    waits, steps = _Waits(driven), driven.watch_steps()
    for number in range(30):
        driven.engine.add_request(f"r{number}", range(8), 5, priority=-number)
        driven.engine.step()
    driven.engine.run_until_idle()
    groups = [_admitted(step) for step in steps if step.scheduled_new_reqs]
    assert len(groups) <= 6
    assert groups[0] == sorted(groups[0], key=lambda name: -int(name[1:]))  # vLLM's order
    assert max(waits.waited.values()) <= 0.020 + 1e-9


@SYNC_AND_ASYNC
def test_the_window_works_beside_the_ratchet(
    drive: Drive, old_admission: Callable[[Any], None], async_scheduling: bool
) -> None:
    driven = _build(drive, async_scheduling=async_scheduling)
    old_admission(driven)
    driven.patch(admission_delay_ms=20, max_num_seqs=3)
    waits, steps = _Waits(driven), driven.watch_steps()
    _one_a_step(driven, 30)
    most = 0
    while driven.engine.busy:
        driven.engine.step()
        most = max(most, len(driven.scheduler.running))
    groups = [_admitted(step) for step in steps if step.scheduled_new_reqs]
    assert most <= 3
    assert driven.governor.window.windows > 0
    assert sum(map(len, groups)) == 30
    assert len(waits.waited) == 30
    driven.patch(admission_delay_ms=0, max_num_seqs=32)
    assert driven.scheduler.max_num_running_reqs == 32


@pytest.mark.parametrize("half", ["_note_arrivals", "_next_look_s", "_lower", "_after"])
def test_a_window_that_fails_leaves_the_limit_as_it_was_and_serving_goes_on(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    driven = _build(drive)
    driven.patch(admission_delay_ms=50, length_grouping=True)
    driven.engine.add_request("held", range(8), 5)
    driven.engine.step()
    assert driven.read()["held"] == 1

    def broken(*_: Any) -> None:
        raise RuntimeError("no window today")

    if half == "_after":
        driven.governor.engine.hook.add("admission_delay_ms", driven.governor.window._before, broken, inner=True)
    else:
        monkeypatch.setattr(driven.governor.window, half, broken)
    driven.engine.step()
    driven.engine.step()
    assert _limit(driven) == 32
    assert "held" in [request.request_id for request in driven.scheduler.running]
    runtime = driven.read()
    for name in ("admission_delay_ms", "length_grouping"):
        assert runtime["knobs"][name]["support"] == "off"
    assert {entry["part"] for entry in runtime["degraded"]} == {"admission_delay_ms", "length_grouping"}
    assert runtime["held"] == 0
    driven.engine.abort("runs")
    driven.engine.run_until_idle()
    assert driven.engine.finish_reasons["held"] == "length"


def test_a_lease_that_runs_out_lets_everybody_go_and_takes_the_window_out_of_the_hook(drive: Drive) -> None:
    driven = _build(drive)
    driven.patch(lease_s=1, admission_delay_ms=100)
    driven.engine.add_request("held", range(8), 50)
    driven.engine.step()
    assert driven.read()["held"] == 1
    driven.engine.clock.advance(2)
    driven.engine.step()
    assert "held" in [request.request_id for request in driven.scheduler.running]
    assert _limit(driven) == 32
    runtime = driven.read()
    assert (runtime["knobs"]["admission_delay_ms"]["value"], runtime["held"]) == (0.0, 0)
    hook = driven.governor.engine.hook
    assert "admission_delay_ms" not in hook.parts


def test_a_delay_of_zero_puts_nothing_in_the_hook(drive: Drive) -> None:
    driven = _build(drive)
    driven.patch(length_grouping=True)
    assert driven.governor.engine.hook.parts == ("lease",)
    driven.patch(admission_delay_ms=5)
    assert driven.governor.engine.hook.parts == ("lease", "admission_delay_ms")
    driven.patch(admission_delay_ms=0)
    assert driven.governor.engine.hook.parts == ("lease",)
