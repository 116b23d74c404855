"""The recording of the last day: chunks of Views, as large as the daemon's recorder makes them.

Belongs here: chunks of drawn signals. Never: the format (controller/history/view_codec.py), reading them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import cycle
from random import Random

from bench.store import drawn
from controller.history.recording import TICKS_A_CHUNK
from controller.history.view_codec import ChunkWriter, Frame
from domain.histogram import Histogram
from domain.slo import Latency
from domain.view import View
from store.history import Chunk

BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, float("inf"))
LATENCIES = (Latency.TTFT, Latency.ITL, Latency.E2E)
DIFFERENT = 20
"""So many bodies are made and dealt again: what is in one matters to nobody here, its size does."""


def chunks(chance: Random, since: datetime, until: datetime) -> Iterator[Chunk]:
    """One after the other, a tick a second."""
    length, at = timedelta(seconds=TICKS_A_CHUNK), since
    for chunk in cycle([_chunk(chance, since) for _ in range(DIFFERENT)]):
        if at + length > until:
            return
        yield replace(chunk, from_at=at, to_at=at + length - timedelta(seconds=1))
        at += length


def _chunk(chance: Random, since: datetime) -> Chunk:
    writer = ChunkWriter()
    for second in range(TICKS_A_CHUNK):
        writer.add(Frame(since + timedelta(seconds=second), _view(chance, float(second))))
    return writer.take()


def _view(chance: Random, now_s: float) -> View:
    completed = {latency: _histogram(chance) for latency in LATENCIES}
    signals = dict(drawn.tick(chance))
    return replace(View(now_s, window_s=10.0, latencies=completed, completed=completed), **signals)  # type: ignore[arg-type]


def _histogram(chance: Random) -> Histogram:
    counts, total = [], 0.0
    for _ in BOUNDS:
        total += chance.randrange(12)
        counts.append(total)
    return Histogram(BOUNDS, tuple(counts), total * chance.random())
