"""What the records of single requests say: goodput, and how unequally equals are served.

Belongs here: tallies of records. Never: histograms of all requests, objectives' meaning.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from controller.estimation.windows import ENOUGH_SAMPLES, WINDOWS_S
from domain.histogram import Histogram
from domain.readings.engine import RequestRecord
from domain.slo import Latency, Slo

FAILED = "error"
LEFT = "abort"
"""The client's doing: such a request is in neither measure."""


class Goodput:
    """Share of requests that met every objective, over the same windows as the latencies."""

    def __init__(self) -> None:
        self._slos: tuple[Slo, ...] = ()
        self._met = judge(())
        self._tallies: deque[tuple[float, int, int]] = deque()
        self._not_before_s: float | None = None

    def restart(self) -> None:
        """Only what finishes from the next reading on counts."""
        self._tallies.clear()
        self._not_before_s = None

    def take(self, now_s: float, wall_s: float, records: Sequence[RequestRecord], slos: tuple[Slo, ...]) -> None:
        """Records that came with a reading at `now_s`, `wall_s` in Unix seconds."""
        if slos != self._slos:
            self._slos, self._met = slos, judge(slos)
            self._tallies.clear()
        if self._not_before_s is None or self._not_before_s > wall_s:  # the clock may have been set back
            self._not_before_s = wall_s
        since_s = max(self._not_before_s, wall_s - WINDOWS_S[-1])
        met = self._met
        judged = [met(r) for r in records if r.finished_at >= since_s and r.reason != LEFT]
        self._tallies.append((now_s, len(judged), sum(judged)))
        while now_s - self._tallies[0][0] >= WINDOWS_S[-1]:
            self._tallies.popleft()

    def ratio(self, now_s: float) -> float | None:
        """None without objectives or records."""
        if not self._slos:
            return None
        finished = good = 0
        spans = iter(WINDOWS_S)
        span_s = next(spans)
        for at_s, count, met_all in reversed(self._tallies):
            while now_s - at_s >= span_s and finished < ENOUGH_SAMPLES and span_s < WINDOWS_S[-1]:
                span_s = next(spans)
            if now_s - at_s >= span_s:
                break
            finished, good = finished + count, good + met_all
        return good / finished if finished else None


def inside(slos: tuple[Slo, ...], latencies: Mapping[Latency, Histogram]) -> float | None:
    """The same from histograms: only of a single objective, since they do not say which requests met both of two."""
    histogram = latencies.get(slos[0].latency) if len(slos) == 1 else None
    over = histogram.fraction_above(slos[0].bound_s) if histogram is not None else None
    return None if over is None else 1.0 - over


def judge(slos: tuple[Slo, ...]) -> Callable[[RequestRecord], bool]:
    """Whether one request kept every bound. One without a token met no time to first token; one token has no gap.

    The bounds are taken out of the objectives once: hundreds of requests a tick are judged.
    """
    bounds = dict.fromkeys(Latency, math.inf)
    for slo in slos:
        bounds[slo.latency] = min(bounds[slo.latency], slo.bound_s)
    ttft, itl, e2e = bounds[Latency.TTFT], bounds[Latency.ITL], bounds[Latency.E2E]
    queue, inference, needs_token = bounds[Latency.QUEUE], bounds[Latency.INFERENCE], not math.isinf(ttft)

    def met(record: RequestRecord) -> bool:
        return (
            record.e2e_s <= e2e
            and (record.tpot_s is None or record.tpot_s <= itl)
            and (record.ttft_s <= ttft if record.ttft_s is not None else not needs_token)
            and record.queue_s <= queue
            and record.e2e_s - record.queue_s <= inference
            and record.reason != FAILED
        )

    return met


IMBALANCE_S = 300.0
_SLOT_S = 30.0
_REFRESH_S = 5.0
_PER_DOUBLING = 16
"""Latencies are counted in classes 2^(1/16) wide: a quotient is right within 4.4 %, and no record is kept."""
ENOUGH_IN_CLASS = 20

_Class = tuple[int, int]
_Counts = dict[_Class, dict[int, int]]
"""Requests by length class and class of latency."""


class Imbalance:
    """Slowest tenth over fastest tenth of end-to-end latency among requests of one (prompt, output) length class.

    Length classes are powers of two. A knob that moves does not start it afresh: it would never fill.
    """

    def __init__(self) -> None:
        self._slots: deque[tuple[float, _Counts]] = deque()
        self._counts: _Counts = {}
        """Sum over the slots."""
        self._value: float | None = None
        self._refreshed_s = -math.inf

    def take(self, now_s: float, wall_s: float, records: Sequence[RequestRecord]) -> None:
        """Records that came with a reading at `now_s`, `wall_s` in Unix seconds."""
        while self._slots and now_s - self._slots[0][0] >= IMBALANCE_S + _SLOT_S:
            self._drop(self._slots.popleft()[1])
        if not self._slots or now_s - self._slots[-1][0] >= _SLOT_S:
            self._slots.append((now_s, {}))
        slot = self._slots[-1][1]
        for record in records:
            if record.reason in (FAILED, LEFT) or record.e2e_s <= 0 or wall_s - record.finished_at > IMBALANCE_S:
                continue
            kind = (record.prompt_tokens.bit_length(), record.output_tokens.bit_length())
            step = math.floor(math.log2(record.e2e_s) * _PER_DOUBLING)
            for counts in (slot.setdefault(kind, {}), self._counts.setdefault(kind, {})):
                counts[step] = counts.get(step, 0) + 1

    def worst(self, now_s: float) -> float | None:
        """Of the worst class with enough requests; None without one. Worked out every few seconds."""
        if self._value is None or now_s - self._refreshed_s >= _REFRESH_S:
            self._refreshed_s = now_s
            self._value = max((s for c in self._counts.values() if (s := _spread(c)) is not None), default=None)
        return self._value

    def _drop(self, slot: _Counts) -> None:
        for kind, dropped in slot.items():
            counts = self._counts[kind]
            for step, count in dropped.items():
                counts[step] -= count
                if not counts[step]:
                    del counts[step]
            if not counts:
                del self._counts[kind]


def _spread(counts: dict[int, int]) -> float | None:
    """P90 over P10 of counts by class of latency."""
    number = sum(counts.values())
    if number < ENOUGH_IN_CLASS:
        return None
    steps = sorted(counts)
    reached = list(accumulate(counts[step] for step in steps))
    fast = next(step for step, sofar in zip(steps, reached, strict=True) if sofar >= 0.1 * number)
    slow = next(step for step, sofar in zip(steps, reached, strict=True) if sofar >= 0.9 * number)
    return float(2.0 ** ((slow - fast) / _PER_DOUBLING))
