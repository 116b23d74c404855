"""Cron moments, and what they put in force. Time is an argument."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.objectives.cron import Cron
from controller.objectives.timetable import Timetable
from controller.slo_settings import MaintenanceSettings, SlosSettings
from domain.slo import Latency, Slo

BERLIN = "Europe/Berlin"
DAY, NIGHT = Slo(Latency.ITL, 95, 0.05), Slo(Latency.ITL, 95, 0.5)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("expression", "at", "latest"),
    [
        ("0 8 * * *", utc(2026, 3, 4, 7, 59), utc(2026, 3, 3, 8)),
        ("0 8 * * *", utc(2026, 3, 4, 8), utc(2026, 3, 4, 8)),
        ("*/15 * * * *", utc(2026, 3, 4, 8, 44, 59), utc(2026, 3, 4, 8, 30)),
        ("0 0 29 2 *", utc(2026, 3, 4), utc(2024, 2, 29)),
        ("0 0 29 2 *", utc(2103, 3, 4), utc(2096, 2, 29)),
        ("0 3 1 jan *", utc(2026, 3, 4), utc(2026, 1, 1, 3)),
        # The fourth of March 2026 is a Wednesday.
        ("0 0 * * 0", utc(2026, 3, 4), utc(2026, 3, 1)),
        ("0 0 * * 7", utc(2026, 3, 4), utc(2026, 3, 1)),
        ("0 0 * * 1", utc(2026, 3, 4), utc(2026, 3, 2)),
        ("0 0 * * sun-tue", utc(2026, 3, 4), utc(2026, 3, 3)),
        ("0 0 * * fri-sun", utc(2026, 3, 4), utc(2026, 3, 1)),
        ("0 0 * * 1-5/2", utc(2026, 3, 8), utc(2026, 3, 6)),
        ("0 0 * * MON,sat", utc(2026, 3, 4), utc(2026, 3, 2)),
    ],
)
def test_the_latest_moment_is_cron_s_with_weekdays_counted_from_sunday(
    expression: str, at: datetime, latest: datetime
) -> None:
    assert Cron(expression).latest(at) == latest


@given(
    expression=st.sampled_from(
        ["30 2 * * *", "*/7 * * * *", "0 22 * * 1-5", "15 3 1 * *", "0 6 * * sun", "5 */3 * 3,10 *"]
    ),
    at=st.integers(0, 4 * 365 * 24 * 3600).map(lambda seconds: utc(2024, 1, 1) + timedelta(seconds=seconds)),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),
)
@settings(max_examples=60, deadline=None)
def test_between_the_latest_moment_and_now_there_is_none_over_every_change_of_the_clocks(
    expression: str, at: datetime, zone: str
) -> None:
    cron = Cron(expression, ZoneInfo(zone))
    latest = cron.latest(at)
    assert latest is not None
    assert latest <= at
    minute, hour, day, month, _ = expression.split()
    weekdays = {"1-5": "mon-fri"}.get(expression.split()[4], expression.split()[4])
    calendar = CronTrigger(None, month, day, None, weekdays, hour, minute, timezone=ZoneInfo(zone))
    assert calendar.get_next_fire_time(None, latest).astimezone(UTC) == latest
    assert calendar.get_next_fire_time(None, latest + timedelta(seconds=1)) > at


def test_a_moment_that_was_found_is_not_searched_for_again_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    cron = Cron("0 8 * * *")
    cron.latest(utc(2026, 3, 4, 9))
    asked: list[datetime] = []
    monkeypatch.setattr(cron, "_next", asked.append)
    assert cron.latest(utc(2026, 3, 5, 7, 59)) == utc(2026, 3, 4, 8)
    assert asked == []


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("0 8 * *", "five fields"),
        ("61 * * * *", "61"),
        ("0 0 30 2 *", "a day that there is"),
        ("0 0 1 * 1", "two entries"),
        ("0 0 * * 8", "from 0 to 7"),
        ("0 0 * * 5-1", "ranges go up"),
        ("0 0 * * mon-", "day of week"),
        ("0 0 * * 1#2", "day of week"),
        ("@daily", "five fields"),
    ],
)
def test_an_expression_that_is_none_is_refused_with_the_reason(expression: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Cron(expression)


def slo(**changes: Any) -> SlosSettings:
    """Interactive from eight on weekdays, throughput from eight in the evening."""
    schedule = [
        {"name": "day", "cron": "0 8 * * 1-5", "inter_token_latency": {"bound_s": 0.05}},
        {"name": "night", "cron": "0 20 * * *", "inter_token_latency": {"bound_s": 0.5}},
    ]
    return SlosSettings.model_validate({"schedule": schedule} | changes)


@pytest.mark.parametrize(
    ("at", "name", "slos"),
    [
        (utc(2026, 3, 4, 7, 59), "night", (NIGHT,)),
        (utc(2026, 3, 4, 8), "day", (DAY,)),
        (utc(2026, 3, 4, 19, 59, 59), "day", (DAY,)),
        (utc(2026, 3, 4, 20), "night", (NIGHT,)),
        (utc(2026, 3, 7, 12), "night", (NIGHT,)),  # a Saturday
    ],
)
def test_the_entry_whose_moment_came_last_holds(at: datetime, name: str, slos: tuple[Slo, ...]) -> None:
    found = Timetable(slo(), zone="UTC").objectives(at)
    assert (found.entry, found.slos) == (name, slos)


def test_the_moments_are_those_of_the_time_zone_in_summer_and_winter() -> None:
    table = Timetable(slo(), zone=BERLIN)
    for utc_hour, day in ((7, (2026, 3, 4)), (6, (2026, 7, 1))):
        at = utc(*day, utc_hour)
        assert table.objectives(at).entry == "day"
        assert table.objectives(at - timedelta(seconds=1)).entry == "night"


def test_without_a_schedule_the_configured_objectives_hold() -> None:
    found = Timetable(SlosSettings.model_validate({"inter_token_latency": {"bound_s": 0.05}}), zone="UTC")
    assert found.objectives(utc(2026, 3, 4)).slos == (DAY,)


def test_an_entry_holds_alone_the_objectives_beside_the_schedule_do_not_mix_in() -> None:
    both = slo(time_to_first_token={"bound_s": 2.0})
    assert Timetable(both, zone="UTC").objectives(utc(2026, 3, 4, 9)).slos == (DAY,)


def test_an_entry_without_objectives_means_none() -> None:
    only = SlosSettings.model_validate({"schedule": [{"name": "night", "cron": "0 20 * * *"}]})
    assert Timetable(only, zone="UTC").objectives(utc(2026, 3, 4, 9)).slos == ()
    assert only.configured


def window(**values: Any) -> MaintenanceSettings:
    return MaintenanceSettings.model_validate(values)


def test_a_recurring_window_lasts_its_duration_from_each_moment_on() -> None:
    table = Timetable(SlosSettings(), [window(cron="0 3 * * sun", duration_s=7200, name="patch day")], "UTC")
    opened = table.window(utc(2026, 3, 1, 4, 59, 59))
    assert opened is not None
    assert (opened.name, opened.until) == ("patch day", utc(2026, 3, 1, 5))
    assert table.window(utc(2026, 3, 1, 5)) is None
    assert table.window(utc(2026, 3, 1, 2, 59)) is None
    assert table.window(utc(2026, 3, 2, 4)) is None


def test_a_window_that_crosses_the_end_of_summer_time_is_as_long_as_any_other() -> None:
    table = Timetable(SlosSettings(), [window(cron="0 0 25 10 *", duration_s=6 * 3600)], BERLIN)
    begin = datetime(2026, 10, 25, tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)
    assert table.window(begin + timedelta(hours=5.9)) is not None
    assert table.window(begin + timedelta(hours=6)) is None


def test_a_single_window_without_an_offset_is_of_the_time_zone() -> None:
    table = Timetable(SlosSettings(), [window(begin="2026-07-01T22:00", end="2026-07-01T23:30")], BERLIN)
    assert table.window(utc(2026, 7, 1, 19, 59)) is None
    opened = table.window(utc(2026, 7, 1, 20))
    assert opened is not None
    assert opened.until == utc(2026, 7, 1, 21, 30)


def test_of_two_open_windows_the_one_that_ends_last_is_told() -> None:
    both = [
        window(name="long", begin="2026-07-01T10:00Z", end="2026-07-01T20:00Z"),
        window(name="short", begin="2026-07-01T10:00Z", end="2026-07-01T11:00Z"),
    ]
    opened = Timetable(SlosSettings(), both, "UTC").window(utc(2026, 7, 1, 10, 30))
    assert opened is not None
    assert opened.name == "long"
