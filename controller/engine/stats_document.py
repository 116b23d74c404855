"""The statistics document of docs/stats.md as domain values.

Belongs here: names and types on the wire. A group or figure that is absent or null is None, since plugins of other
versions lack some; one of the wrong type is a BadReading that names it. Never: HTTP, cursors, differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from controller.engine.wire import MALFORMED, degraded
from domain.errors import BadReading
from domain.readings.engine import CoreStats, RequestRecord, StepSums

_STEP_SUMS = tuple(field.name for field in fields(StepSums))
_COLUMNS = tuple(field.name for field in fields(RequestRecord))
_TEXT = "reason"
_MAY_BE_NULL = frozenset({"ttft_s", "tpot_s"})
_INTEGERS = frozenset({"prompt_tokens", "output_tokens", "hit_tokens", "preemptions"})
_NUMBERS = {int, float}


@dataclass(frozen=True, slots=True)
class CoreAnswer:
    """One engine core's part of the document: its figures, and its records not looked at yet.

    `first` is the number of the oldest record it keeps, `next` of the newest in this answer; None without records.
    """

    stats: CoreStats
    first: int | None
    next: int | None
    columns: tuple[str, ...]
    rows: Sequence[Any]


class _Group:
    """One object of the document by its path; every lookup in an absent one is None."""

    __slots__ = ("_path", "_values")

    def __init__(self, values: Any, path: str) -> None:
        if values is not None and not isinstance(values, Mapping):
            raise _bad(path, values, "an object")
        self._values: Mapping[str, Any] = values or {}
        self._path = path

    def group(self, name: str) -> _Group:
        return _Group(self._values.get(name), f"{self._path}.{name}")

    def items(self, name: str) -> Sequence[Any] | None:
        found = self._values.get(name)
        if found is not None and not isinstance(found, list):
            raise _bad(f"{self._path}.{name}", found, "a list")
        return found

    def number(self, name: str) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if type(value) not in _NUMBERS or not math.isfinite(value):
            raise _bad(f"{self._path}.{name}", value, "a finite number")
        return value  # type: ignore[no-any-return]

    def integer(self, name: str) -> int | None:
        value = self.number(name)
        return None if value is None else int(value)


def cores(document: Mapping[str, Any]) -> list[CoreAnswer]:
    """Every engine core's part. Raises BadReading naming what cannot be understood."""
    try:
        return [_core(core) for core in document["engines"]]
    except MALFORMED as error:
        raise BadReading(f"cannot understand the plugin's statistics: {type(error).__name__} {error}") from error


def records(core: CoreAnswer) -> list[RequestRecord]:
    """The rows of the answer, column by column since there may be a thousand. Raises BadReading naming a bad value."""
    if not core.rows:
        return []
    path = f"engine {core.stats.index}: records"
    width = len(core.columns)
    if any(not isinstance(row, list) or len(row) != width for row in core.rows):
        raise BadReading(f"cannot understand the plugin's statistics: {path} has a row that is not {width} values long")
    given = dict(zip(core.columns, zip(*core.rows, strict=True), strict=True))
    absent: tuple[Any, ...] = (None,) * len(core.rows)
    columns = [_column(name, given.get(name, absent), f"{path}.{name}") for name in _COLUMNS]
    return list(map(RequestRecord, *columns))


def _column(name: str, values: tuple[Any, ...], path: str) -> Sequence[Any]:
    if name == _TEXT:
        return [str(value) for value in values]
    known = values
    if None in values and name in _MAY_BE_NULL:
        known = tuple(value for value in values if value is not None)
    # Types first: a sum or isfinite would take true, and a text would break it.
    if not set(map(type, known)) <= _NUMBERS or not all(map(math.isfinite, known)):
        wrong = next(value for value in known if type(value) not in _NUMBERS or not math.isfinite(value))
        raise _bad(path, wrong, "a finite number")
    return [int(value) for value in values] if name in _INTEGERS else values


def _core(answer: Mapping[str, Any]) -> CoreAnswer:
    index = int(answer["engine"])
    core = _Group(answer, f"engine {index}")
    kept = core.group("records")
    columns = tuple(kept.items("fields") or ())
    lacking = [name for name in _COLUMNS if name not in columns and name not in _MAY_BE_NULL]
    has_records = answer.get("records") is not None
    off = degraded(answer)
    if has_records and lacking:
        off = (*off, f"records: this plugin's have no {', '.join(lacking)}")
    return CoreAnswer(
        stats=_stats(core, index, str(answer["boot_id"]), off),
        first=kept.integer("first"),
        next=kept.integer("next"),
        columns=columns,
        rows=() if lacking else kept.items("rows") or (),
    )


def _stats(core: _Group, index: int, boot_id: str, off: tuple[str, ...]) -> CoreStats:
    requests, blocks, kv = core.group("requests"), core.group("blocks"), core.group("kv")
    cache, prompts = requests.group("cache"), requests.group("prompts")
    padding, window, tiers = core.group("padding"), core.group("window"), core.group("tiers")
    workers = core.group("allocator").items("workers")
    return CoreStats(
        index=index,
        boot_id=boot_id,
        steps=_steps(core.group("steps")),
        admitted=requests.integer("admitted"),
        gave_up=requests.integer("gave_up"),
        preemptions=requests.integer("preemptions"),
        hot_requests=cache.integer("hot_requests"),
        cold_requests=cache.integer("cold_requests"),
        cache_prompt_tokens=cache.integer("prompt_tokens"),
        cache_hit_tokens=cache.integer("hit_tokens"),
        prompt_tokens_p10=prompts.number("p10"),
        prompt_tokens_p90=prompts.number("p90"),
        evictions=blocks.integer("evictions"),
        reallocations=blocks.integer("reallocations"),
        kv_fragmentation_ratio=kv.number("ratio"),
        kv_pool_bytes=kv.integer("pool_bytes"),
        oldest_waiting_s=core.group("queue").number("oldest_waiting_s"),
        real_tokens=padding.integer("real_tokens"),
        padded_tokens=padding.integer("padded_tokens"),
        allocator_reserved_bytes=_over_workers(workers, "reserved_bytes", index),
        allocator_inactive_split_bytes=_over_workers(workers, "inactive_split_bytes", index),
        held=window.integer("held"),
        windows=window.integer("windows"),
        regroupings=window.integer("regroupings"),
        hot_blocks=tiers.integer("kept"),
        cold_blocks=tiers.integer("cold"),
        degraded=off,
    )


def _steps(group: _Group) -> StepSums | None:
    """The sums are of use together only: without one of them there are none."""
    values = {name: group.number(name) for name in _STEP_SUMS}
    return None if None in values.values() else StepSums(**values)  # type: ignore[arg-type]


def _over_workers(workers: Sequence[Any] | None, name: str, index: int) -> int | None:
    """None when a worker does not say: the others alone are not the engine's memory."""
    if not workers:
        return None
    each = [_Group(worker, f"engine {index}.allocator.workers").integer(name) for worker in workers]
    known = [value for value in each if value is not None]
    return sum(known) if len(known) == len(each) else None


def _bad(path: str, value: Any, wanted: str) -> BadReading:
    return BadReading(f"cannot understand the plugin's statistics: {path} is {value!r:.60}, not {wanted}")
