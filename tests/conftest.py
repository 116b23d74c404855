"""What any test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import postgres as servers


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.PostgresServer]:
    """One real PostgreSQL for the whole run, started by the first test that asks."""
    with servers.running() as server:
        yield server
