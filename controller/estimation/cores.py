"""What the plugin's statistics say of the engine's steps and its queue.

Belongs here: steps, batches, padding, fragmentation, over all engine cores. Never: the cache, request records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import reduce
from operator import attrgetter

from controller.estimation.windows import Signals, Window, largest, ratio
from domain.readings.engine import CoreStats, EngineStats, StepSums


def total(stats: EngineStats | None, field: str) -> float | None:
    """Sum over the engine cores; None when one of them does not say."""
    values = [getattr(core, field) for core in stats.cores] if stats is not None else []
    return None if not values or any(value is None for value in values) else float(sum(values))


def prompt_spread(stats: EngineStats | None) -> float | None:
    """Long over short prompts, of the engine core where they differ most."""
    each = stats.cores if stats is not None else ()
    return largest(*(ratio(core.prompt_tokens_p90, core.prompt_tokens_p10) for core in each))


def comparable(window: Window[EngineStats]) -> bool:
    """Whether both readings hold the same engine cores: one may have failed to answer."""
    return {core.index for core in window.start.cores} == {core.index for core in window.end.cores}


def gain(window: Window[EngineStats] | None, field: str) -> float | None:
    """What a counter gained over all engine cores; None when unknown or it went down."""
    if window is None:
        return None
    before, after = total(window.start, field), total(window.end, field)
    return None if before is None or after is None or after < before else after - before


def per_second(window: Window[EngineStats] | None, field: str) -> float | None:
    """Gain a second, over all engine cores."""
    gained = gain(window, field)
    return None if gained is None or window is None else gained / window.seconds


def steps(start: EngineStats, end: EngineStats) -> StepSums | None:
    """Steps between two readings, summed over the engine cores; None when one of them does not count them."""
    before = {core.index: core.steps for core in start.cores}
    deltas: list[StepSums] = []
    for core in end.cores:
        earlier = before.get(core.index)
        delta = core.steps.since(earlier) if core.steps is not None and earlier is not None else None
        if delta is None:
            return None
        deltas.append(delta)
    return reduce(_add, deltas) if deltas else None


_STEP_FIELDS = tuple(field.name for field in fields(StepSums))


def _add(one: StepSums, other: StepSums) -> StepSums:
    return StepSums(**{name: getattr(one, name) + getattr(other, name) for name in _STEP_FIELDS})


def batches(window: Window[EngineStats] | None, running: float | None) -> Signals:
    """Sizes of batches: requests, tokens, padding."""
    stepped = steps(window.start, window.end) if window is not None else None
    padded = ratio(gain(window, "real_tokens"), gain(window, "padded_tokens"))
    per_step = ratio(stepped.running, stepped.samples) if stepped is not None else None
    return {
        "batch_size_current": per_step if per_step is not None else running,
        "batch_utilization_ratio": ratio(stepped.tokens, stepped.budget_tokens) if stepped is not None else None,
        "padding_ratio": None if padded is None else max(0.0, 1.0 - padded),
        "regroupings_per_s": per_second(window, "regroupings"),
    }


def now(stats: EngineStats | None, waiting: float | None) -> Signals:
    """Measures of this moment, of the worst engine core where a sum would hide it."""
    oldest_s = _worst(stats, attrgetter("oldest_waiting_s"))
    kv = _worst(stats, attrgetter("kv_fragmentation_ratio"))
    allocator = _worst(stats, lambda core: ratio(core.allocator_inactive_split_bytes, core.allocator_reserved_bytes))
    if stats is not None and oldest_s is None and waiting == 0:
        oldest_s = 0.0  # the plugin says null when nobody waits
    return {
        "held": total(stats, "held"),
        "oldest_waiting_s": oldest_s,
        "kv_fragmentation_ratio": kv,
        "allocator_fragmentation_ratio": allocator,
        "memory_fragmentation_ratio": largest(kv, allocator),
    }


def _worst(stats: EngineStats | None, measure: Callable[[CoreStats], float | None]) -> float | None:
    return largest(*(measure(core) for core in stats.cores)) if stats is not None else None
