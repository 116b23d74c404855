"""The ledger: what the engine's GPUs used and what it did, in stretches of time under one setting of the knobs.

Belongs here: an entry, and adding entries up. Never: what it costs (domain/cost.py), how it is measured.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

LONGEST_NOTE = 500
"""Characters: notes that are added up say what was, not how often."""


class EnergySource(StrEnum):
    """Where an entry's energy comes from. Entries of different sources are never added into one row."""

    COUNTER = "counter"
    """NVML's energy counter."""
    POWER = "power"
    """NVML's power, integrated between readings: for cards without a counter."""
    NONE = "none"
    """Not known: `energy_j` is None."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What was measured from `at` on, over `seconds`. None: not known, never 0.

    A figure is known for all of `seconds` or not at all: where a source comes or goes, another entry begins.
    """

    at: datetime
    resolution_s: int
    """It lies within one minute of the clock (60), one hour (3600) or one day of UTC (86400), but for the tick that
    crosses the end of it."""
    setting: Mapping[str, float | None]
    """Knob to the value in force, None for no limit; empty: not known."""
    energy_source: EnergySource = EnergySource.NONE
    seconds: float = 0.0
    gap_s: float = 0.0
    """Time before `at` of which nothing is counted: the daemon or all sensors were away, or a counter began anew."""
    idle_s: float = 0.0
    """Of `seconds`, those in which no request ran and no token came."""
    gpu_s: float | None = None
    """Seconds times the cards of the engine."""
    memory_byte_s: float | None = None
    """GPU memory used, integrated: over `seconds` it gives the mean."""
    energy_j: float | None = None
    """Of the engine's own GPUs, each card once, the idle part included."""
    idle_energy_j: float | None = None
    """The part of `energy_j` that fell into `idle_s`."""
    requests: float | None = None
    """That ended, however."""
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    response_bytes: float | None = None
    cache_queries: float | None = None
    """Tokens looked up in the prefix cache."""
    cache_hits: float | None = None
    note: str | None = None
    """Why the figures do not follow on from those before."""
    node: str = field(default="")


FIGURES = (
    "gpu_s",
    "memory_byte_s",
    "energy_j",
    "idle_energy_j",
    "requests",
    "prompt_tokens",
    "generation_tokens",
    "response_bytes",
    "cache_queries",
    "cache_hits",
)
"""The fields that may be unknown."""
TIMES = ("seconds", "gap_s", "idle_s")


def known(entry: LedgerEntry) -> frozenset[str]:
    """The figures that an entry has."""
    return frozenset(name for name in FIGURES if getattr(entry, name) is not None)


def kind(entry: LedgerEntry) -> Hashable:
    """What entries must share to be added up: whose they are, the setting, the source, and which figures are known. A
    sum over some that know and some that do not would be a part passed off as the whole.
    """
    return entry.node, tuple(sorted(entry.setting.items())), entry.energy_source, known(entry)


def add_up(entries: Iterable[LedgerEntry], resolution_s: int) -> list[LedgerEntry]:
    """One entry of each kind, from where the first of it begins."""
    sums: dict[Hashable, LedgerEntry] = {}
    for entry in entries:
        key = kind(entry)
        before = sums.get(key)
        sums[key] = replace(entry, resolution_s=resolution_s) if before is None else _plus(before, entry)
    return list(sums.values())


def _plus(one: LedgerEntry, other: LedgerEntry) -> LedgerEntry:
    added = {name: getattr(one, name) + getattr(other, name) for name in (*TIMES, *known(one))}
    return replace(one, at=min(one.at, other.at), note=_notes(one.note, other.note), **added)


def _notes(one: str | None, other: str | None) -> str | None:
    if one is None or other is None or other in one:
        return one or other
    return f"{one}; {other}" if len(one) + len(other) + 2 <= LONGEST_NOTE else one
