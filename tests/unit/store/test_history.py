"""The history on a real SQLite file."""

import json
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.decision import Decision, Mode, Reason, Status
from domain.errors import HistoryUnavailable, NewerSchema, SettingsError
from domain.knobs import NO_LIMIT
from domain.runtime import Knob, Support
from store.database import database_url, sqlite_path
from store.history import History
from tests.views import runtime

DECISION = Decision(
    at=datetime(2026, 1, 1, 12, tzinfo=UTC),
    mode=Mode.AUTO,
    policy="batch_resize",
    knob="max_num_seqs",
    old=8,
    wanted=20,
    requested=16,
    observed=None,
    status=Status.INTENDED,
    reason=Reason.GROW_DEMAND,
    sentence="Growing 8 -> 16.",
    evidence={"waiting": 20, "gpu_utilization_ratio": None},
    guards=("clamped",),
)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "new" / "history.db")), "node-1")
    await history.open()
    yield history
    await history.close()


async def test_a_decision_comes_back_as_it_went_in_with_its_run(history: History) -> None:
    run = await history.runs.start(DECISION.at, "http://127.0.0.1:8000", runtime())
    (number,) = await history.decisions.add(run, [DECISION])
    (stored,) = await history.decisions.select(limit=10)
    assert stored.id == number
    assert stored.decision == replace(DECISION, boot_id="boot-a", node="node-1", uid=stored.decision.uid)


async def test_a_limit_that_the_engine_started_without_is_null_in_its_envelope(
    history: History, tmp_path: Path
) -> None:
    engine = runtime()
    knobs = {
        name: Knob(name, startup, startup, 1, 64, Support.NATIVE)
        for name, startup in (("max_num_seqs", 64), ("max_num_queued_reqs", NO_LIMIT))
    }
    engine = replace(engine, cores=tuple(replace(core, knobs=knobs) for core in engine.cores))
    await history.runs.start(DECISION.at, "http://127.0.0.1:8000", engine)
    with sqlite3.connect(tmp_path / "new" / "history.db") as other:
        ((envelope,),) = other.execute("SELECT envelope FROM runs").fetchall()
    assert json.loads(envelope) == {"max_num_seqs": 64, "max_num_queued_reqs": None}


async def test_an_intent_is_on_disk_before_its_outcome_is_known(history: History, tmp_path: Path) -> None:
    """A second process sees it at once: a crash between intent and outcome leaves a row that says so."""
    await history.decisions.add(None, [replace(DECISION, uid="u1")])
    with sqlite3.connect(tmp_path / "new" / "history.db") as other:
        assert other.execute("SELECT status FROM decisions").fetchall() == [("intended",)]
    await history.decisions.conclude("u1", Status.APPLIED, 16, None)
    (stored,) = await history.decisions.select(limit=1)
    assert (stored.decision.status, stored.decision.observed) == (Status.APPLIED, 16)


async def test_the_newest_come_oldest_first_and_filters_hold(history: History) -> None:
    hold = replace(DECISION, status=Status.HOLD)
    other = replace(DECISION, knob="max_num_batched_tokens")
    numbers = await history.decisions.add(None, [DECISION, hold, other, DECISION])
    assert [s.id for s in await history.decisions.select(limit=2)] == numbers[-2:]
    assert [s.id for s in await history.decisions.select(limit=9, changes_only=True)] == [numbers[0], *numbers[2:]]
    assert [s.id for s in await history.decisions.select(limit=9, knob="max_num_batched_tokens")] == [numbers[2]]
    assert [s.id for s in await history.decisions.select(limit=9, after_id=numbers[2])] == [numbers[3]]


async def test_a_second_open_keeps_what_is_there(history: History, tmp_path: Path) -> None:
    await history.decisions.add(None, [DECISION])
    again = History(history.url)
    await again.open()
    assert len(await again.decisions.select(limit=9)) == 1
    await again.close()


async def test_the_file_is_in_wal_mode_with_foreign_keys(history: History, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new" / "history.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with pytest.raises(HistoryUnavailable, match="FOREIGN KEY"):
        await history.decisions.add(999, [DECISION])


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 40)
    with pytest.raises(HistoryUnavailable, match=r"cannot open the history at .*broken\.db"):
        await History(database_url(str(path))).open()


async def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(HistoryUnavailable, match="must exist and be writable"):
        await History(database_url(str(blocked / "history.db"))).open()


def test_a_path_becomes_a_sqlite_url_whatever_is_in_it() -> None:
    assert database_url("/var/lib/x.db") == "sqlite+aiosqlite:////var/lib/x.db"
    assert database_url("sqlite:///x.db") == "sqlite+aiosqlite:///x.db"
    assert sqlite_path(database_url("/tmp/a?b#c.db")) == Path("/tmp/a?b#c.db")


@pytest.mark.parametrize("text", ["mysql://u:secret@h/db", "foo://x", "postgresql://u:secret@h:port/db"])
def test_a_url_that_cannot_be_used_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        database_url(text)
    assert "secret" not in str(caught.value)


async def test_a_history_of_a_newer_version_is_left_alone_and_named(history: History, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new" / "history.db") as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerSchema, match="a newer vllm-governor wrote it"):
        await History(history.url).open()


async def test_a_row_with_a_word_of_a_newer_version_is_an_error_not_a_crash(history: History, tmp_path: Path) -> None:
    await history.decisions.add(None, [DECISION])
    with sqlite3.connect(tmp_path / "new" / "history.db") as other:
        other.execute("UPDATE decisions SET reason = 'by_moonlight'")
    with pytest.raises(HistoryUnavailable, match="by_moonlight"):
        await history.decisions.select(limit=1)


async def test_reading_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE x (y)")
    reader = History(database_url(str(path)))
    with pytest.raises(HistoryUnavailable, match="no such table"):
        await reader.decisions.select(limit=1)
    await reader.close()
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
