"""What an engine on four GPUs measures: signals, settings, ledger entries with as many digits as real ones have.

Belongs here: numbers of one stretch of time. Never: when it was (year.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from random import Random

from domain import knobs
from domain.ledger import EnergySource, LedgerEntry
from domain.stretch import AS_READ_S, KNOB, Reading, reading, rounded
from domain.view import SIGNALS

GPUS = 4
WATTS = 1100.0
TOKENS_PER_S = 6000.0
IDLE_RATIO = 0.2
ENVELOPE: Mapping[str, float] = {
    knobs.MAX_NUM_SEQS: 256.0,
    knobs.MAX_NUM_BATCHED_TOKENS: 8192.0,
    knobs.LONG_PREFILL_TOKEN_THRESHOLD: 0.0,
    knobs.ADMISSION_DELAY_MS: 0.0,
    knobs.LENGTH_GROUPING: 0.0,
    knobs.WATERMARK_BLOCKS: 0.0,
    knobs.HOT_CACHE_RATIO: 0.0,
    knobs.HOT_CACHE_MIN_SIZE_MB: 0.0,
    knobs.HOT_TTL_S: 900.0,
    knobs.COLD_TTL_S: 120.0,
    knobs.COLD_CACHE_RECLAIM_THRESHOLD: 1.0,
    knobs.MAX_NUM_QUEUED_REQS: knobs.NO_LIMIT,
    "keep_alive_s": 60.0,
    knobs.CONNECTION_CLOSE: 0.0,
}
MOVED: Mapping[str, tuple[float, ...]] = {
    knobs.MAX_NUM_SEQS: (8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0),
    knobs.MAX_NUM_BATCHED_TOKENS: tuple(float(rung) for rung in (1024, 1216, 1440, 1728, 2048, 2432, 2912, 3488, 4192,
                                                                 5024, 6816, 8192)),
    knobs.ADMISSION_DELAY_MS: (0.0, 20.0, 50.0),
    knobs.LENGTH_GROUPING: (0.0, 1.0),
    knobs.HOT_CACHE_RATIO: (0.3,),
    knobs.MAX_NUM_QUEUED_REQS: (256.0, knobs.NO_LIMIT),
}  # fmt: skip
"""The knobs that policies move, and the rungs that they move them on: 1,440 settings."""
MOSTLY_ZERO = frozenset(
    ("held", "deferred", "preemptions_per_s", "failed_ratio", "rejected_ratio", "stalled_s", "bar1_swing_ratio")
)
WHOLE = frozenset(("running", "waiting", "held", "demand", "deferred", "gpu_temperature_c"))
"""Whole numbers in a single tick."""
TYPICAL: Mapping[str, float] = {
    name: 0.5 if name.endswith("_ratio") else 1500.0 if name.endswith("_per_s") else 60.0 for name in SIGNALS
} | {"gpu_energy_j": 3.0e9, "gpu_power_w": WATTS, "response_bytes_per_s": 250_000.0}


def stretch(chance: Random, at: datetime, resolution_s: int, setting: Mapping[str, float | None]) -> Reading:
    """A tick, a minute or an hour, every signal known. It is as `domain.stretch.reading` and `merged` make them."""
    held = {**ENVELOPE, **setting}
    if resolution_s == AS_READ_S:
        return reading(at, tick(chance).items(), held)
    one = reading(at, _signals(chance, whole=False).items(), held)
    highs = {n: rounded(v * 1.3) for n, v in one.means.items() if v and not n.startswith(KNOB)}
    return replace(one, resolution_s=resolution_s, samples=resolution_s, highs=highs)


def tick(chance: Random) -> dict[str, float]:
    """Every signal, as one tick reads it."""
    return _signals(chance, whole=True)


def _signals(chance: Random, *, whole: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, typical in TYPICAL.items():
        quiet = name in MOSTLY_ZERO and chance.random() < (0.9 if whole else 0.5)
        value = 0.0 if quiet else typical * chance.uniform(0.7, 1.3)
        found[name] = float(round(value)) if whole and name in WHOLE else value
    return found


class Setting:
    """The moved knobs, of which one moves one rung at a time."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._rungs = {name: len(rungs) // 2 for name, rungs in MOVED.items()}

    def move(self) -> None:
        """As a policy would."""
        name = self._chance.choice([name for name, rungs in MOVED.items() if len(rungs) > 1])
        rung = self._rungs[name] + self._chance.choice((-1, 1))
        self._rungs[name] = min(max(rung, 0), len(MOVED[name]) - 1)

    @property
    def values(self) -> dict[str, float | None]:
        """Knob to the value in force, None for no limit."""
        drawn = {name: rungs[self._rungs[name]] for name, rungs in MOVED.items()}
        return {name: value if math.isfinite(value) else None for name, value in drawn.items()}


def entry(
    chance: Random, at: datetime, resolution_s: int, setting: Mapping[str, float | None], seconds: float
) -> LedgerEntry:
    """What the engine used and did in `seconds` of a stretch."""
    energy_j = WATTS * seconds * chance.uniform(0.8, 1.2)
    tokens = float(round(TOKENS_PER_S * seconds * chance.uniform(0.5, 1.5)))
    return LedgerEntry(
        at=at,
        resolution_s=resolution_s,
        setting=setting,
        energy_source=EnergySource.COUNTER,
        seconds=seconds,
        idle_s=seconds * IDLE_RATIO,
        gpu_s=seconds * GPUS,
        memory_byte_s=seconds * GPUS * 7.1e10,
        energy_j=energy_j,
        idle_energy_j=energy_j * IDLE_RATIO / 4,
        requests=float(round(tokens / 300)),
        prompt_tokens=tokens * 4,
        generation_tokens=tokens,
        response_bytes=tokens * 5,
        cache_queries=tokens * 4,
        cache_hits=tokens,
    )
