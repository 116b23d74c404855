"""What the overhead bench says of its pairs, and how it finds the interpreter it needs. No measurement is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import in_vllm
from bench.overhead import interval, server
from bench.setup import places


def test_an_interval_is_students_and_has_the_mean_in_its_middle() -> None:
    found = interval.of([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.low == pytest.approx(2.5 - 3.182 * 1.2909944 / 2, abs=1e-4)
    assert found.high == pytest.approx(2.5 + 3.182 * 1.2909944 / 2, abs=1e-4)


def test_one_value_has_no_interval_and_none_is_an_error() -> None:
    assert interval.of([7.0]).to_json(1) == {"mean": 7.0, "low95": None, "high95": None, "n": 1}
    with pytest.raises(ValueError, match="no values"):
        interval.of([])


def test_ratios_are_averaged_so_that_a_half_and_a_double_cancel() -> None:
    found = interval.of_ratios([0.5, 2.0, 1.0])
    assert found.mean == pytest.approx(1.0)
    assert found.low is not None
    assert found.high is not None
    assert found.low * found.high == pytest.approx(1.0)


def test_the_summary_has_the_designs_keys_and_counts_what_failed() -> None:
    pairs = [server.Pair(100.0, 99.0, 5, 0, 4.0, 4.0), server.Pair(100.0, 101.0, 6, 1, 4.0, 4.2)]
    summary = server.summary(pairs)
    assert summary["server_rps_ratio"] == pytest.approx(1.0, abs=1e-3)
    assert isinstance(summary["server_rps_ratio_lower95"], float)
    assert (summary["server_readings"], summary["server_failed_requests"]) == (11, 1)


def test_without_an_interpreter_that_has_vllm_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(in_vllm, "_NEEDED", ("no_such_module",))
    monkeypatch.setattr(places, "vllm_python", lambda: tmp_path / "python")
    assert in_vllm.run("bench.overhead", [], lambda arguments: 0) == 1
    assert "bench/environments.py" in capsys.readouterr().err


def test_where_everything_is_there_it_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_vllm, "_NEEDED", ("json",))
    assert in_vllm.run("bench.overhead", ["--quick"], lambda arguments: len(arguments)) == 1
