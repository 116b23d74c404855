"""Which fault comes when."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import picture, plan
from bench.soak.plan import ADMIN, CHANGES, METRICS, Kind
from bench.soak.screen import Line, Met


def test_every_kind_of_fault_is_met_and_in_a_quick_soak_once() -> None:
    kinds = [one.fault.kind for one in plan.schedule(3, quick=True)]
    assert set(kinds) == set(Kind)
    assert [kinds.count(kind) for kind in Kind if kind is not Kind.LOAD] == [1] * (len(Kind) - 1)
    assert {one.fault.kind for one in plan.schedule(20, quick=False)} == set(Kind)


@pytest.mark.parametrize(("minutes", "quick"), [(3, True), (7, False), (20, False), (90, False)])
def test_faults_come_one_after_another_and_leave_time_to_recover_before_the_end(minutes: float, quick: bool) -> None:
    planned = plan.schedule(minutes, quick=quick)
    over = [one.at_s + one.fault.lasts_s + plan.RECOVERY_S for one in planned]
    assert all(end <= after.at_s + 1e-6 for end, after in zip(over, planned[1:], strict=False))
    assert planned[0].at_s >= plan.QUIET_FIRST_S
    assert over[-1] <= 60 * minutes + 1e-6


def test_faults_that_do_not_fit_are_refused_with_the_time_they_need() -> None:
    with pytest.raises(ValueError, match=r"cannot fit 21 faults into 2 minutes: give at least 6\.9, or --quick"):
        plan.schedule(2, quick=False)


def test_a_long_soak_repeats_the_round() -> None:
    assert len(plan.schedule(60, quick=False)) == 3 * len(plan.ROUND)


def test_the_load_steps_from_few_over_many_to_some_clients() -> None:
    clients = [fault.clients for fault in plan.ROUND if fault.kind is Kind.LOAD]
    assert clients[:3] == [plan.MANY_CLIENTS, plan.FEW_CLIENTS, plan.MANY_CLIENTS]
    assert clients[-1] == plan.FIRST_CLIENTS


def test_a_full_soak_has_daemons_dead_shorter_and_longer_than_the_lease_and_metrics_out_for_45_s() -> None:
    down = [fault.lasts_s for fault in plan.ROUND if fault.kind is Kind.DAEMON_KILL]
    assert min(down) < plan.LEASE_S < max(down)
    assert [fault.lasts_s for fault in plan.ROUND if fault.kind in METRICS] == [45.0] * len(METRICS)


def test_what_the_proxy_can_spoil_is_every_fault_of_metrics_and_admin_calls() -> None:
    assert {kind for kind in Kind if kind.startswith(("metrics", "admin", "change"))} == METRICS | ADMIN | CHANGES


def test_every_fault_can_be_drawn_whether_or_not_the_governor_came_back(tmp_path: Path) -> None:
    lines = [Line(float(second), 8, 20.0, None, None, 2048.0, "") for second in range(10)]
    met = [Met(kind.value, kind.value, 1.0, 2.0, 0.5) for kind in Kind] + [Met("load: 8 clients", Kind.LOAD.value, 3.0)]
    picture.draw(lines, [*met, Met(Kind.ENGINE_RESTART.value, Kind.ENGINE_RESTART.value, 3.0)], tmp_path / "soak.svg")
    assert "<svg" in (tmp_path / "soak.svg").read_text()
