"""The recording: what the policies saw, kept for replay and reports.

Belongs here: when a chunk is full, reading it back. Never: the format (controller/history/view_codec.py), SQL.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import datetime

from controller.history.view_codec import ChunkWriter, Frame, frames
from store.history import History
from store.writer import Writer
from store.writes import Boot, Record

TICKS_A_CHUNK = 30
"""So many ticks are lost at most when the daemon is killed."""


class Recording:
    """Collects frames and writes a chunk every TICKS_A_CHUNK ticks. `hours` 0: nothing is kept."""

    def __init__(self, writer: Writer, hours: float, tick_s: float) -> None:
        self._writer = writer
        self.configure(hours, tick_s)
        self._chunk = ChunkWriter()
        self._boot: Boot | None = None

    def configure(self, hours: float, tick_s: float) -> None:
        """Other settings, for what is written from now on."""
        self._keep = math.ceil(hours * 3600 / (TICKS_A_CHUNK * tick_s))

    def add(self, boot: Boot | None, frame: Frame) -> None:
        """Take a tick in."""
        if self._keep == 0:
            return
        if boot is not self._boot:
            self.flush()
            self._boot = boot
        self._chunk.add(frame)
        if self._chunk.ticks >= TICKS_A_CHUNK:
            self.flush()

    def flush(self) -> None:
        """Hand what there is to the writer."""
        if self._chunk.ticks:
            self._writer.put(Record(self._boot, self._chunk.take(), self._keep))


async def recorded(
    history: History, since: datetime | None = None, node: str | None = None
) -> AsyncIterator[tuple[int | None, Frame]]:
    """Every recorded tick with its run's number, oldest first, from `since` on; of one node, or of all.

    Raises HistoryUnavailable or BadReading.
    """
    after_id = 0
    while chunks := await history.recordings.select(after_id=after_id, since=since, node=node):
        for stored in chunks:
            after_id = stored.id
            for frame in frames(stored.chunk.body):
                if since is None or frame.at >= since:
                    yield stored.run_id, frame
