"""`vllm-governor report` over a history made by hand."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from controller.__main__ import app
from controller.cli.histories import moment
from controller.history.recording import Recording
from controller.history.view_codec import Frame
from domain.capacity import Capacity
from domain.decision import Decision, Mode, Reason, Status
from domain.errors import SettingsError
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from domain.outcome import Outcome, Verdict
from domain.slo import Latency
from domain.view import View
from policies.forecast import Forecast, forecast
from store.writes import AddDecisions, Boot
from tests.views import ITL_SLO, runtime, samples, view
from tests.writers import writing

BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
MODEL = Capacity(0.01, 0.0001, 0.0, 0.02, 40, True, "Fitted.", request_context=200.0)
WISH = Decision(
    at=BEGAN,
    mode=Mode.OBSERVE,
    policy="batch_resize",
    knob=MAX_NUM_SEQS,
    old=8,
    wanted=16,
    requested=None,
    observed=8,
    status=Status.RECORDED,
    reason=Reason.GROW_DEMAND,
    sentence="Growing 8 -> 16.",
    evidence={},
    guards=("withheld: mode observe changes nothing",),
)
HOLD = replace(WISH, wanted=8, status=Status.HOLD, reason=Reason.HOLD_STEADY, guards=())


def seen(**changes: Any) -> View:
    values: dict[str, Any] = {
        "runtime": runtime(cap=8),
        "running": 8.0,
        "waiting": 20.0,
        "demand": 20.0,
        "capacity": MODEL,
        "prompt_tokens_per_s": 0.0,
        "generation_tokens_per_s": 8 / 0.0108,
        "slos": (ITL_SLO,),
        "completed": {Latency.ITL: samples(100, 2), Latency.E2E: samples(5, 0)},
        "completed_s": 1.0,
    }
    return view(**(values | changes))


def written(path: Path, decisions: Sequence[Decision], views: Sequence[View], node: str = "") -> Path:
    async def write() -> None:
        async with writing(path, node) as writer:
            boot = Boot(BEGAN, "http://127.0.0.1:8000", runtime())
            writer.put(AddDecisions(boot, [replace(one, uid=uuid4().hex) for one in decisions]))
            recording = Recording(writer, hours=24, tick_s=1.0)
            for second, one in enumerate(views):
                recording.add(boot, Frame(BEGAN + timedelta(seconds=second), one))
            recording.flush()

    asyncio.run(write())
    return path


def test_several_nodes_are_not_mixed_and_named(tmp_path: Path) -> None:
    """Of two that share a history one is chosen; where only one wrote since then, it need not be."""
    path = written(tmp_path / "h.db", [WISH], [seen() for _ in range(100)], "gpu1")
    assert len(reported(path)["wishes"]) == 1
    written(path, [HOLD], [seen(waiting=0.0)] * 10, "gpu2")
    for command in ("report", "replay"):
        said = str(CliRunner().invoke(app, [command, "--db", str(path)]).exception)
        assert said == "cannot take the decisions of 2 nodes together: choose one of gpu1, gpu2 with --node"
        said = str(CliRunner().invoke(app, [command, "--db", str(path), "--node", "gpu3"]).exception)
        assert said == "cannot use --node gpu3: it wrote nothing in that time; there are rows of gpu1, gpu2"
    one, other = (reported(path, "--node", node) for node in ("gpu1", "gpu2"))
    assert (len(one["wishes"]), one["watched"]["seconds"]) == (1, 99)
    assert (len(other["wishes"]), other["watched"]["seconds"]) == (0, 9)


def reported(path: Path, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["report", "--db", str(path), "--json", *options])
    assert done.exit_code == 0, done.output
    made: dict[str, Any] = json.loads(done.output)
    return made


@pytest.fixture
def observed(tmp_path: Path) -> Path:
    """A wish for twice the cap that stayed open for 60 of 100 seconds."""
    return written(
        tmp_path / "h.db", [WISH, replace(HOLD, at=BEGAN + timedelta(seconds=60))], [seen() for _ in range(100)]
    )


def test_a_wish_is_counted_with_how_long_it_stayed_open_and_what_withheld_it(observed: Path) -> None:
    (wish,) = reported(observed)["wishes"]
    assert wish == {
        "policy": "batch_resize",
        "knob": MAX_NUM_SEQS,
        "times": 1,
        "applied": 0,
        "lasted_s": 60.0,
        "lowest": 16,
        "highest": 16,
        "reasons": {"grow_demand": 1},
        "withheld": {"mode observe changes nothing": 1},
    }


def test_the_gain_is_the_models_over_the_time_the_wish_was_open(observed: Path) -> None:
    """8 at once take 10.8 ms a step, 16 take 11.6 ms: 1.86 times the tokens."""
    gain = reported(observed)["gains"][MAX_NUM_SEQS]
    assert gain["open_s"] == gain["known_s"] == 59
    assert gain["step_s"] == pytest.approx(0.0108)
    assert gain["step_s_wanted"] == pytest.approx(0.0116)
    assert gain["throughput_ratio"] == pytest.approx(16 / 0.0116 / (8 / 0.0108) - 1)


def test_the_load_and_how_well_the_model_does_are_said_with_it(observed: Path) -> None:
    watched = reported(observed)["watched"]
    assert (watched["seconds"], watched["busy_s"], watched["short_s"], watched["requests"]) == (99, 99, 99, 495)
    assert watched["over_ratio"]["inter_token_latency"]["share"] == pytest.approx(0.02)
    assert watched["model_error_ratio"] == pytest.approx(0.0, abs=1e-9)


def test_without_a_trusted_model_the_gain_is_unknown_and_why_is_said(tmp_path: Path) -> None:
    doubtful = replace(MODEL, trusted=False)
    views = [seen(capacity=None)] * 11 + [seen(capacity=doubtful)] * 10
    path = written(tmp_path / "h.db", [WISH], views)
    gain = reported(path)["gains"][MAX_NUM_SEQS]
    assert (gain["known_s"], gain["throughput_ratio"], gain["step_s"]) == (0, None, None)
    assert gain["unknown_s"] == {"no capacity model was fitted": 10, "the capacity model was not trusted": 10}
    text = CliRunner().invoke(app, ["report", "--db", str(path)]).output
    assert "what it would have gained is unknown: no capacity model was fitted (10 s)" in text


def test_without_a_recording_the_gain_is_unknown(tmp_path: Path) -> None:
    path = written(tmp_path / "h.db", [WISH], [])
    assert reported(path)["gains"][MAX_NUM_SEQS]["open_s"] == 0
    text = CliRunner().invoke(app, ["report", "--db", str(path)]).output
    assert "Nothing was recorded" in text
    assert "unknown, no tick of that time was recorded" in text


def test_a_daemon_that_has_just_begun_is_told_from_one_that_recorded_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "h.db", [replace(HOLD, at=datetime.now(UTC) - timedelta(seconds=5))], [])
    text = " ".join(CliRunner().invoke(app, ["report", "--db", str(path)]).output.split())
    assert re.search(r"The daemon began \d+ s ago\.", text)
    assert "ask again in a minute or two. Let it run for some hours of your usual load, best a day" in text
    assert "Nothing was recorded" not in text


def test_a_quiet_history_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "h.db", [HOLD], [seen()] * 5)
    assert "No change was wanted." in CliRunner().invoke(app, ["report", "--db", str(path)]).output


def test_the_words_name_the_prediction_and_its_evidence(observed: Path) -> None:
    text = CliRunner().invoke(app, ["report", "--db", str(observed)]).output
    assert "would have taken 11.6 ms in place of 10.8 ms and +86% tokens would have come" in text
    assert "missed the measured tokens a second by 0% on average" in text
    assert "mode observe changes nothing (1)" in text


def test_what_came_of_applied_changes_is_counted(tmp_path: Path) -> None:
    applied = replace(WISH, mode=Mode.AUTO, status=Status.APPLIED, requested=16, observed=16, guards=())
    outcomes = [
        Outcome(Verdict.BETTER, "Better."),
        Outcome(Verdict.WORSE, "Worse.", {"instead_of": 8.0}, undo=True),
        None,
    ]
    made = reported(written(tmp_path / "h.db", [replace(applied, outcome=one) for one in outcomes], []))
    assert made["outcomes"] == [
        {
            "policy": "batch_resize",
            "knob": MAX_NUM_SEQS,
            "better": 1,
            "neutral": 0,
            "worse": 1,
            "unclear": 0,
            "superseded": 0,
        }
    ]
    assert (made["undone"], made["gains"], made["wishes"][0]["applied"]) == (1, {}, 3)


def test_what_lies_before_since_is_left_out_and_no_limit_is_said_in_json(tmp_path: Path) -> None:
    shed = replace(WISH, knob=MAX_NUM_QUEUED_REQS, policy="load_shed", old=100, wanted=NO_LIMIT)
    old = replace(WISH, at=BEGAN - timedelta(hours=3))
    path = written(tmp_path / "h.db", [old, shed], [seen()] * 5)
    (wish,) = reported(path, "--since", "2h")["wishes"]
    assert (wish["knob"], wish["highest"]) == (MAX_NUM_QUEUED_REQS, "no limit")
    assert reported(path)["gains"][MAX_NUM_QUEUED_REQS]["unknown_s"] == {"max_num_queued_reqs was not known": 4}


def test_a_budget_is_predicted_by_its_longest_step() -> None:
    found = forecast(seen(), MAX_NUM_BATCHED_TOKENS, 1000)
    assert isinstance(found, Forecast)
    assert found.step_s == pytest.approx(0.11)
    assert found.tokens_per_s is None
    assert forecast(seen(running=0.0), MAX_NUM_SEQS, 16) == "nothing ran"
    assert forecast(seen(), "hot_cache_ratio", 0.4) == "no model covers hot_cache_ratio"


def test_a_cap_beyond_the_demand_gains_nothing() -> None:
    idle = seen(waiting=0.0, demand=0.0)
    assert forecast(idle, MAX_NUM_SEQS, 8) == forecast(idle, MAX_NUM_SEQS, 64)


def test_since_is_a_length_of_time_or_a_moment() -> None:
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert moment("8h", now) == now - timedelta(hours=8)
    assert moment("1.5d", now) == now - timedelta(days=1.5)
    assert moment("2026-01-01T08:00", now) == datetime(2026, 1, 1, 8, tzinfo=UTC)
    for wrong in ("8 hours", "h", "yesterday", "99999999999d"):
        with pytest.raises(SettingsError, match="cannot use --since"):
            moment(wrong, now)
