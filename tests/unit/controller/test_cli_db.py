"""`vllm-governor db check`, `prune` and `migrate` on real files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controller.__main__ import app
from controller.cli.db_findings import findings
from domain.errors import HistoryUnavailable, NewerSchema, SettingsError
from store.check import Facts, TableFacts
from store.database import Limits
from store.revision import Revision
from store.schema import HEAD
from tests.filled import NOW, filled

SCHEMAS = Path(__file__).parents[2] / "data" / "schemas"
WHOLE = Facts(
    where="h.db",
    backend="SQLite 3",
    schema=Revision(HEAD, frozenset({"runs"})),
    tables=(TableFacts("decisions", 10), TableFacts("quarantine", 0)),
    damage=(),
    total_bytes=1,
    wal_bytes=0,
    free_bytes=10**12,
    set_aside=(),
    cut_off=0,
    undelivered=0,
    undeliverable=0,
    problems=(),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("template") / "h.db")


@pytest.fixture
def file(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path))


def db(*arguments: str | Path, asked: str | None = None) -> Result:
    return CliRunner().invoke(app, ["db", *map(str, arguments)], input=asked)


def ok(done: Result) -> str:
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def ask(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def of_version(folder: Path, version: str) -> Path:
    """A file that an older version of the program wrote."""
    path = folder / f"{version}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / f"{version}.sql").read_text())
    return path


@contextmanager
def written_by_another(file: Path) -> Iterator[None]:
    """Another process is in the middle of a transaction that writes."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM kept")
        yield
        connection.execute("ROLLBACK")


def test_a_whole_history_is_told_and_no_fault_found(file: Path) -> None:
    text = ok(db("check", "--db", file))
    assert f"{file}: schema {HEAD}, SQLite" in text
    assert "gpu1:8000: " in text
    assert ", decisions 6" in text
    assert "note: 2 notifications wait to be delivered" in text
    assert "No fault was found." in text


def test_json_has_the_same_for_machines_while_another_process_writes(file: Path) -> None:
    with written_by_another(file):
        made = json.loads(ok(db("check", "--db", file, "--json", "--full")))
    assert made["schema"] == HEAD
    assert made["tables"]["decisions"]["rows"] == 6
    assert made["tables"]["decisions"]["nodes"] == {"gpu1:8000": 6}
    assert made["tables"]["decisions"]["bytes"] > 0
    assert made["damage"] == []
    assert not any(one["fault"] for one in made["findings"])


