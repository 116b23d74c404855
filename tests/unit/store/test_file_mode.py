"""Who may read a history file that was made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store.writes import Keep
from tests.writers import BEGAN, writing, written

SOME = Keep("some", BEGAN, {})


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("history.db*")}


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o640), (0o077, 0o600), (0o000, 0o640)])
async def test_a_new_file_and_those_beside_it_are_not_for_everybody(tmp_path: Path, mask: int, mode: int) -> None:
    with umask(mask):
        async with writing(tmp_path / "history.db") as writer:
            writer.put(SOME)
            await written(writer)
            found = modes(tmp_path)
    assert found == dict.fromkeys(("history.db", "history.db-wal", "history.db-shm"), mode)


async def test_the_mode_that_a_person_gave_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.touch(mode=0o600)
    path.chmod(0o644)
    async with writing(path) as writer:
        writer.put(SOME)
        await written(writer)
    assert modes(tmp_path)["history.db"] == 0o644
