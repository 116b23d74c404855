"""What the footprint bench makes of looks at a process. No daemon, no server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.footprint import process
from bench.footprint.process import ProcessGone, Sample
from bench.footprint.summary import shares, slope_per_s, summarise


def _steady(seconds: int, cpu_share: float, mb_per_min: float) -> list[Sample]:
    return [Sample(1000.0 + s, 3.0 + cpu_share * s, 90.0 + mb_per_min * s / 60) for s in range(seconds + 1)]


def test_the_share_is_cpu_over_wall_without_what_starting_took() -> None:
    summary = summarise(_steady(300, 0.015, 0.0), start_up_cpu_s=3.0)
    assert (summary["cpu_share"], summary["minutes"], summary["start_up_cpu_s"]) == (0.015, 5.0, 3.0)
    assert summary["rss_growth_mb_per_min"] == 0.0


def test_memory_is_the_most_there_was_and_growth_leaves_the_first_minute_out() -> None:
    settling = [Sample(float(s), 0.0, 120.0 - s) for s in range(60)]
    later = [Sample(60.0 + s, 0.0, 61.0 + 0.5 * s / 60) for s in range(241)]
    summary = summarise([*settling, *later], start_up_cpu_s=0.0)
    assert summary["rss_mb"] == 120.0
    assert summary["rss_growth_mb_per_min"] == pytest.approx(0.5)


def test_growth_is_unknown_in_a_run_that_ends_with_the_first_minute() -> None:
    assert summarise(_steady(60, 0.01, 1.0), start_up_cpu_s=0.0)["rss_growth_mb_per_min"] is None


def test_shares_are_of_whole_minutes() -> None:
    assert shares(_steady(150, 0.02, 0.0), 60.0) == pytest.approx([0.02, 0.02])


def test_a_slope_wants_points_that_differ() -> None:
    assert slope_per_s([(1.0, 2.0)] * 20) is None
    assert slope_per_s([(float(x), 2.0 * x) for x in range(9)]) is None
    assert slope_per_s([(float(x), 2.0 * x) for x in range(10)]) == pytest.approx(2.0)


def test_a_look_at_this_process_agrees_with_what_it_says_of_itself() -> None:
    before, found = sum(os.times()[:2]), process.look(os.getpid())
    assert before - 0.02 <= found.cpu_s <= sum(os.times()[:2]) + 0.02
    assert 5.0 < found.rss_mb < 4000.0


def test_a_process_that_ended_is_an_error_of_its_own() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait(timeout=60)
    with pytest.raises(ProcessGone, match="has ended"):
        process.look(child.pid)
