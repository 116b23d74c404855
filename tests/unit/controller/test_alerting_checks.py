"""What the daemon tells of itself, tick by tick."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.alerting.checks import LEASE_S, ROLLED_BACK_S, SelfChecks
from controller.alerting.ticked import Ticked
from domain.decision import Decision, Mode, Reason, Status
from domain.knobs import MAX_NUM_SEQS
from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot, Source
from domain.view import View
from policies.alert_thresholds import CHECKS
from store.writer import WriterState
from tests.snapshots import BEGAN, gpu, gpus
from tests.views import runtime

AT_WORK = VllmReading(running=3.0, waiting=0.0, generation_tokens=100.0)
SILENT = frozenset({Source.METRICS, Source.RUNTIME})


class Daemon:
    """Ticks a second apart."""

    def __init__(self, **checks: Any) -> None:
        self.checks = SelfChecks(1.0, **checks)
        self.now_s = 100.0

    def tick(self, seconds: int = 1, snapshot: dict[str, Any] | None = None, **more: Any) -> dict[str, float]:
        """What the last of so many ticks tells. `snapshot` None: they fail before they have one."""
        told: dict[str, float] = {}
        for _ in range(seconds):
            self.now_s += 1.0
            wall = BEGAN + timedelta(seconds=self.now_s)
            ticked = Ticked(self.now_s, wall, failed=False)
            if snapshot is not None:
                ticked.snapshot = Snapshot(self.now_s, wall, **snapshot)
            for name, value in more.items():
                setattr(ticked, name, value(self.now_s) if callable(value) else value)
            told = self.checks.take(ticked)
        return told


def view(now_s: float) -> View:
    return View(now_s, running=3.0, ages_s={Source.METRICS: 0.0})


def test_an_engine_that_answers_anything_is_not_down() -> None:
    daemon = Daemon()
    assert daemon.tick(30, {"silent": SILENT})["engine_down_s"] == 29.0
    for answers in ({"silent": frozenset({Source.METRICS})}, {"silent": frozenset({Source.RUNTIME})}, {}):
        assert daemon.tick(30, answers)["engine_down_s"] == 0.0
    assert daemon.tick(30, {"silent": SILENT})["engine_down_s"] == 30.0


def test_what_a_failed_tick_did_not_see_is_not_told() -> None:
    told = Daemon().tick(3, failed=True)
    assert told == {"ticks_failed": 3.0, "rolled_back": 0.0}


def test_ticks_failed_counts_those_in_a_row() -> None:
    daemon = Daemon()
    daemon.tick(3, failed=True)
    daemon.tick(1)
    assert daemon.tick(2, failed=True)["ticks_failed"] == 2.0


def test_an_engine_that_answers_without_metrics_is_blind_and_a_silent_one_is_not() -> None:
    daemon = Daemon()
    assert daemon.tick(1, {"vllm": AT_WORK}, view=view)["blind"] == 0.0
    assert daemon.tick(1, {}, view=lambda now_s: View(now_s))["blind"] == 1.0
    assert daemon.tick(1, {}, view=lambda now_s: View(now_s, running=3.0, ages_s={Source.METRICS: 9.0}))["blind"] == 1.0
    assert daemon.tick(1, {}, view=lambda now_s: replace(view(now_s), running=None))["blind"] == 1.0
    assert "blind" not in daemon.tick(1, {"silent": SILENT}, view=lambda now_s: View(now_s))


def test_metrics_that_repeat_themselves_are_stale_while_there_are_requests() -> None:
    daemon = Daemon()
    assert daemon.tick(60, {"vllm": AT_WORK})["stale_s"] == 59.0
    assert daemon.tick(1, {"vllm": replace(AT_WORK, generation_tokens=101.0)})["stale_s"] == 0.0
    assert daemon.tick(60, {"vllm": VllmReading(running=0.0, waiting=0.0)})["stale_s"] == 0.0
    assert "stale_s" not in daemon.tick(1, {})


def test_a_driver_that_is_lost_is_told_and_one_that_is_not_there_is_not() -> None:
    daemon = Daemon()
    lost = {"problems": {Source.GPU: "cannot read NVML"}}
    assert daemon.tick(20, lost)["gpu_unresponsive_s"] == 19.0
    assert (
        daemon.tick(1, {"gpus": gpus(gpu()), "problems": {Source.GPU: "one of them is lost"}})["gpu_unresponsive_s"]
        == 0
    )
    assert daemon.tick(20, lost)["gpu_unresponsive_s"] == 20.0
    assert "gpu_unresponsive_s" not in daemon.tick(1, {})
    assert daemon.tick(20, lost)["gpu_unresponsive_s"] == 20.0


def test_a_lease_that_ran_out_is_told_for_a_minute_and_one_of_another_as_long_as_it_is() -> None:
    daemon = Daemon()
    held = runtime()
    expired = replace(held, cores=tuple(replace(core, lease_expirations=1) for core in held.cores))
    assert daemon.tick(1, {"runtime": held})["lease_lost"] == 0.0
    assert daemon.tick(1, {"runtime": expired})["lease_lost"] == 1.0
    assert daemon.tick(int(LEASE_S) - 1, {"runtime": expired})["lease_lost"] == 1.0
    assert daemon.tick(1, {"runtime": expired})["lease_lost"] == 0.0
    assert daemon.tick(90, {"runtime": expired}, contested=True)["lease_lost"] == 1.0
    assert daemon.tick(1, {"runtime": replace(expired, boot_id="another")})["lease_lost"] == 0.0
    none = replace(held, cores=tuple(replace(core, lease_remaining_s=None) for core in held.cores))
    assert daemon.tick(1, {"runtime": none})["lease_lost"] == 1.0
    assert "lease_lost" not in daemon.tick(1, {})


def undone(status: Status) -> Decision:
    return Decision(BEGAN, Mode.AUTO, "undo", MAX_NUM_SEQS, 16, 8, 8, 8, status, Reason.UNDO_WORSE, "Undone.", {})


def test_a_change_that_was_undone_is_told_for_ten_minutes() -> None:
    daemon = Daemon()
    assert daemon.tick(1, decisions=[undone(Status.HOLD)])["rolled_back"] == 0.0
    assert daemon.tick(1, decisions=[undone(Status.APPLIED)])["rolled_back"] == 1.0
    assert daemon.tick(int(ROLLED_BACK_S) - 1)["rolled_back"] == 1.0
    assert daemon.tick(1)["rolled_back"] == 0.0


def test_the_history_tells_how_long_it_fails_and_what_was_given_up() -> None:
    daemon = Daemon()
    assert daemon.tick(1, history=WriterState())["history_failing_s"] == 0.0
    told = daemon.tick(31, history=WriterState(problem="cannot write", dropped=7))
    assert (told["history_failing_s"], told["history_dropped"]) == (30.0, 7.0)
    assert daemon.tick(1, history=WriterState(dropped=7))["history_failing_s"] == 0.0


@pytest.mark.parametrize("before", [True, False], ids=["by a run before", "by this run"])
def test_a_history_that_was_set_aside_is_told_for_a_day(before: bool) -> None:
    daemon = Daemon(set_aside_at=BEGAN + timedelta(seconds=100) if before else None)
    state = WriterState(set_aside=None if before else Path("history.db.corrupt-20260101T000000Z"))
    assert daemon.tick(1, history=state)["history_set_aside"] == 1.0
    daemon.now_s += 86390
    assert daemon.tick(1, history=state)["history_set_aside"] == 1.0
    daemon.now_s += 20
    assert daemon.tick(1, history=state)["history_set_aside"] == 0.0


def test_every_check_has_a_meaning_in_the_rules_table() -> None:
    daemon = Daemon()
    everything = {"vllm": AT_WORK, "runtime": runtime(), "gpus": gpus(gpu())}
    told = daemon.tick(1, everything, view=view, history=WriterState(), told={"emergency": 0.0, "not_relieved": 0.0})
    assert told.keys() | {"deliveries_failing_s", "external", "disk_free_ratio", "checks_worse"} == CHECKS.keys()
