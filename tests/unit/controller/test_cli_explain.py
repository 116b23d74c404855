"""`vllm-governor explain`: one decision in plain words."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.__main__ import app
from domain.decision import Decision, Mode, Reason, Status
from domain.errors import HistoryUnavailable, SettingsError
from domain.outcome import Outcome, Verdict
from store.database import database_url
from store.history import History
from tests.snapshots import BEGAN
from tests.views import runtime

APPLIED = Decision(
    at=BEGAN,
    mode=Mode.AUTO,
    policy="batch_resize",
    knob="max_num_seqs",
    old=8,
    wanted=24,
    requested=16,
    observed=16,
    status=Status.APPLIED,
    reason=Reason.GROW_DEMAND,
    sentence="Growing 8 -> 24: 30 wait.",
    evidence={"waiting": 30, "gpu_utilization_ratio": None},
    guards=("step bounded from 24 to 16: at most 2 times as much at once",),
    diagnoses=("queue_bound: Most of the latency is spent waiting.",),
    outcome=Outcome(
        Verdict.WORSE,
        "Worse: inter_token_latency over 0.05 s went from 1.00% to 20.00% of the samples.",
        {"instead_of": 8.0, "before_ticks": 60},
        undo=True,
    ),
)


def explained(folder: Path, decision: Decision, *options: str) -> str:
    path = folder / "h.db"

    async def write() -> int:
        history = History(database_url(str(path)), "node-1")
        await history.open()
        run = await history.runs.start(BEGAN, "http://127.0.0.1:8000", runtime())
        (number,) = await history.decisions.add(run, [decision])
        await history.close()
        return number

    number = asyncio.run(write())
    done = CliRunner().invoke(app, ["explain", str(number), "--db", str(path), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_change_is_told_from_its_reason_to_its_end(tmp_path: Path) -> None:
    text = explained(tmp_path, APPLIED)
    for said in (
        "Decision 1, 2026-01-01 00:00:00 UTC: max_num_seqs, 8 -> 16, applied.",
        "Engine: vLLM 0.32.0 at http://127.0.0.1:8000, boot boot-a on node-1.",
        "Why: Growing 8 -> 24: 30 wait.",
        "the policy batch_resize that wanted it (reason grow_demand), in mode auto",
        "  waiting: 30",
        "  gpu_utilization_ratio: unknown",
        "  step bounded from 24 to 16",
        "So 24 was wanted and 16 was asked for.",
        "  queue_bound: Most of the latency",
        "The engine read 16 back.",
        "What came of it: Worse: inter_token_latency",
        "It broke an objective, so 8 was wanted back.",
        "  before_ticks: 60",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": Status.HOLD, "wanted": 8, "requested": None}, "held at 8"),
        ({"status": Status.HOLD, "wanted": None, "requested": None}, "wanted nothing that can be said"),
        ({"status": Status.RECORDED, "requested": None}, "24 wanted in place of 8, not carried out"),
        ({"status": Status.RECORDED, "requested": None}, "Nothing was changed, so nothing came of it."),
        ({"status": Status.INTENDED}, "never concluded"),
        ({"status": Status.FAILED, "observed": 8, "error": "refused"}, "the engine reads 8: refused"),
        ({"outcome": None}, "not judged yet"),
        ({"guards": ()}, "No guard changed it."),
        ({"diagnoses": ()}, "Nothing was diagnosed at that moment."),
        ({"knob": "max_num_queued_reqs", "old": float("inf"), "requested": 100}, "no limit -> 100, applied"),
    ],
)
def test_each_end_has_its_words(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    assert said in explained(tmp_path, replace(APPLIED, **changes))  # type: ignore[arg-type]


def test_json_holds_the_decision_its_outcome_and_its_run(tmp_path: Path) -> None:
    made = json.loads(explained(tmp_path, replace(APPLIED, old=float("inf")), "--json"))
    assert (made["id"], made["knob"], made["old"]) == (1, "max_num_seqs", "no limit")
    assert made["outcome"]["verdict"] == "worse"
    assert made["run"]["boot_id"] == "boot-a"


def test_a_number_that_is_not_there_is_named(tmp_path: Path) -> None:
    explained(tmp_path, APPLIED)
    done = CliRunner().invoke(app, ["explain", "99", "--db", str(tmp_path / "h.db")])
    assert isinstance(done.exception, SettingsError)
    assert "cannot explain decision 99" in str(done.exception)


def test_a_history_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["explain", "1", "--db", str(tmp_path / "none.db")])
    assert isinstance(done.exception, HistoryUnavailable)
    assert isinstance(CliRunner().invoke(app, ["report"]).exception, SettingsError)
