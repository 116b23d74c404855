"""What is PostgreSQL's alone: how it is named, what its failures say, who waits how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.errors import HistoryUnavailable
from store.database import Limits, database_url
from store.health import Trouble, classify
from store.history import History
from store.models import KeptRow
from store.scribe import PATIENCE
from store.writer import Writer
from store.writes import AddDecisions, Keep
from tests.contract.store.samples import AT, decision
from tests.postgres import PASSWORD, PostgresServer
from tests.waiting import until

QUICK_S = 0.1
"""So soon a writer tries again here."""


@pytest.fixture
def name(postgres: PostgresServer) -> str:
    """The name of an empty database."""
    return postgres.new_database()


@pytest.fixture
async def history(postgres: PostgresServer, name: str) -> AsyncIterator[History]:
    """That database, open over the network."""
    history = History(database_url(postgres.network_url(name)), "gpu1", Limits(busy_timeout_s=0.2))
    await history.open()
    yield history
    await history.close()


@pytest.mark.parametrize("query", ["", "?sslmode=prefer", "?application_name=mine&sslmode=disable"])
async def test_a_url_as_libpq_takes_it_is_all_there_is_to_say(postgres: PostgresServer, name: str, query: str) -> None:
    history = History(database_url(postgres.network_url(name) + query), "gpu1")
    await history.open()
    await history.decisions.add(None, [decision()])
    await history.close()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+asyncpg"])
def test_whatever_driver_a_url_names_ours_is_used(scheme: str) -> None:
    assert database_url(f"{scheme}://u:p@h:5433/d") == "postgresql+asyncpg://u:p@h:5433/d"


async def test_a_message_names_the_server_and_never_the_password(postgres: PostgresServer, name: str) -> None:
    said = []
    for url in (
        postgres.network_url(name, "wrong-" + PASSWORD),
        postgres.network_url("no_such_database"),
        f"postgresql://governor:{PASSWORD}@127.0.0.1:1/{name}",
        f"postgresql://127.0.0.1:1/{name}?user=governor&password={PASSWORD}",
    ):
        history = History(database_url(url), "gpu1")
        with pytest.raises(HistoryUnavailable, match="cannot open the history at postgresql://") as opening:
            await history.open()
        with pytest.raises(HistoryUnavailable, match="cannot use the history at postgresql://") as reading:
            await history.decisions.select()
        said += [str(opening.value), str(reading.value), history.where]
        await history.close()
    assert not [text for text in said if PASSWORD in text or "<class" in text]
    assert "password authentication failed" in said[0]
    assert 'database "no_such_database" does not exist' in said[3]
    assert "127.0.0.1:1" in said[6]


async def test_a_row_that_another_holds_is_waited_for_so_long_and_no_longer(history: History) -> None:
    await history.kept.put("one", AT, {"a": 1})
    async with history.database.transaction() as session:
        await session.get(KeptRow, ("gpu1", "one"), with_for_update=True)
        began_s = time.monotonic()
        with pytest.raises(HistoryUnavailable, match="lock timeout") as caught:
            await history.kept.put("one", AT, {"a": 2})
        assert time.monotonic() - began_s >= 0.2
    assert classify(caught.value) is Trouble.LOCKED
    await history.kept.put("one", AT, {"a": 2})


async def test_a_connection_that_the_server_closed_is_made_again(
    history: History, postgres: PostgresServer, name: str
) -> None:
    """As it does when it restarts: the next write is not the one that finds out."""
    await history.decisions.add(None, [decision()])
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    await postgres.execute(f"{others} WHERE datname = '{name}' AND pid <> pg_backend_pid()", name)
    await history.decisions.add(None, [decision(1)])
    assert len(await history.decisions.select()) == 2


async def test_a_database_that_may_only_be_read_says_so(history: History, postgres: PostgresServer, name: str) -> None:
    """As a standby does."""
    await postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await history.close()
    with pytest.raises(HistoryUnavailable, match="read-only transaction") as caught:
        await history.decisions.add(None, [decision()])
    assert classify(caught.value) is Trouble.READ_ONLY
    assert await history.decisions.select() == []


async def test_a_daemon_takes_few_of_the_servers_connections(
    history: History, postgres: PostgresServer, name: str
) -> None:
    await asyncio.gather(*(history.decisions.add(None, [decision(number)]) for number in range(30)))
    async with history.database.outside() as connection:
        count = await connection.exec_driver_sql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'")
        assert count.scalar_one() <= 6


async def test_a_database_that_was_made_anew_under_an_idle_writer_gets_its_schema_and_loses_nothing_more(
    postgres: PostgresServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As where another server took the place of this one: the connection is made again, and finds no table."""
    url = database_url(postgres.network_url(name))
    writer = Writer(url, "gpu1")
    await writer.start()
    await writer.commit(AddDecisions(None, [decision()]), 10)
    await writer.commit(Keep("rollback", AT, {"values": 1}), 10)
    await postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await postgres.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    receipts = [writer.put(AddDecisions(None, [decision(second)])) for second in range(1, 20)]
    await until("all is written", lambda: all(one.written for one in receipts))
    state = writer.state()
    assert (state.dropped, state.problem) == (0, None)
    await writer.stop(5.0)
    history = History(url, "gpu1")
    assert len(await history.decisions.select()) == 19
    assert await history.kept.get("rollback") == {"values": 1}
    day = timedelta(days=1)
    (note,) = await history.ledger.notes(datetime.now(UTC) - day, datetime.now(UTC) + day)
    assert note.text == "the database was empty: what was written before is not in it"
    await history.close()


