"""`vllm-governor decisions`, `at`, `times`, and a decision's neighbours in `explain`, on a real SQLite file."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controller.__main__ import app
from domain.decision import Reason, Status
from domain.errors import SettingsError
from domain.knobs import NO_LIMIT
from domain.ledger import LedgerEntry
from domain.outcome import Outcome, Verdict
from domain.stretch import Reading
from store.database import database_url
from store.history import History
from tests.changes import GROWN
from tests.views import knob, runtime, with_knobs

AT = datetime(2026, 1, 31, 8, tzinfo=UTC)
NODE = "gpu1:8000"
CHANGE = replace(
    GROWN,
    at=AT,
    sentence="Growing 8 -> 16: 30 wait, and the model predicts 30 ms a step, within the objective of 50 ms.",
    outcome=Outcome(Verdict.BETTER, "Better."),
)
DECISIONS = [
    replace(CHANGE, at=AT - timedelta(hours=1), old=4, wanted=8, requested=8, observed=8),
    CHANGE,
    replace(CHANGE, at=AT + timedelta(minutes=10), status=Status.DIVERGED, observed=12, outcome=None, error="reads 12"),
    replace(
        CHANGE,
        at=AT + timedelta(minutes=20),
        policy="load_shed",
        knob="max_num_queued_reqs",
        old=NO_LIMIT,
        wanted=100,
        requested=None,
        observed=None,
        status=Status.RECORDED,
        reason=Reason.SHED_QUEUE,
        outcome=None,
        guards=("mode observe changes nothing",),
    ),
    replace(CHANGE, at=AT + timedelta(minutes=30), knob="cold_cache_reclaim_threshold", outcome=None),
    replace(
        CHANGE,
        at=AT + timedelta(minutes=40),
        status=Status.HOLD,
        old=12,
        wanted=12,
        requested=None,
        observed=None,
        outcome=None,
    ),
]


async def write(path: Path) -> None:
    history = History(database_url(str(path)), NODE)
    await history.open()
    engine = with_knobs(runtime(), knob("max_num_queued_reqs", None, NO_LIMIT, 0, 1000))
    run = await history.runs.start(AT - timedelta(hours=3), "http://127.0.0.1:8000", engine)
    await history.decisions.add(run, DECISIONS)
    for seconds in range(-300, 300, 10):
        before = seconds < 0
        means = {"running": 8.0 if before else 16.0, "waiting": 30.0 if before else 12.0, "preemptions_per_s": 0.0}
        cap = {"knob:max_num_seqs": 8.0 if before else 16.0, "knob:max_num_queued_reqs": None}
        await history.readings.add([Reading(AT + timedelta(seconds=seconds), means | cap)])
    setting = {"max_num_queued_reqs": None, "hot_cache_ratio": 0.2}
    for minute in range(90):
        cap_then = {"max_num_seqs": 8.0 if minute < 60 else 16.0}
        entry = LedgerEntry(AT + timedelta(minutes=minute - 60), 60, cap_then | setting, seconds=60)
        await history.ledger.add(run, [entry])
    await history.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("queries") / "h.db"
    asyncio.run(write(found))
    return found


def asked(path: Path, *words: str, columns: int | None = None) -> Result:
    """`columns`: of a terminal; None: a pipe."""
    terminal = {} if columns is None else {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": str(columns)}
    return CliRunner().invoke(app, [*words, "--db", str(path)], env=terminal)


def said(path: Path, *words: str, columns: int | None = None) -> str:
    done = asked(path, *words, columns=columns)
    assert done.exit_code == 0, done.output
    return done.output


def numbers(path: Path, *words: str) -> list[int]:
    return [json.loads(line)["id"] for line in said(path, "decisions", "--json", *words).splitlines()]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), [1, 2, 3, 4, 5, 6]),
        (("--changes",), [1, 2, 3, 4, 5]),
        (("--limit", "2"), [5, 6]),
        (("--limit", "2", "--before", "5"), [3, 4]),
        (("--since", "2026-01-31T08:00"), [2, 3, 4, 5, 6]),
        (("--until", "2026-01-31T08:00"), [1]),
        (("--since", "2026-01-31T10:00+02:00", "--until", "2026-01-31T08:15"), [2, 3]),
        (("--knob", "max_num_seqs"), [1, 2, 3, 6]),
        (("--policy", "load_shed"), [4]),
        (("--reason", "shed_queue"), [4]),
        (("--status", "diverged"), [3]),
        (("--outcome", "better"), [1, 2]),
        (("--outcome", "better", "--until", "2026-01-31T07:30"), [1]),
        (("--node", NODE, "--status", "hold"), [6]),
        (("--node", NODE, "--policy", "load_shed", "--knob", "max_num_seqs"), []),
    ],
)
def test_decisions_are_narrowed_down_by_what_is_asked(path: Path, options: tuple[str, ...], found: list[int]) -> None:
    assert numbers(path, *options) == found


def test_a_reason_that_does_not_exist_is_named_with_those_that_look_like_it(path: Path) -> None:
    done = asked(path, "decisions", "--reason", "grow_demnd")
    assert isinstance(done.exception, SettingsError)
    assert "did you mean grow_demand" in str(done.exception)
    done = asked(path, "decisions", "--until", "yesterday")
    assert isinstance(done.exception, SettingsError)
    assert "cannot use --until yesterday" in str(done.exception)


@pytest.mark.parametrize("columns", [80, 120, 160])
@pytest.mark.parametrize("command", [("decisions",), ("at", "2026-01-31T08:02"), ("times", "--since", "2026-01-31")])
def test_a_table_fits_the_terminal(path: Path, columns: int, command: tuple[str, ...]) -> None:
    lines = said(path, *command, columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)


def test_a_narrow_table_tells_the_change_below_its_knob(path: Path) -> None:
    text = said(path, "decisions", columns=80)
    for part in ("6 decisions, 2026-01-31", "8 -> 16, reads 12", "no limit, 100 wanted", "better"):
        assert part in text


def test_that_there_are_older_ones_is_said_with_how_to_see_them(path: Path) -> None:
    assert "There may be older ones: --before 5" in said(path, "decisions", "--limit", "2")
    assert "older" not in said(path, "decisions")
    assert said(path, "decisions", "--policy", "load_shed", "--status", "hold").strip() == "No decision fits."


def test_the_state_at_a_time_is_what_was_in_force_and_what_was_measured(path: Path) -> None:
    made: dict[str, Any] = json.loads(said(path, "at", "2026-01-31T08:02", "--json"))
    assert (made["node"], made["run"]["boot_id"]) == (NODE, "boot-a")
    assert made["knobs"]["max_num_seqs"] == {"value": 16, "decision": 2, "decided_at": AT.isoformat()}
    assert made["knobs"]["max_num_queued_reqs"]["value"] == "no limit"
    assert made["knobs"]["max_num_batched_tokens"] == {"value": 2048, "decision": None, "decided_at": None}
    assert made["reading"]["means"]["waiting"] == 12
    before = json.loads(said(path, "at", "2026-01-31T07:59:59", "--json"))
    assert (before["knobs"]["max_num_seqs"]["value"], before["reading"]["means"]["waiting"]) == (8, 30)
    text = said(path, "at", "2026-01-31T08:02")
    assert "Read at 01-31 08:02:00:" in text
    assert "2, 01-31 08:00:00" in text


def test_a_reading_from_long_before_is_told_as_that_and_not_as_the_knobs_value(path: Path) -> None:
    text = said(path, "at", "2026-01-31T08:45")
    assert "40.1 min before: nothing is known of the moment itself" in text
    (cap,) = [line for line in text.splitlines() if "max_num_seqs" in line]
    assert [cell.strip() for cell in cap.strip("│").split("│")] == ["max_num_seqs", "12", "-", "6, 01-31 08:40:00"]


def test_a_moment_before_any_engine_is_an_error_that_says_so(path: Path) -> None:
    done = asked(path, "at", "2026-01-30T08:00", "--node", NODE)
    assert isinstance(done.exception, SettingsError)
    assert "cannot tell what held at" in str(done.exception)


def test_times_tells_each_setting_by_what_tells_it_from_the_others(path: Path) -> None:
    text = said(path, "times", "--since", "2026-01-31T00:00", "--until", "2026-02-01")
    assert "All the time: hot_cache_ratio = 0.2, max_num_queued_reqs = no limit." in text
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")]
    assert rows == [["1:00:00", "66.7%", "max_num_seqs = 8"], ["0:30:00", "33.3%", "max_num_seqs = 16"]]
    made = json.loads(said(path, "times", "--since", "2026-01-31T08:00", "--until", "2026-02-01", "--json"))
    assert made["measured_s"] == 1800
    assert made["settings"][0]["setting"]["max_num_seqs"] == 16
    assert "Nothing was measured" in said(path, "times", "--since", "2025-01-01", "--until", "2025-02-01")
    assert isinstance(asked(path, "times", "--since", "1h", "--until", "2h").exception, SettingsError)


def test_explain_tells_before_and_after_and_the_neighbours(path: Path) -> None:
    text = said(path, "explain", "2")
    assert "Measured in 5 min before and 5 min after it took effect" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["running", "8", "->", "16", "+100.0%"] in rows
    assert ["waiting", "30", "->", "12", "-60.0%"] in rows
    assert ["preemptions_per_s", "0", "->", "0"] in rows
    assert "1 h earlier, decision 1: max_num_seqs, 4 -> 8, applied." in text
    assert "10 min later, decision 3: max_num_seqs, 8 -> 16, diverged." in text
    made = json.loads(said(path, "explain", "2", "--json"))
    assert (made["earlier"], made["later"], made["changed_meanwhile"]) == (1, 3, [])
    assert (made["before"]["means"]["waiting"], made["after"]["means"]["waiting"]) == (30, 12)


def test_explain_says_where_nothing_was_measured_and_names_what_else_moved(path: Path) -> None:
    assert "Nothing that was measured before it is kept finely enough to compare." in said(path, "explain", "1")
    text = said(path, "explain", "2", "--window", "3600")
    assert "meanwhile: decision 5, cold_cache_reclaim_threshold" in text
    assert "Measured" not in said(path, "explain", "4")
