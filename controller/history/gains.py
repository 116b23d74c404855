"""What was used and done between two snapshots, as far as both say.

Belongs here: differences and integrals over one tick or a few. Never: which two snapshots, entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.estimation import cards
from controller.estimation.gpus import MemoryUse
from domain.knobs import PREEMPT, PURGE, TRAITS
from domain.ledger import EnergySource
from domain.readings.gpu import GpusReading
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime
from domain.snapshot import Snapshot

GOVERNED = tuple(name for name in TRAITS if name not in (PURGE, PREEMPT))
"""Knobs that a policy or a rollback moves; the two acts are none."""
COUNTERS: Mapping[str, str] = {
    "requests": "requests_finished",
    "prompt_tokens": "prompt_tokens",
    "generation_tokens": "generation_tokens",
    "response_bytes": "response_bytes",
    "cache_queries": "prefix_cache_queries",
    "cache_hits": "prefix_cache_hits",
}
"""Figure to the counter that it is the gain of."""


@dataclass(frozen=True, slots=True)
class Gains:
    """`figures` are those that are known, by their names in the ledger."""

    figures: Mapping[str, float]
    source: EnergySource
    idle: bool
    broken: str | None = None
    """A counter began anew, or the cards changed: nothing of the time between can be told. Why, as a clause."""


def between(before: Snapshot, after: Snapshot, memory: MemoryUse) -> Gains:
    """Over `after.now_s - before.now_s` seconds, which the caller knows to be few."""
    seconds = after.now_s - before.now_s
    gpus = _gpus(before.gpus, after.gpus, seconds, memory)
    engine = _engine(before.vllm, after.vllm)
    figures = {**gpus.figures, **engine.figures}
    if "energy_j" in figures and "generation_tokens" in figures:
        figures["idle_energy_j"] = figures["energy_j"] if engine.idle else 0.0
    return Gains(figures, gpus.source, engine.idle, gpus.broken or engine.broken)


def setting(runtime: EngineRuntime) -> dict[str, float | None]:
    """The governed knobs that the engine carries, with the values in force; None for no limit."""
    found = {name: knob.value for name in GOVERNED if (knob := runtime.knob(name)) is not None}
    return {name: None if value == float("inf") else value for name, value in found.items()}


def _gpus(before: GpusReading | None, after: GpusReading | None, seconds: float, memory: MemoryUse) -> Gains:
    """Nothing while a card is lost: a part is not passed off as the whole."""
    if before is None or after is None or before.lost or after.lost or not after.devices:
        return Gains({}, EnergySource.NONE, idle=False)
    if {one.uuid for one in before.devices} != {one.uuid for one in after.devices}:
        return Gains({}, EnergySource.NONE, idle=False, broken="the engine's GPUs are others than before")
    figures = {"gpu_s": seconds * len({one.card_uuid for one in after.devices})}
    used = _memory_byte_s(before, after, seconds, memory)
    if used is not None:
        figures["memory_byte_s"] = used
    counters = cards.known(cards.energy_j(before)), cards.known(cards.energy_j(after))
    everywhere = set(cards.energy_j(after))
    if everywhere == counters[0].keys() == counters[1].keys():
        gained = cards.gain(*counters)
        if gained.began_anew:
            return Gains({}, EnergySource.NONE, idle=False, broken=f"energy counter began anew: {gained.began_anew[0]}")
        return Gains({**figures, "energy_j": gained.joules}, EnergySource.COUNTER, idle=False)
    drawn = cards.known(cards.power_w(before)), cards.known(cards.power_w(after))
    if everywhere == drawn[0].keys() == drawn[1].keys():
        mean_w = (sum(drawn[0].values()) + sum(drawn[1].values())) / 2  # the trapezoid
        return Gains({**figures, "energy_j": mean_w * seconds}, EnergySource.POWER, idle=False)
    return Gains(figures, EnergySource.NONE, idle=False)


def _memory_byte_s(before: GpusReading, after: GpusReading, seconds: float, memory: MemoryUse) -> float | None:
    used = [memory.used_bytes(device) for device in (*before.devices, *after.devices)]
    known = [one for one in used if one is not None]
    return sum(known) / 2 * seconds if len(known) == len(used) else None


def _engine(before: VllmReading | None, after: VllmReading | None) -> Gains:
    if before is None or after is None:
        return Gains({}, EnergySource.NONE, idle=False)
    figures: dict[str, float] = {}
    for name, counter in COUNTERS.items():
        old, new = getattr(before, counter), getattr(after, counter)
        if old is None or new is None:
            continue
        if new < old:
            return Gains({}, EnergySource.NONE, idle=False, broken=f"vLLM's counter {counter} began anew")
        figures[name] = new - old
    idle = before.running == 0 == after.running and figures.get("generation_tokens") == 0
    return Gains(figures, EnergySource.NONE, idle)
