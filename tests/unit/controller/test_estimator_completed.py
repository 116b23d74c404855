"""What completed from one view to the next: disjoint, so that two stretches of time can be compared."""

from __future__ import annotations

from controller.estimation import Estimator
from domain.readings.vllm import VllmReading
from domain.slo import Latency
from domain.view import View
from tests.snapshots import histogram, snapshot


def seen(estimator: Estimator, now_s: float, finished: float | None) -> View:
    reading = None if finished is None else VllmReading(latencies={Latency.E2E: histogram(finished)})
    return estimator.update(snapshot(now_s, reading), ())


def gained(view: View) -> float | None:
    return view.completed[Latency.E2E].samples if view.completed else None


def test_each_view_holds_what_completed_since_the_one_before_and_nothing_twice() -> None:
    estimator = Estimator(1.0)
    views = [seen(estimator, float(second), 10.0 * second) for second in range(20)]
    assert [gained(view) for view in views] == [None, *[10.0] * 19]
    assert {view.completed_s for view in views[1:]} == {1.0}


def test_a_change_of_a_knob_leaves_no_gap() -> None:
    estimator = Estimator(1.0)
    seen(estimator, 0.0, 0)
    estimator.restart_window()
    assert gained(seen(estimator, 1.0, 30)) == 30


def test_a_tick_without_a_reading_holds_nothing_and_the_next_both() -> None:
    estimator = Estimator(1.0)
    seen(estimator, 0.0, 0)
    away = seen(estimator, 1.0, None)
    assert (away.completed, away.completed_s) == ({}, None)
    back = seen(estimator, 2.0, 50)
    assert (gained(back), back.completed_s) == (50, 2.0)


def test_nothing_is_counted_over_a_gap_or_a_restart() -> None:
    estimator = Estimator(1.0)
    seen(estimator, 0.0, 100)
    assert gained(seen(estimator, 9.0, 900)) is None
    assert gained(seen(estimator, 10.0, 5)) is None
    assert gained(seen(estimator, 11.0, 12)) == 7
