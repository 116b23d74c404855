"""An operator's stop, and the knobs that live in the API process, as the engine core sees both."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine import core
from vllm_governor_engine.errors import GovernorError
from vllm_governor_engine.queue_room import KEPT_S, WAITED_S

Drive = Callable[..., Any]
NATIVE = {"support": "native", "reason": None, "failed": False}


def report(driven: Any, pid: int = 1, index: int = 0, **changes: Any) -> dict[str, Any]:
    """What one API process says; answers what it is told."""
    knobs = {
        "max_num_queued_reqs": {**NATIVE, "startup": None, "min": 0, "max": 1000},
        "keep_alive_s": {**NATIVE, "startup": 5, "min": 1, "max": 3600},
        "connection_close": {**NATIVE, "startup": 0, "min": 0, "max": 1},
    }
    for name, change in changes.items():
        knobs[name] = {**knobs[name], **change}
    process = {"pid": pid, "index": index, "applied": {}, "rejected_total": 0, "degraded": [], "knobs": knobs}
    answer: dict[str, Any] = driven.call("follow", process=process)
    return answer


def freeze(driven: Any, frozen: bool = True) -> dict[str, Any]:
    answer: dict[str, Any] = driven.call("freeze", expect={driven.governor.boot_id: None}, frozen=frozen)
    return answer


def refused(call: Callable[[], object]) -> GovernorError:
    with pytest.raises(GovernorError) as caught:
        call()
    return caught.value


# --- freeze ---


def test_a_freeze_puts_every_knob_at_its_fallback_on_an_idle_engine(drive: Drive) -> None:
    driven = drive(max_num_seqs=24, max_num_batched_tokens=512)
    report(driven)
    driven.lease(fallback={"max_num_seqs": 12, "keep_alive_s": 9})
    driven.patch(max_num_seqs=4, max_num_batched_tokens=128, max_num_queued_reqs=7, keep_alive_s=60)
    frozen = freeze(driven)
    assert frozen["frozen"]
    values = {name: knob["value"] for name, knob in frozen["knobs"].items()}
    assert {"max_num_seqs": 12, "max_num_batched_tokens": 512, "keep_alive_s": 9}.items() <= values.items()
    assert values["max_num_queued_reqs"] is None
    assert driven.limit == 12
    assert report(driven)["wanted"] == {"max_num_queued_reqs": None, "keep_alive_s": 9, "connection_close": None}


def test_while_frozen_changes_are_refused_and_renewals_answered_and_nothing_moves(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    driven.patch(lease_s=5, max_num_seqs=4)
    generation = freeze(driven)["generation"]
    assert refused(lambda: driven.patch(max_num_seqs=8)).status == 423
    assert refused(lambda: driven.patch(max_num_seqs=8)).code == "frozen"
    purge = {"expect": {driven.governor.boot_id: None}, "ratio": 0.5, "preempt": 0}
    assert refused(lambda: driven.call("purge", **purge)).code == "frozen"
    assert driven.lease(lease_s=5, fallback={"max_num_seqs": 3})["lease"]["held"]
    driven.clock.now += 6  # the renewed lease runs out: its fallback may not move a frozen knob
    runtime = driven.read()
    assert (runtime["lease"]["held"], runtime["lease"]["expirations"]) == (False, 1)
    assert (runtime["knobs"]["max_num_seqs"]["value"], runtime["generation"]) == (24, generation)


def test_a_freeze_is_a_change_once_and_a_reader_who_has_not_seen_it_is_stale(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    seen = driven.read()["generation"]
    assert freeze(driven)["generation"] == freeze(driven)["generation"] == seen + 1
    assert freeze(driven, False)["generation"] == freeze(driven, False)["generation"] == seen + 2
    payload = {"expect": {driven.governor.boot_id: seen}, "knobs": {"max_num_seqs": 8}, "lease_s": 9}
    assert refused(lambda: driven.call("set", **payload)).code == "stale"
    assert driven.patch(max_num_seqs=8)["knobs"]["max_num_seqs"]["value"] == 8


def test_lifted_with_a_lease_that_ran_out_meanwhile_the_newest_fallback_holds(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    freeze(driven)
    driven.lease(lease_s=5, fallback={"max_num_seqs": 3})
    driven.clock.now += 6
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 24
    assert freeze(driven, False)["knobs"]["max_num_seqs"]["value"] == 3


def test_another_boot_is_not_frozen_by_mistake(drive: Drive) -> None:
    driven = drive()
    assert refused(lambda: driven.call("freeze", expect={"another": None}, frozen=True)).code == "stale"
    assert not driven.read()["frozen"]


def test_a_frozen_engine_goes_on_serving_and_drains_to_the_fallback(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    driven.lease(fallback={"max_num_seqs": 5})
    driven.add(80, max_tokens=20)
    for _ in range(4):
        driven.engine.step()
    assert len(driven.scheduler.running) == 24
    freeze(driven)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 80


# --- the knobs of the API processes ---


def test_until_an_api_process_reports_its_knobs_are_off_and_nothing_is_hooked(drive: Drive) -> None:
    driven = drive()
    before = dict(vars(driven.scheduler))
    knob = driven.read()["knobs"]["max_num_queued_reqs"]
    assert (knob["support"], knob["value"]) == ("off", None)
    assert "no API process has reported" in knob["reason"]
    report(driven)
    assert driven.read()["knobs"]["max_num_queued_reqs"]["support"] == "native"
    assert vars(driven.scheduler) == before
    assert driven.governor.generation == 0


def test_a_patch_that_fails_for_one_knob_wants_nothing_new_of_the_api_processes(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    report(driven)
    error = refused(lambda: driven.patch(max_num_queued_reqs=5, max_num_seqs=25))
    assert error.code == "out_of_bounds"
    assert report(driven)["wanted"]["max_num_queued_reqs"] is None
    assert report(driven)["generation"] == 0


@pytest.mark.parametrize(
    ("knob", "value", "code"),
    [
        ("max_num_queued_reqs", -1, "out_of_bounds"),
        ("max_num_queued_reqs", 1001, "out_of_bounds"),
        ("max_num_queued_reqs", 5.0, "wrong_type"),
        ("keep_alive_s", 0, "out_of_bounds"),
        ("keep_alive_s", 3601, "out_of_bounds"),
        ("keep_alive_s", True, "wrong_type"),
        ("connection_close", 2, "wrong_type"),
        ("connection_close", "yes", "wrong_type"),
    ],
)
def test_they_are_bounded_and_typed_like_any_knob(drive: Drive, knob: str, value: object, code: str) -> None:
    driven = drive()
    report(driven)
    error = refused(lambda: driven.patch(**{knob: value}))
    assert (error.code, error.where["knob"]) == (code, knob)


def test_null_and_the_start_up_value_both_mean_as_started(drive: Drive) -> None:
    driven = drive()
    report(driven)
    driven.patch(max_num_queued_reqs=5, keep_alive_s=60, connection_close=True)
    assert report(driven)["wanted"] == {"max_num_queued_reqs": 5, "keep_alive_s": 60, "connection_close": 1}
    driven.patch(max_num_queued_reqs=None, keep_alive_s=5, connection_close=False)
    assert report(driven)["wanted"] == {"max_num_queued_reqs": None, "keep_alive_s": None, "connection_close": None}


def test_they_fall_back_with_the_lease_when_only_an_api_process_asks(drive: Drive) -> None:
    driven = drive()
    report(driven)
    driven.lease(fallback={"max_num_queued_reqs": 50})
    driven.patch(lease_s=5, max_num_queued_reqs=5, connection_close=True)
    told = report(driven)
    assert (told["lease_s"], told["fallback"]["max_num_queued_reqs"]) == (5, 50)
    driven.clock.now += 6
    told = report(driven)
    assert told["wanted"] == {"max_num_queued_reqs": 50, "keep_alive_s": None, "connection_close": None}
    assert told["lease_s"] is None


def test_the_least_any_process_carries_is_what_the_knob_says(drive: Drive) -> None:
    driven = drive()
    report(driven, pid=1, index=0)
    report(driven, pid=2, index=1, max_num_queued_reqs={"support": "limited", "reason": "divided", "max": 10})
    knob = driven.read()["knobs"]["max_num_queued_reqs"]
    assert (knob["support"], knob["reason"], knob["max"]) == ("limited", "divided", 10)
    report(driven, pid=2, index=1, max_num_queued_reqs={"support": "off", "reason": "no"})
    assert driven.read()["knobs"]["max_num_queued_reqs"]["support"] == "off"


def test_one_that_a_process_could_not_set_is_off_for_good_and_counts_as_a_change(drive: Drive) -> None:
    driven = drive()
    report(driven)
    driven.patch(keep_alive_s=60)
    broken = {"support": "off", "reason": "it cannot be set", "failed": True}
    report(driven, keep_alive_s=broken)
    report(driven)
    runtime = driven.read()
    assert runtime["knobs"]["keep_alive_s"]["support"] == "off"
    assert runtime["generation"] == 2
    assert [part["part"] for part in runtime["degraded"]] == ["keep_alive_s"]


def test_the_runtime_tells_who_has_converged_and_forgets_who_is_gone(drive: Drive) -> None:
    driven = drive()
    report(driven, pid=1)
    (process,) = driven.read()["api_processes"]
    assert (process["pid"], process["generation"], process["converged"]) == (1, None, False)
    knobs = {"keep_alive_s": {**NATIVE, "startup": 5, "min": 1, "max": 9}}
    applied = {driven.governor.boot_id: 0}
    said = {"pid": 1, "index": 0, "applied": applied, "rejected_total": 3, "degraded": ["x"], "knobs": knobs}
    driven.call("follow", process=said)
    driven.clock.now += 2
    (process,) = driven.read()["api_processes"]
    assert process == {
        "index": 0, "pid": 1, "generation": 0, "converged": True, "age_s": 2.0, "rejected_total": 3, "degraded": ["x"],
    }  # fmt: skip
    driven.patch(max_num_seqs=3)
    assert not driven.read()["api_processes"][0]["converged"]
    driven.clock.now += 61
    report(driven, pid=2)
    assert [process["pid"] for process in driven.read()["api_processes"]] == [2]


def test_the_queue_arithmetic_is_told_the_cap_and_who_runs(drive: Drive) -> None:
    driven = drive(max_num_seqs=24)
    report(driven)
    driven.lease(fallback={"max_num_seqs": 20})
    driven.patch(max_num_seqs=4)
    driven.add(10)
    driven.engine.step()
    told = report(driven)
    assert (told["cap"], told["fallback_cap"], told["running"], told["api_processes"]) == (4, 20, 4, 1)


def test_where_requests_wait_in_spite_of_the_cap_the_queue_arithmetic_is_told_how_many_the_engine_holds(
    drive: Drive,
) -> None:
    driven = drive(max_num_seqs=24, max_num_batched_tokens=64)
    driven.add(10, prompt_tokens=64)
    driven.engine.step()
    driven.engine.step()
    assert report(driven)["bound"] is None  # nobody has waited long
    driven.governor._wall = lambda: time.time() + WAITED_S
    told = report(driven)
    assert told["bound"] == told["running"] < 10

    driven.call("set", expect={driven.governor.boot_id: 0}, knobs={"max_num_seqs": told["running"]}, lease_s=60)
    driven.clock.now += KEPT_S + 1
    assert report(driven)["bound"] is None  # it is the cap that they wait for


def test_a_queue_that_cannot_be_looked_at_leaves_the_cap_to_count_from(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive(max_num_seqs=24)

    def broken(*_: object) -> None:
        raise AttributeError("no such attribute")

    monkeypatch.setattr(core, "look", broken)
    assert report(driven)["bound"] is None
    assert [part["part"] for part in driven.read()["degraded"]] == ["queue_room"]
