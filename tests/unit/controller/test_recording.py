"""What the policies saw, written in chunks and read back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from controller.history.recording import TICKS_A_CHUNK, Recording, recorded
from controller.history.view_codec import Frame
from store.history import History
from store.writer import Writer
from store.writes import Boot
from tests.snapshots import BEGAN
from tests.views import runtime, view
from tests.writers import writing, written


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    async with writing(tmp_path / "history.db") as writer:
        yield writer


def frame(second: int) -> Frame:
    return Frame(BEGAN + timedelta(seconds=second), view(now_s=float(second)), {"mode": "auto"})


async def seen(writer: Writer, since: datetime | None = None) -> list[tuple[int | None, Frame]]:
    await written(writer)
    history = History(writer.url)
    found = [one async for one in recorded(history, since)]
    await history.close()
    return found


async def seconds_of(writer: Writer) -> list[float]:
    return [one.view.now_s for _, one in await seen(writer)]


async def test_a_chunk_is_written_when_it_is_full_and_the_rest_at_the_end(writer: Writer) -> None:
    recording = Recording(writer, hours=1, tick_s=1.0)
    for second in range(TICKS_A_CHUNK + 5):
        recording.add(None, frame(second))
    assert await seconds_of(writer) == list(range(TICKS_A_CHUNK))
    recording.flush()
    assert await seconds_of(writer) == list(range(TICKS_A_CHUNK + 5))


async def test_what_comes_back_is_what_was_seen(writer: Writer) -> None:
    recording = Recording(writer, hours=1, tick_s=1.0)
    frames = [frame(second) for second in range(7)]
    for one in frames:
        recording.add(None, one)
    recording.flush()
    assert [one for _, one in await seen(writer)] == frames
    later = [one for _, one in await seen(writer, BEGAN + timedelta(seconds=5))]
    assert later == frames[5:]


async def test_each_run_has_chunks_of_its_own(writer: Writer) -> None:
    boots = [Boot(BEGAN, "u", runtime(boot_id=boot)) for boot in ("boot-a", "boot-b")]
    recording = Recording(writer, hours=1, tick_s=1.0)
    for second in range(4):
        recording.add(boots[second // 2], frame(second))
    recording.flush()
    assert [number for number, _ in await seen(writer)] == [1, 1, 2, 2]


async def test_only_so_many_hours_are_kept(writer: Writer) -> None:
    recording = Recording(writer, hours=2 * TICKS_A_CHUNK / 3600, tick_s=1.0)
    for second in range(5 * TICKS_A_CHUNK):
        recording.add(None, frame(second))
    assert await seconds_of(writer) == list(range(3 * TICKS_A_CHUNK, 5 * TICKS_A_CHUNK))


async def test_no_hours_record_nothing(writer: Writer) -> None:
    recording = Recording(writer, hours=0, tick_s=1.0)
    for second in range(2 * TICKS_A_CHUNK):
        recording.add(None, frame(second))
    recording.flush()
    assert await seconds_of(writer) == []