def test_a_damaged_file_is_a_fault_and_the_rest_is_told_all_the_same(tmp_path: Path) -> None:
    file = filled(tmp_path / "h.db", decisions=500)
    size = file.stat().st_size
    with file.open("r+b") as raw:
        raw.seek(size // 2 // 4096 * 4096)
        raw.write(b"\xa5" * 4096)
    done = db("check", "--db", file, "--json")
    assert done.exit_code == 1
    made = json.loads(done.output)
    assert made["tables"]["runs"]["rows"] == 2
    assert any("sets a damaged file aside" in one["sentence"] for one in made["findings"])
    assert made["damage"]


def test_a_file_that_is_no_database_is_told_in_a_few_lines(tmp_path: Path) -> None:
    file = tmp_path / "h.db"
    file.write_bytes(b"no database\n" * 1000)
    done = db("check", "--db", file)
    assert done.exit_code == 1
    assert done.output.count("file is not a database") <= 2


def test_an_older_schema_is_a_fault_that_says_how_to_bring_it_up(tmp_path: Path) -> None:
    done = db("check", "--db", of_version(tmp_path, "0001"), "--json")
    made = json.loads(done.output)
    assert (done.exit_code, made["schema"]) == (1, "0001")
    assert made["tables"]["decisions"]["rows"] > 0
    assert [one["sentence"] for one in made["findings"] if one["fault"]] == [
        f"schema 0001 is older than this version's {HEAD}: the daemon's start, or `db migrate`, brings it up"
    ]


@pytest.mark.parametrize(
    ("changes", "fault", "said"),
    [
        ({"problems": ("cannot use it",)}, True, "cannot use it"),
        ({"schema": Revision("9999", frozenset())}, True, "a newer vllm-governor wrote it"),
        ({"schema": Revision(None, frozenset())}, True, "there is no history in it"),
        ({"damage": ("a page is wrong",)}, True, "the file is damaged: a page is wrong"),
        ({"tables": (TableFacts("readings", 9, future=2),)}, True, "2 rows of readings are dated later than now"),
        ({"free_bytes": 20_000_000}, True, "the disk is nearly full: 20 MB are free"),
        ({"cut_off": 3}, False, "3 changes were intended and never concluded"),
        ({"undelivered": 4}, False, "4 notifications wait"),
        ({"undeliverable": 5}, False, "5 notifications were given up"),
        ({"tables": (TableFacts("quarantine", 6),)}, False, "6 rows that a wrong clock"),
        ({"wal_bytes": 300_000_000}, False, "the write-ahead log has 300 MB"),
        ({"set_aside": (Path("h.db.corrupt-1"),)}, False, "h.db.corrupt-1 was found corrupt"),
    ],
)
def test_each_finding_has_its_words(changes: dict[str, Any], fault: bool, said: str) -> None:
    found = findings(replace(WHOLE, **changes))
    assert (found[0].fault, said in found[0].sentence) == (fault, True)
    assert all(one.fault == fault for one in found)


def test_a_whole_history_has_no_finding() -> None:
    assert findings(WHOLE) == []


def test_a_log_that_the_daemon_has_just_cut_back_is_none() -> None:
    assert findings(replace(WHOLE, wal_bytes=Limits().wal_max_bytes)) == []


def test_a_dry_run_tells_what_would_go_and_changes_nothing(file: Path) -> None:
    text = ok(db("prune", "--db", file, "--older-than", "90d", "--dry-run"))
    assert "11 rows would be deleted and each old run that no row refers to then. Nothing was changed." in text
    assert ask(file, "SELECT count(*) FROM decisions") == [(6,)]
    assert ask(file, "SELECT count(*) FROM actions") == [(2,)]


def test_pruning_asks_and_no_means_no(file: Path) -> None:
    assert db("prune", "--db", file, "--older-than", "90d", asked="n\n").exit_code == 1
    assert ask(file, "SELECT count(*) FROM decisions") == [(6,)]
    assert "Deleted 12 rows." in ok(db("prune", "--db", file, "--older-than", "90d", asked="y\n"))
    assert ask(file, "SELECT count(*) FROM decisions") == [(3,)]


def test_pruning_one_table_leaves_the_others_and_is_in_the_audit(file: Path) -> None:
    ok(db("prune", "--db", file, "--older-than", "90d", "--table", "decisions", "--yes"))
    assert ask(file, "SELECT count(*) FROM decisions") == [(3,)]
    assert ask(file, "SELECT count(*) FROM recordings") == [(2,)]
    ((actor, detail, target),) = ask(file, "SELECT actor, detail, target FROM actions WHERE action = 'db.prune'")
    assert "@" in actor
    assert target == str(file)
    assert json.loads(detail)["tables"] == ["decisions"]
    assert json.loads(detail)["rows"] == 3


def test_vacuum_gives_the_room_back(tmp_path: Path) -> None:
    file = filled(tmp_path / "h.db", decisions=2000)
    before = file.stat().st_size
    ok(db("prune", "--db", file, "--older-than", "90d", "--yes"))
    assert file.stat().st_size == before
    ok(db("prune", "--db", file, "--older-than", "90d", "--yes", "--vacuum"))
    assert file.stat().st_size < 0.7 * before
    assert ask(file, "PRAGMA integrity_check") == [("ok",)]


def test_an_age_that_is_none_is_refused(file: Path) -> None:
    ahead = (NOW + timedelta(days=1)).isoformat()
    for age, said in ((ahead, "that lies ahead"), ("soon", "cannot use --older-than soon")):
        done = db("prune", "--db", file, "--older-than", age, "--yes")
        assert isinstance(done.exception, SettingsError)
        assert said in str(done.exception)
    assert db("prune", "--db", file, "--older-than", "1d", "--table", "kept").exit_code == 2


@pytest.mark.parametrize(
    "command",
    ["decisions", "explain 1", "at 1h", "times", "cost", "report", "replay", "db export --table runs",
     "db prune --older-than 1d --yes"],
)  # fmt: skip
def test_a_command_on_an_older_history_says_what_to_do_and_changes_nothing(tmp_path: Path, command: str) -> None:
    file = of_version(tmp_path, "0002")
    done = CliRunner().invoke(app, [*command.split(), "--db", str(file)])
    assert isinstance(done.exception, HistoryUnavailable)
    assert str(done.exception) == (
        f"cannot use the history at {file}: it has schema 0002 and this version needs {HEAD}; bring it up with "
        "`vllm-governor db migrate`"
    )
    assert ask(file, "SELECT version_num FROM alembic_version") == [("0002",)]


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_migrating_tells_from_where_to_where_and_of_the_copy_to_make(tmp_path: Path, version: str) -> None:
    file = of_version(tmp_path, version)
    rows = ask(file, "SELECT count(*) FROM decisions")
    text = ok(db("migrate", "--db", file, "--yes"))
    assert f"has schema {version}; this version needs {HEAD}." in text
    assert f"sqlite3 {file} \".backup '{file}.before-{HEAD}'\"" in text
    assert f"it has schema {HEAD} now" in text
    assert ask(file, "SELECT count(*) FROM decisions") == rows
    ((detail,),) = ask(file, "SELECT detail FROM actions WHERE action = 'db.migrate'")
    assert json.loads(detail) == {"from": version, "to": HEAD}
    assert "nothing is to be done" in ok(db("migrate", "--db", file))


def test_migrating_asks_and_no_means_no(tmp_path: Path) -> None:
    file = of_version(tmp_path, "0002")
    assert db("migrate", "--db", file, asked="n\n").exit_code == 1
    assert ask(file, "SELECT version_num FROM alembic_version") == [("0002",)]


def test_a_history_of_a_newer_version_is_left_alone(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    done = db("migrate", "--db", file, "--yes")
    assert isinstance(done.exception, NewerSchema)
    assert "a newer vllm-governor wrote it" in str(done.exception)
    assert ask(file, "SELECT version_num FROM alembic_version") == [("9999",)]
    assert isinstance(db("prune", "--db", file, "--older-than", "1d", "--yes").exception, HistoryUnavailable)


@pytest.mark.parametrize("command", [["check"], ["prune", "--older-than", "1d"], ["migrate"]])
def test_a_history_that_is_not_there_is_not_made(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "none.db"
    assert isinstance(db(*command, "--db", file).exception, HistoryUnavailable)
    assert not file.exists()


def test_a_lock_that_another_process_holds_is_said(file: Path) -> None:
    with written_by_another(file):
        done = db("prune", "--db", file, "--older-than", "90d", "--yes")
    assert isinstance(done.exception, HistoryUnavailable)
    assert "locked" in str(done.exception)
