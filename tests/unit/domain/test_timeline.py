"""What time it is, where the wall clock may leap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain.timeline import BELIEVED_AFTER_S, Timeline, Times

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEN_MINUTES = timedelta(minutes=10)


class Clocks:
    """The two clocks of a machine, and what the timeline says of them every ten minutes."""

    def __init__(self, timeline: Timeline, wall: datetime = NOON) -> None:
        self.timeline = timeline
        self.wall = wall
        self.monotonic_s = 1000.0
        self.times = timeline.look(wall, self.monotonic_s)

    def run(self, hours: float) -> None:
        for _ in range(round(hours * 6)):
            self.wall += TEN_MINUTES
            self.monotonic_s += TEN_MINUTES.total_seconds()
            self.times = self.timeline.look(self.wall, self.monotonic_s)


def test_a_clock_that_runs_evenly_is_now() -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.run(30 * 24)
    assert (clocks.times.earliest, clocks.times.latest) == (clocks.wall, clocks.wall)
    assert clocks.times.problem is None


def test_a_clock_that_is_set_by_minutes_is_now() -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.wall += timedelta(minutes=45)
    clocks.run(1)
    assert clocks.times.earliest == clocks.wall


def test_a_leap_ahead_moves_the_earliest_now_only_as_fast_as_time_passes() -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.wall += timedelta(days=400)
    clocks.run(5)
    assert clocks.times.earliest == NOON + timedelta(hours=5)
    assert clocks.times.latest == clocks.wall
    assert "400 days ahead" in (clocks.times.problem or "")


def test_a_leap_back_leaves_the_latest_now_where_it_was() -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.wall -= timedelta(days=10)
    clocks.run(5)
    assert clocks.times.earliest == clocks.wall
    assert clocks.times.latest == NOON + timedelta(hours=5)
    assert "10 days behind" in (clocks.times.problem or "")


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_stands_where_it_leapt_to_for_a_day_is_believed(days: int) -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.wall += timedelta(days=days)
    clocks.run(BELIEVED_AFTER_S / 3600 - 1)
    assert clocks.times.problem is not None
    clocks.run(2)
    assert clocks.times == Times(clocks.wall, clocks.wall)


def test_a_clock_that_is_set_right_again_is_believed_at_once() -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.wall += timedelta(days=400)
    clocks.run(20)
    clocks.wall -= timedelta(days=400)
    clocks.run(1)
    assert clocks.times.earliest == clocks.times.latest == clocks.wall == NOON + timedelta(hours=21)


def test_a_clock_that_leaps_again_and_again_is_not_believed() -> None:
    clocks = Clocks(Timeline(NOON))
    for _ in range(10):
        clocks.wall += timedelta(days=1)
        clocks.run(20)
    assert clocks.times.earliest == NOON + timedelta(hours=200)


def test_a_restart_does_not_make_a_leap_believable() -> None:
    clocks = Clocks(Timeline(NOON))
    clocks.wall += timedelta(days=400)
    clocks.run(5)
    after = Clocks(Timeline.of(clocks.timeline.state), clocks.wall + timedelta(minutes=1))
    after.run(5)
    assert after.times.earliest <= NOON + timedelta(hours=11)


def test_a_machine_that_is_off_every_night_has_its_clock_believed_after_a_day_of_running() -> None:
    """What it was off for and what its clock leapt cannot be told apart, so it is the time of running that counts."""
    clocks = Clocks(Timeline(NOON))
    for _ in range(5):
        clocks.run(8)
        clocks = Clocks(Timeline.of(clocks.timeline.state), clocks.wall + timedelta(hours=16))
    assert clocks.wall - clocks.times.earliest <= timedelta(hours=2 * 24)


def test_what_was_kept_of_something_else_is_refused() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Timeline.of({"believed": "yesterday", "leap_s": None, "stood_s": 0})
