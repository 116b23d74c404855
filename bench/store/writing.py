"""What the writer bears, and what handing over to it takes of the tick.

Belongs here: offering ticks, the stopwatch. Never: what is in a tick (ticks.py), the arithmetic (summary.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.store.fill import NODE
from bench.store.ticks import Ticks
from store.database import database_url
from store.pending import Importance, Pending, Receipt, Write
from store.writer import QUEUE, Writer

BACKLOG = 2_000
"""Writes that wait while the most is found out: enough that the writer never waits for more."""
LOOK_S = 0.005
COMMIT_TIMEOUT_S = 1.0
FLUSH_LIMIT_S = 120.0

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Most:
    """Ticks handed over as fast as they were written, until all were on disk."""

    ticks: int
    seconds: float
    dropped: int


@dataclass(slots=True)
class HandedOver:
    """At a steady rate: one entry a tick, or a change."""

    ticks_per_s: float
    wall_ms: list[float] = field(default_factory=list)
    """Handing over all that a tick has, the intent of a change too."""
    cpu_ms: list[float] = field(default_factory=list)
    """CPU time of the tick's thread in them."""
    nobody_ms: list[float] = field(default_factory=list)
    """The same calls before a writer ran: what the machine makes of them."""
    intent_ms: list[float] = field(default_factory=list)
    """How long a change waits, as it must, for its intent to be on disk, one entry a change."""
    late_intents: int = 0
    pending: int = 0
    """The most that waited at once."""
    oldest_wait_s: float = 0.0
    dropped: int = 0
    wal_bytes: int = 0


async def most(path: Path, ticks: Ticks, seconds: float, told: Told, backlog: int = BACKLOG) -> Most:
    """How many ticks are written in that time, when `backlog` writes always wait. Raises HistoryUnavailable."""
    writer = Writer(database_url(str(path)), NODE)
    await writer.start()
    try:
        started_s, number = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - started_s) < seconds:
            while writer.state().pending < backlog:
                intent, writes = ticks.next()
                for write in writes if intent is None else (intent, *writes):
                    writer.put(write)
                number += 1
            told(f"{number} ticks in {elapsed_s:.0f} s")
            await asyncio.sleep(LOOK_S)
        await writer.flush(FLUSH_LIMIT_S)
        return Most(number, time.monotonic() - started_s, writer.state().dropped)
    finally:
        await writer.stop(FLUSH_LIMIT_S)


async def hand_over(path: Path, ticks: Ticks, seconds: float, ticks_per_s: float, told: Told) -> HandedOver:
    """Ticks at that rate, each timed. Raises HistoryUnavailable."""
    found = HandedOver(ticks_per_s)
    await _to_nobody(found, ticks, min(seconds, 5.0))
    writer = Writer(database_url(str(path)), NODE)
    await writer.start()
    try:
        started_s, number = time.monotonic(), 0
        while number < seconds * ticks_per_s:
            await _tick(found, writer, ticks)
            number += 1
            _look(found, writer)
            told(f"{number} ticks in {time.monotonic() - started_s:.0f} s")
            await asyncio.sleep(max(0.0, started_s + number / ticks_per_s - time.monotonic()))
        found.ticks_per_s = number / (time.monotonic() - started_s)
        await writer.flush(FLUSH_LIMIT_S)
        found.dropped = writer.state().dropped
    finally:
        await writer.stop(FLUSH_LIMIT_S)
    return found


def _look(found: HandedOver, writer: Writer) -> None:
    state = writer.state()
    found.pending = max(found.pending, state.pending)
    found.oldest_wait_s = max(found.oldest_wait_s, state.oldest_wait_s)
    found.wal_bytes = max(found.wal_bytes, state.wal_bytes or 0)


async def _tick(found: HandedOver, writer: Writer, ticks: Ticks) -> None:
    intent, writes = ticks.next()
    wall_ms = cpu_ms = 0.0
    if intent is not None:
        (receipt,), wall_ms, cpu_ms = _put(writer, [intent])
        began_s = time.perf_counter()
        found.late_intents += not await writer.settled(receipt, COMMIT_TIMEOUT_S)
        found.intent_ms.append((time.perf_counter() - began_s) * 1e3)
    _, more_wall_ms, more_cpu_ms = _put(writer, writes)
    found.wall_ms.append(wall_ms + more_wall_ms)
    found.cpu_ms.append(cpu_ms + more_cpu_ms)


def _put(writer: Writer, writes: Sequence[Write]) -> tuple[list[Receipt], float, float]:
    """The receipts, and the milliseconds by the clock and by the CPU."""
    began_s, began_cpu_s = time.perf_counter(), time.thread_time()
    receipts = [writer.put(write) for write in writes]
    return receipts, (time.perf_counter() - began_s) * 1e3, (time.thread_time() - began_cpu_s) * 1e3


async def _to_nobody(found: HandedOver, ticks: Ticks, seconds: float) -> None:
    nobody = Pending(QUEUE)
    for _ in range(round(seconds * found.ticks_per_s)):
        _, writes = ticks.next()
        began_s = time.perf_counter()
        for write in writes:
            nobody.put(write)
        found.nobody_ms.append((time.perf_counter() - began_s) * 1e3)
        nobody.take(QUEUE, Importance.READING)
        nobody.done()
        await asyncio.sleep(1 / found.ticks_per_s)
