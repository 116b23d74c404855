"""One suite for every database that the history may lie in: each test that asks for `database_at` runs on all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from store.database import database_url
from store.history import History
from tests.postgres import PostgresServer

NewDatabase = Callable[[], str]
Opened = Callable[[str], Awaitable[History]]


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> NewDatabase:
    """Answers the URL of an empty database, of another one each time."""
    numbers = count(1)
    if request.param == "sqlite":
        return lambda: database_url(str(tmp_path / f"history_{next(numbers)}.db"))
    server: PostgresServer = request.getfixturevalue("postgres")
    return lambda: database_url(server.url(server.new_database()))


@pytest.fixture
def database_at(new_database: NewDatabase) -> str:
    """The URL of an empty database."""
    return new_database()


@pytest.fixture
async def opened(database_at: str) -> AsyncIterator[Opened]:
    """Opens that database as a node of this name would."""
    histories: list[History] = []

    async def open_as(node: str) -> History:
        history = History(database_at, node)
        histories.append(history)
        await history.open()
        return history

    yield open_as
    for history in histories:
        await history.close()


@pytest.fixture
async def history(opened: Opened) -> History:
    """That database, open, as the node gpu1."""
    return await opened("gpu1")
