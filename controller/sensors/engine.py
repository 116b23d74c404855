"""The engine cores' own statistics, over the admin RPC (docs/stats.md).

Belongs here: the cursors from one reading to the next, each record once, when the allocators are asked. Never: what the
document means (controller/engine/stats_document.py), differences.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from controller.engine import stats_document as engine_stats
from controller.engine.client import EngineClient
from domain.readings.engine import EngineStats, RequestRecord

ALLOCATOR_EVERY_S = 30.0
"""Asking the workers' allocators waits for the batches in flight, and fragmentation moves slowly."""


class EngineStatsSensor:
    """`GET /governor/v1/stats`, each record once. `clock` gives monotonic seconds."""

    def __init__(self, client: EngineClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._cursors: dict[str, int] = {}
        """Number of the last record read, by boot id: an engine that restarts has a new one and begins anew."""
        self._allocator_asked_s: float | None = None

    async def read(self) -> EngineStats:
        """What the plugin counted, and the records since the last reading, at most a thousand of each engine core.

        When there are more, the next reading brings them. Raises RecoverableError.
        """
        cursor = ",".join(f"{boot_id}:{number}" for boot_id, number in self._cursors.items())
        document = await self._client.stats(cursor, allocator=self._allocator_is_due())
        cores = engine_stats.cores(document)
        # Before the rows are looked at: one that cannot be understood must not come again for ever.
        before, self._cursors = self._cursors, {c.stats.boot_id: c.next for c in cores if c.next is not None}
        records: list[RequestRecord] = []
        for core in cores:
            records += engine_stats.records(core)
        return EngineStats(
            cores=tuple(core.stats for core in cores),
            records=tuple(records),
            records_lost=sum(_lost(core, before) for core in cores),
        )

    def _allocator_is_due(self) -> bool:
        now = self._clock()
        if self._allocator_asked_s is not None and now - self._allocator_asked_s < ALLOCATOR_EVERY_S:
            return False
        self._allocator_asked_s = now
        return True


def _lost(core: engine_stats.CoreAnswer, before: dict[str, int]) -> int:
    """Records overwritten since the last reading; what was before the first reading of all was never ours."""
    if core.first is None or not before:
        return 0
    return max(0, core.first - before.get(core.stats.boot_id, 0) - 1)
