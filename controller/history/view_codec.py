"""Views as compressed JSON lines, so that a replay sees to the last bit what the policies saw.

Belongs here: the format of a recording. Never: when one is written, what is replayed.

The first line of a chunk holds what differs from an empty View, each further one what differs from the line before.
Keys that begin with @ are not the View's: @at (microseconds since 1970) and the tick's context. Of a histogram the
bounds are written once, and whole counts as what each bucket holds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, get_type_hints

from controller.history.dataclass_json import decoder, defaults, encoder
from domain.errors import BadReading
from domain.histogram import Histogram
from domain.slo import Latency
from domain.view import View
from store.history import Chunk

LEVEL = 6
MOST_WHOLE = 2**53
"""Up to here every whole number is a float."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HINTS = get_type_hints(View)
_DEFAULTS = defaults(View)
HISTOGRAMS = ("latencies", "completed")
_PARTS = {
    name: convert for name in _DEFAULTS if name not in HISTOGRAMS and (convert := encoder(_HINTS[name])) is not None
}
"""Fields that are neither plain numbers nor histograms."""
_NUMBERS = tuple(name for name in _DEFAULTS if name not in _PARTS and name not in HISTOGRAMS)
_numbers = attrgetter(*_NUMBERS)
_DECODERS = {name: convert for name in _DEFAULTS if (convert := decoder(_HINTS[name])) is not None}
_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_EMPTY = {name: _dumps(convert(_DEFAULTS[name])) for name, convert in _PARTS.items() if _DEFAULTS[name] is not None}


@dataclass(frozen=True, slots=True)
class Frame:
    """One tick: the View, when it was by the wall clock, and what else deciding rested on (plain JSON values)."""

    at: datetime
    view: View
    context: Mapping[str, Any] = field(default_factory=dict)


class ChunkWriter:
    """Takes frames in, one a tick, and gives them back as one chunk."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lines: list[str] = []
        self._numbers: tuple[Any, ...] = tuple(_DEFAULTS[name] for name in _NUMBERS)
        self._parts: dict[str, str] = {name: _EMPTY.get(name, "null") for name in _PARTS}
        self._histograms: dict[str, str] = dict.fromkeys(HISTOGRAMS, "{}")
        self._bounds: dict[str, Bounds] = {name: {} for name in HISTOGRAMS}
        self._context = ""
        self._from = self._to = EPOCH

    @property
    def ticks(self) -> int:
        """How many frames are in it."""
        return len(self._lines)

    def add(self, frame: Frame) -> None:
        """Take one frame in."""
        pieces = [f'"@at":{(frame.at - EPOCH) // timedelta(microseconds=1)}']
        if (context := _dumps(dict(frame.context))) != self._context:
            self._context = context
            pieces.append(f'"@context":{context}')
        pieces += self._changed_numbers(frame.view)
        for name, convert in _PARTS.items():
            pieces += _news(self._parts, name, _dumps(convert(getattr(frame.view, name))))
        for name in HISTOGRAMS:
            stored = _from_histograms(getattr(frame.view, name), self._bounds[name])
            pieces += _news(self._histograms, name, _dumps(stored))
        if not self._lines:
            self._from = frame.at
        self._to = frame.at
        self._lines.append("{" + ",".join(pieces) + "}")

    def _changed_numbers(self, view: View) -> list[str]:
        numbers = _numbers(view)
        changed = {
            name: new
            for name, new, old in zip(_NUMBERS, numbers, self._numbers, strict=True)
            if new is not old and not _same(new, old)
        }
        self._numbers = numbers
        return [_dumps(changed)[1:-1]] if changed else []

    def take(self) -> Chunk:
        """All that was added, and begin anew."""
        body = zlib.compress("\n".join(self._lines).encode(), LEVEL)
        chunk = Chunk(self._from, self._to, len(self._lines), body)
        self._begin()
        return chunk


def _news(before: dict[str, str], name: str, text: str) -> list[str]:
    """The field, if it is not as in the line before."""
    if before[name] == text:
        return []
    before[name] = text
    return [f'"{name}":{text}']


def _same(new: Any, old: Any) -> bool:
    """The same number of the same type; 0.0 and -0.0 are two."""
    return type(new) is type(old) and new == old and (new != 0 or repr(new) == repr(old))


Bounds = dict[Latency, tuple[float, ...]]
"""Those written last in a chunk. They differ from engine to engine, not from tick to tick."""


def _from_histograms(histograms: Mapping[Latency, Histogram], bounds: Bounds) -> dict[str, list[Any]]:
    """By latency: sum, counts, whether those are of each bucket, and the bounds where they are news."""
    stored: dict[str, list[Any]] = {}
    for latency, one in histograms.items():
        whole = _whole(one.counts)
        made: list[Any] = [one.total, one.counts if whole is None else [b - a for a, b in pairwise((0, *whole))]]
        if (whole is not None, bounds.get(latency)) != (True, one.bounds):
            made.append(whole is not None)
        if bounds.get(latency) != one.bounds:
            bounds[latency] = one.bounds
            made.append(one.bounds)
        stored[latency] = made
    return stored


def _whole(counts: tuple[float, ...]) -> list[int] | None:
    """Floats that are whole numbers, as such; None when one is not."""
    if set(map(type, counts)) != {float} or not all(map(float.is_integer, counts)):
        return None
    whole = list(map(int, counts))
    return None if any(abs(count) > MOST_WHOLE for count in whole) else whole


def _to_histograms(stored: Mapping[str, list[Any]], bounds: Bounds) -> dict[Latency, Histogram]:
    found: dict[Latency, Histogram] = {}
    for name, (total, counts, *rest) in stored.items():
        latency = Latency(name)
        if len(rest) > 1:
            bounds[latency] = tuple(rest[1])
        cumulative = tuple(map(float, accumulate(counts))) if not rest or rest[0] else tuple(counts)
        found[latency] = Histogram(bounds[latency], cumulative, total)
    return found


def frames(body: bytes) -> Iterator[Frame]:
    """The frames of a chunk. Raises BadReading when it is not one."""
    values = dict(_DEFAULTS)
    context: Mapping[str, Any] = {}
    bounds: dict[str, Bounds] = {name: {} for name in HISTOGRAMS}
    try:
        for line in zlib.decompress(body).splitlines():
            stored = json.loads(line)
            at = EPOCH + timedelta(microseconds=stored.pop("@at"))
            context = stored.pop("@context", context)
            for name, value in stored.items():
                if name in HISTOGRAMS:
                    values[name] = _to_histograms(value, bounds[name])
                elif name in values:  # a field that this version no longer has says nothing to it
                    convert = _DECODERS.get(name)
                    values[name] = value if convert is None else convert(value)
            yield Frame(at, View(**values), context)
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise BadReading(
            f"cannot read a recording: {error}; it was damaged, or not written by vllm-governor"
        ) from error