@pytest.mark.parametrize(
    ("spoil", "mend", "trouble"),
    [
        ("ALTER TABLE decisions RENAME TO mislaid", "ALTER TABLE mislaid RENAME TO decisions", Trouble.OTHER),
        (
            "ALTER TABLE decisions RENAME COLUMN sentence TO said",
            "ALTER TABLE decisions RENAME COLUMN said TO sentence",
            Trouble.OTHER,
        ),
        ("REVOKE INSERT ON decisions FROM writes", "GRANT INSERT ON decisions TO writes", Trouble.READ_ONLY),
        ("REVOKE USAGE ON SCHEMA public FROM writes", "GRANT USAGE ON SCHEMA public TO writes", Trouble.OTHER),
    ],
)
async def test_where_a_table_a_column_or_a_right_is_missing_all_is_kept_until_it_is_there(
    postgres: PostgresServer,
    name: str,
    history: History,
    spoil: str,
    mend: str,
    trouble: Trouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever else can be written meanwhile."""
    for delay in ("FIRST_DELAY_S", "LONGEST_DELAY_S"):
        monkeypatch.setattr(f"store.scribe.{delay}", QUICK_S)
    await postgres.execute(f"DROP ROLE IF EXISTS writes; CREATE ROLE writes LOGIN PASSWORD '{PASSWORD}'")
    await postgres.execute("REVOKE ALL ON SCHEMA public FROM public", name)
    for what in ("SCHEMA public", "ALL TABLES IN SCHEMA public", "ALL SEQUENCES IN SCHEMA public"):
        await postgres.execute(f"GRANT ALL ON {what} TO writes", name)
    writer = Writer(database_url(postgres.network_url(name).replace("governor:", "writes:")), "gpu1")
    await writer.start()
    assert await writer.commit(AddDecisions(None, [decision()]), 10)
    await postgres.execute(spoil, name)
    receipts = [writer.put(AddDecisions(None, [decision(second)])) for second in range(1, 9)]
    await until("the writer fails", lambda: writer.state().problem is not None)
    for _ in range(2 * PATIENCE):  # more often than one that is itself at fault is tried
        await asyncio.sleep(2 * QUICK_S)
        assert not any(one.written or one.dropped for one in receipts)
        assert (writer.state().problem or "").startswith("cannot")
        assert writer.state().trouble is trouble
    await postgres.execute(mend, name)
    await until("all is written", lambda: all(one.written for one in receipts))
    assert len(await history.decisions.select()) == 9
    await writer.stop(5.0)
    await postgres.execute("DROP OWNED BY writes; DROP ROLE writes", name)


async def test_a_value_that_no_column_takes_is_dropped_alone(postgres: PostgresServer, name: str) -> None:
    writer = Writer(database_url(postgres.network_url(name)), "gpu1")
    await writer.start()
    bad: list[Any] = [replace(decision(), uid="x" * 40), decision(old="eight"), decision(knob=None)]
    receipts = [writer.put(AddDecisions(None, [one])) for one in (decision(), *bad, decision(9))]
    await until("all is settled", lambda: all(one.written or one.dropped for one in receipts))
    assert [one.dropped for one in receipts] == [False, True, True, True, False]
    assert writer.state().problem is None
    await writer.stop(5.0)
