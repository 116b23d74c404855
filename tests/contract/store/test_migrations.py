"""What a history of any version becomes: the schema of a new one, with every row."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from domain.decision import Decision, Reason, Status
from domain.errors import NewerSchema
from domain.outcome import Verdict
from store import schema
from store.database import Limits, create
from store.history import History
from tests.contract.conftest import NewDatabase, Opened
from tests.contract.store.old_schemas import RELEASED, put
from tests.contract.store.samples import AT, DECISION, ENGINE, OUTCOME, chunk, decision, entry
from tests.views import runtime

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")


def where(index: Any) -> list[tuple[str, str]]:
    """What makes an index one of some rows only."""
    return sorted((name, str(told)) for name, told in index.get("dialect_options", {}).items() if "where" in name)


def described(connection: Connection) -> dict[str, Any]:
    found = inspect(connection)
    numbered_once, of_expressions = set[str](), set[str]()
    if connection.dialect.name == "sqlite":
        made = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        numbered_once = set(connection.exec_driver_sql(made).scalars())
        made = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql LIKE '%CASE%'"  # inspect() passes them over
        of_expressions = set(connection.exec_driver_sql(made).scalars())
    return {
        table: {
            "numbered_once": table in numbered_once,
            "of_expressions": {sql for sql in of_expressions if f" ON {table} " in sql},
            "columns": {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in found.get_columns(table)},
            "key": found.get_pk_constraint(table),
            "indexes": sorted(
                (i["name"] or "", tuple(i["column_names"]), bool(i["unique"]), where(i))
                for i in found.get_indexes(table)
            ),
            "foreign": sorted((f["constrained_columns"], f["referred_table"]) for f in found.get_foreign_keys(table)),
            "unique": sorted((u["name"] or "", u["column_names"]) for u in found.get_unique_constraints(table)),
        }
        for table in found.get_table_names()
    }


async def schema_of(url: str, bring_up: Any = None) -> dict[str, Any]:
    engine = create(url, Limits())
    async with engine.begin() as connection:
        if bring_up is not None:
            await connection.run_sync(bring_up)
        found = await connection.run_sync(described)
        version = (await connection.exec_driver_sql("SELECT version_num FROM alembic_version")).scalar_one()
    await engine.dispose()
    return {**found, "version": version}


def expected(revision: str) -> list[Decision]:
    """What was written when the dumps were made."""
    first = replace(DECISION, uid=None, diagnoses=() if revision == "0001" else DECISION.diagnoses)
    hold = replace(
        first, status=Status.HOLD, reason=Reason.HOLD_STEADY, wanted=8, requested=None, evidence={}, guards=()
    )
    found = [
        replace(
            first, status=Status.APPLIED, observed=16, node="gpu1", boot_id="boot-a",
            outcome=None if revision == "0001" else OUTCOME,
        ),
        replace(hold, at=AT + timedelta(seconds=1), node="gpu1", boot_id="boot-a"),
        replace(
            first, at=AT + timedelta(seconds=2), old=None, knob="max_num_batched_tokens", node="gpu2",
            boot_id="boot-b", status=Status.FAILED, error="the engine said 'no'; it's busy",
        ),
        replace(first, at=AT + timedelta(seconds=3)),
    ]  # fmt: skip
    if revision < "0003":
        return found
    return [replace(one, uid=f"{number:032x}") for number, one in enumerate(found, 1)]


async def test_a_new_database_is_made_as_the_migrations_would_make_it(new_database_urls: tuple[str, str]) -> None:
    made, migrated = new_database_urls
    assert await schema_of(made, schema.bring_up) == await schema_of(migrated, schema.upgrade)


@pytest.fixture
def new_database_urls(new_database: NewDatabase) -> tuple[str, str]:
    return new_database(), new_database()


@pytest.mark.parametrize("revision", RELEASED)
async def test_a_history_of_a_released_version_gets_the_schema_of_a_new_one(
    new_database_urls: tuple[str, str], revision: str, tmp_path: Path
) -> None:
    old, new = new_database_urls
    await put(old, revision, tmp_path)
    assert (await schema_of(old))["version"] == revision
    assert await schema_of(old, schema.bring_up) == await schema_of(new, schema.bring_up)


@pytest.mark.parametrize("revision", RELEASED)
async def test_every_row_of_a_released_version_reads_back(
    database_at: str, opened: Opened, revision: str, tmp_path: Path
) -> None:
    await put(database_at, revision, tmp_path)
    history = await opened("gpu1")
    stored = await history.decisions.select()
    assert [row.decision for row in stored] == expected(revision)
    assert [(row.id, row.run_id) for row in stored] == [(1, 1), (2, 1), (3, 2), (4, None)]
    for number, node, boot in ((1, "gpu1", "boot-a"), (3, "gpu2", "boot-b")):
        found = await history.decisions.one(number)
        assert found is not None
        assert found[1] is not None
        assert (found[1].node, found[1].boot_id, found[1].engine_url) == (node, boot, ENGINE)
        assert found[1].started_at == AT - timedelta(seconds=30)
        assert found[1].envelope == {"max_num_seqs": 64, "max_num_batched_tokens": 2048}


@pytest.mark.parametrize("revision", ["0002", "0003"])
async def test_outcomes_recordings_and_kept_values_come_along(
    database_at: str, opened: Opened, revision: str, tmp_path: Path
) -> None:
    await put(database_at, revision, tmp_path)
    history = await opened("gpu1")
    assert [row.id for row in await history.decisions.select(verdict=Verdict.WORSE)] == [1]
    body = bytes(range(0, 256, 17))
    recordings = await history.recordings.select()
    assert [(row.run_id, row.chunk) for row in recordings] == [
        (run, chunk(minute, body)) for minute, run in enumerate((1, 2, None))
    ]
    assert await history.kept.get("rollback") == {"max_num_seqs": 8.0, "none": None}
    await history.kept.put("rollback", AT, {"max_num_seqs": 4.0})
    assert await history.kept.get("rollback") == {"max_num_seqs": 4.0}


async def test_readings_figures_alerts_and_actions_come_along(database_at: str, opened: Opened, tmp_path: Path) -> None:
    await put(database_at, "0003", tmp_path)
    history = await opened("gpu1")
    always = (AT - timedelta(days=1), AT + timedelta(days=1))
    assert [one.means["running"] for one in await history.readings.span(*always)] == [3.0, 3.0]
    noted = "a counter began anew"
    assert await history.ledger.entries(*always) == [
        entry(node="gpu1"),
        entry(node="gpu2", note=noted),
        entry(1, node="gpu1", setting={"max_num_seqs": 8.0}),
    ]
    assert [note.text for note in await history.ledger.notes(*always)] == [noted]
    assert await history.ledger.time_by_setting(*always) == [(entry().setting, 120.0), ({"max_num_seqs": 8.0}, 60.0)]
    assert [(one.actor, one.result, one.detail) for one in await history.audit.actions()] == [
        ("ada", "ok", {"comment": "latency"})
    ]
    assert [one.rule for one in await history.alerts.incidents()] == ["KvCacheFull"]
    assert [one.notification.uid for one in await history.alerts.deliveries()] == ["n1"]


@pytest.mark.parametrize("revision", RELEASED)
async def test_an_old_history_goes_on_where_it_ended(
    database_at: str, opened: Opened, revision: str, tmp_path: Path
) -> None:
    await put(database_at, revision, tmp_path)
    history = await opened("gpu1")
    run = await history.runs.start(AT + timedelta(hours=1), ENGINE, runtime(boot_id="boot-c"))
    new = decision(3600)
    numbers = await history.decisions.add(run, [new])
    assert (run, numbers) == (3, [5])
    await history.decisions.judge({str(new.uid): OUTCOME})
    await history.recordings.add(run, chunk(60), keep=100)
    await history.ledger.add(run, [entry()])
    found = await history.decisions.one(5)
    assert found is not None
    assert found[0].decision.outcome == OUTCOME


async def test_two_daemons_that_begin_at_once_make_one_schema(database_at: str) -> None:
    histories = [History(database_at, f"gpu{number}") for number in range(4)]
    await asyncio.gather(*(history.open() for history in histories))
    await histories[0].decisions.add(None, [decision()])
    assert len(await histories[1].decisions.select()) == 1
    for history in histories:
        await history.close()


async def test_a_history_of_a_newer_version_is_left_alone_and_named(history: History, database_at: str) -> None:
    async with history.database.transaction() as session:
        await (await session.connection()).exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    newer = History(database_at, "gpu1")
    with pytest.raises(NewerSchema, match="a newer vllm-governor wrote it"):
        await newer.open()
    await newer.close()
