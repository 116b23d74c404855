"""What the writer does about a file that is damaged, behind a link, half set aside, or lacks a table."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from domain.errors import HistoryUnavailable
from domain.stretch import MINUTE_S
from store import health
from store.database import Limits, database_url, sqlite_path
from store.maintenance import Maintenance
from store.writer import Writer
from store.writes import Keep
from tests.unit.store.test_retention import BOUNDS
from tests.unit.store.test_writer import reading
from tests.writers import BEGAN, change, requested, rows, until_failing, writing, written


def damage(path: Path, table: str) -> None:
    """Overwrites the root page of a table, once nothing is left in the log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((page,),) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xa5" * 4096)


async def roll_up(writer: Writer) -> None:
    work = Maintenance(BOUNDS, None)
    while await writer.run(lambda history: work.roll_up(history, BEGAN + timedelta(days=1)), 10):
        pass


async def test_how_far_a_damaged_file_was_rolled_up_says_nothing_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with writing(path) as writer:
        for second in range(120):
            writer.put(reading(second))
        writer.put(Keep("rollback", BEGAN, {"values": 1}))
        await written(writer)
        await roll_up(writer)
    damage(path, "decisions")
    async with writing(path) as writer:
        assert writer.state().set_aside is not None
        for second in range(3600, 3600 + 180):
            writer.put(reading(second))
        await written(writer)
        await roll_up(writer)
    assert rows(path, f"SELECT count(*) FROM readings WHERE resolution_s = {MINUTE_S}") == [(3,)]
    assert rows(path, "SELECT value FROM kept WHERE name = 'rollback'") == [('{"values": 1}',)]


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """The file that `link` names."""
    (tmp_path / "real").mkdir()
    return tmp_path / "real" / "history.db"


@pytest.fixture
def link(tmp_path: Path, real: Path) -> Path:
    """As store.url."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "history.db"
    link.symlink_to(real)
    return link


def beside(path: Path) -> list[str]:
    return [one.name for one in path.parent.iterdir()]


async def test_behind_a_link_the_sizes_the_limit_and_the_room_are_those_of_the_file_itself(
    link: Path, real: Path
) -> None:
    limit = 300_000
    async with writing(link, limits=Limits(wal_max_bytes=limit, busy_timeout_s=0.05)) as writer:
        await written(writer)
        with closing(sqlite3.connect(real, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM decisions").fetchone()
            for number in range(200):
                assert await writer.commit(change(number), 10)
            await until_failing(writer)
            state = writer.state()
            assert "write-ahead log has reached" in (state.problem or "")
            assert (state.wal_bytes or 0) > limit
    assert sqlite_path(database_url(str(link))) == real


async def test_behind_a_link_a_damaged_file_is_set_aside_whole_where_it_is(link: Path, real: Path) -> None:
    async with writing(link) as writer:
        for number in range(200):
            writer.put(change(number))
    damage(real, "decisions")
    async with writing(link) as writer:
        assert await writer.commit(change(1), 10)
        aside = writer.state().set_aside
    assert aside is not None
    assert aside.parent == real.parent
    assert beside(link) == ["history.db"]
    assert requested(link) == [1]


@pytest.mark.parametrize("at", range(4))
def test_setting_aside_that_was_cut_off_anywhere_leaves_no_half_database(
    tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by SIGKILL: nothing is tidied up. What belongs together is together again at the next start."""
    path = tmp_path / "history.db"
    with_log(path)
    before = {name: Path(f"{path}{name}").read_bytes() for name in ("", "-wal")}
    calls: list[str] = []

    def cut_off(real: Callable[..., None]) -> Callable[..., None]:
        def move(*where: str) -> None:
            if len(calls) == at:
                raise KeyboardInterrupt
            calls.append(str(where[0]))
            real(*where)

        return move

    with monkeypatch.context() as patched:
        for name in ("rename", "replace"):
            patched.setattr(os, name, cut_off(getattr(os, name)))
        with pytest.raises(KeyboardInterrupt):
            health.set_aside(path, BEGAN)
    health.undo_set_aside(path)
    assert {name: Path(f"{path}{name}").read_bytes() for name in before} == before
    assert health.set_aside_before(path) == []
    health.undo_set_aside(path)
    aside = health.set_aside(path, BEGAN)
    assert {name: Path(f"{aside}{name}").read_bytes() for name in before} == before


def test_a_file_that_was_put_in_the_place_of_one_half_set_aside_gets_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy from a backup with a foreign log would be spoilt."""
    path = tmp_path / "history.db"
    with_log(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            health.set_aside(path, BEGAN)
    shutil.copy(path, tmp_path / "backup.db")
    path.unlink()
    (tmp_path / "backup.db").rename(path)
    health.undo_set_aside(path)
    assert not Path(f"{path}-wal").exists()


async def test_a_start_after_setting_aside_was_cut_off_loses_no_row_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, live = tmp_path / "history.db", tmp_path / "live.db"
    async with writing(live) as writer:
        await writer.commit(change(1), 10)
        for name in ("", "-wal"):
            shutil.copy(f"{live}{name}", f"{path}{name}")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            health.set_aside(path, BEGAN)
    async with writing(path) as writer:
        await writer.commit(change(2), 10)
    assert requested(path) == [1, 2]


def interrupt(*_where: str) -> None:
    raise KeyboardInterrupt


def test_where_a_file_cannot_be_set_aside_it_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.db"
    with_log(path)

    def refuse(*_where: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(HistoryUnavailable, match="cannot set the broken history"):
        health.set_aside(path, BEGAN)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["history.db", "history.db-shm", "history.db-wal"]


def with_log(path: Path) -> None:
    """A database whose newest row is in its log, as after a crash."""
    source = path.with_name("source.db")
    with closing(sqlite3.connect(source, isolation_level=None)) as live:
        live.execute("PRAGMA journal_mode=WAL")
        live.execute("CREATE TABLE one (x)")
        live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        live.execute("INSERT INTO one VALUES (1)")
        for name in ("", "-wal", "-shm"):
            shutil.copy(f"{source}{name}", f"{path}{name}")
    source.unlink()


async def test_a_table_that_is_missing_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.db"
    for delay in ("FIRST_DELAY_S", "LONGEST_DELAY_S"):
        monkeypatch.setattr(f"store.scribe.{delay}", 0.02)
    async with writing(path) as writer:
        await writer.commit(change(0), 10)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("ALTER TABLE decisions RENAME TO mislaid")
            receipts = [writer.put(change(number)) for number in range(1, 5)]
            await until_failing(writer)
            assert not await writer.flush(1.0)
            assert not any(one.dropped for one in receipts)
            other.execute("ALTER TABLE mislaid RENAME TO decisions")
        await written(writer)
    assert requested(path) == [0, 1, 2, 3, 4]


async def test_a_file_that_vanished_while_it_failed_gets_what_was_kept_and_the_ledger_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history.db"
    async with writing(path) as writer:
        await writer.commit(Keep("rollback", BEGAN, {"values": 1}), 10)
        path.parent.rename(tmp_path / "away")
        path.parent.write_text("a file where the directory should be")
        writer.put(change(1))
        await until_failing(writer)
        path.parent.unlink()
        await written(writer)
    assert rows(path, "SELECT value FROM kept") == [('{"values": 1}',)]
    assert rows(path, "SELECT count(*) FROM ledger WHERE note IS NOT NULL") == [(1,)]
