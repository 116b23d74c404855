"""Prometheus' text format -> a VllmReading.

Belongs here: which rows make up which value, what makes a value unusable. Never: HTTP, differences, names of series.

prometheus_client's parser reads a line's name and labels, but only once for each line: what stands before the value is
the same at every scrape, and taking it apart each time took seven times as long as all the rest.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from controller.sensors.vllm import names
from controller.sensors.vllm.names import Series
from domain.errors import BadReading
from domain.histogram import Histogram
from domain.readings.vllm import EngineGauges, VllmReading

Labels = frozenset[tuple[str, str]]

MAX_KNOWN = 50_000
"""Lines remembered at most. A server has a few hundred; 64 engine cores have some 15,000."""
LEARN_S = 1.0
"""How long one answer may keep the event loop: new lines beyond that are for the next one."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a line says before its value."""

    name: str
    engine: str
    bound: float | None
    """Upper bound of a bucket; None: no bucket, or a bound that is no number."""
    labels: Labels
    """Without the bound, so that the buckets of one histogram share them."""


Rows = list[tuple[Row, float]]


class Parser:
    """Reads one server's answers. It remembers its lines, so the second one costs a tenth of the first."""

    def __init__(self, url: str = "vLLM") -> None:
        self._url = url
        self._known: dict[str, Row] = {}
        self._labels: dict[Labels, Labels] = {}
        self._began_s = 0.0

    def parse(self, text: str) -> VllmReading:
        """Raises BadReading when a wanted line is malformed, when vLLM's own series are absent, or when there are too
        many new lines for one answer.
        """
        self._began_s = time.monotonic()
        found: dict[str, Rows] = defaultdict(list)
        known, wanted = self._known, names.WANTED
        for line in text.split("\n"):  # splitlines() would also cut inside a label
            head, _, tail = line.rpartition(" ")
            row = known.get(head)
            if row is None:
                name = line.partition("{")[0]
                if name not in wanted and name.partition(" ")[0] not in wanted:
                    continue
                row, value = self._meet(line, head)
            else:
                value = self._number(row, tail)
            found[row.name].append((row, value))
        if not any(name.startswith("vllm:") for name in found):
            raise BadReading(
                f"cannot see the engine at {self._url}: the answer has no series of vLLM's; start vLLM without "
                "--disable-log-stats, and where PROMETHEUS_MULTIPROC_DIR is set empty that folder before each start"
            )
        return _reading(found)

    def _meet(self, line: str, head: str) -> tuple[Row, float]:
        if time.monotonic() - self._began_s > LEARN_S:
            raise BadReading(
                f"cannot read {self._url} at once: its lines are so many that they are learnt over several answers; if "
                f"that does not end, they are more than {MAX_KNOWN} or change each time: restart vLLM to be rid of them"
            )
        try:
            sample = next(sample for family in text_string_to_metric_families(line) for sample in family.samples)
        except (ValueError, IndexError, StopIteration) as error:
            raise self._malformed(line.partition("{")[0].partition(" ")[0]) from error
        row = self._row(sample)
        if sample.timestamp is None and (head.endswith("}") or head == sample.name):
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
                self._labels.clear()
            self._known[head] = row
        return row, float(sample.value)

    def _row(self, sample: Sample) -> Row:
        try:
            bound = float(sample.labels["le"])
        except (KeyError, ValueError):
            bound = None
        labels = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
        engine = sample.labels.get("engine", "0")
        # Thousands of rows say the same few things: each is kept once.
        return Row(sys.intern(sample.name), sys.intern(engine), bound, self._labels.setdefault(labels, labels))

    def _number(self, row: Row, text: str) -> float:
        try:
            return float(text)
        except ValueError as error:
            raise self._malformed(row.name) from error

    def _malformed(self, name: str) -> BadReading:
        # The line itself changes from scrape to scrape; the fault is to be said once.
        return BadReading(
            f"cannot understand {self._url}: a line of {name} is malformed; let no proxy between alter the answers"
        )


def _reading(found: Mapping[str, Rows]) -> VllmReading:
    series: dict[str, str] = {}
    per_engine = {name: _per_engine(_rows(found, name, one, series)) for name, one in names.GAUGES.items()}
    values: dict[str, Any] = {name: _over_engines(name, gauges) for name, gauges in per_engine.items()}
    for name, one in names.COUNTERS.items():
        values[name] = _total(_rows(found, name, one, series))
    for name, one in names.LENGTHS.items():
        values[name] = _histogram(found, name, one, series)
    latencies = {one: _histogram(found, one.value, names.LATENCIES[one], series) for one in names.LATENCIES}
    return VllmReading(
        **values,
        asleep=_asleep(_rows(found, "asleep", names.AWAKE, series)),
        latencies={one: histogram for one, histogram in latencies.items() if histogram is not None},
        engines=_engines(
            per_engine, _totals(_rows(found, "generation_tokens", names.COUNTERS["generation_tokens"], series))
        ),
        series=series,
    )


def _rows(found: Mapping[str, Rows], field: str, wanted: Series, series: dict[str, str], ending: str = "") -> Rows:
    """Rows of the newest name that is there: two names for one thing are never summed."""
    for name in wanted.names:
        rows = found.get(name + ending, [])
        if wanted.having:
            rows = [one for one in rows if not one[0].labels.isdisjoint(wanted.having)]
        if wanted.lacking:
            rows = [one for one in rows if one[0].labels.isdisjoint(wanted.lacking)]
        if rows:
            series[field] = name
            return rows
    return []


def _usable(value: float) -> bool:
    return 0 <= value < math.inf  # NaN is not


def _per_engine(rows: Rows) -> dict[str, float | None]:
    """A gauge by engine core; None where its value cannot be.

    vLLM with several API processes merges their counters and histograms by itself (summed), and their gauges too
    (`mostrecent`: one row for each engine core). Older ones forgot that mode at a gauge or two, the KV cache's among
    them: then one core has a row for each process, told apart by the label `pid`. All speak of that one core, so the
    highest counts: a process that was never told holds 0.
    """
    gauges: dict[str, float | None] = {}
    for row, value in rows:
        before = gauges.get(row.engine, 0.0)
        gauges[row.engine] = max(before, value) if before is not None and _usable(value) else None
    return gauges


def _over_engines(field: str, gauges: Mapping[str, float | None]) -> float | None:
    values = [value for value in gauges.values() if value is not None]
    if not gauges or len(values) < len(gauges):
        return None  # what one core holds is not known, so the sum and the worst are not
    return max(values) if field in names.WORST_OF_ENGINES else sum(values)


def _total(rows: Rows) -> float | None:
    """A counter over engine cores, reasons and processes: each row counts events that no other row counts."""
    if not rows or not all(_usable(value) for _, value in rows):
        return None
    return sum(value for _, value in rows)


def _totals(rows: Rows) -> dict[str, float | None]:
    """A counter by engine core."""
    of_each: dict[str, Rows] = defaultdict(list)
    for row, value in rows:
        of_each[row.engine].append((row, value))
    return {engine: _total(own) for engine, own in of_each.items()}


def _asleep(rows: Rows) -> bool | None:
    if not rows or not all(_usable(value) for _, value in rows):
        return None
    return any(value == 0 for _, value in rows)


def _engines(
    per_engine: Mapping[str, Mapping[str, float | None]], tokens: Mapping[str, float | None]
) -> tuple[EngineGauges, ...]:
    gauges = [(name, per_engine[name]) for name in ("running", "waiting", "kv_cache_usage_ratio")]
    engines = {engine for _, known in gauges for engine in known}
    return tuple(
        EngineGauges(
            engine, **{name: known.get(engine) for name, known in gauges}, generation_tokens=tokens.get(engine)
        )
        for engine in sorted(engines, key=lambda engine: (len(engine), engine))
    )


def _histogram(found: Mapping[str, Rows], field: str, wanted: Series, series: dict[str, str]) -> Histogram | None:
    """Summed by bound. None when absent, when a number in it cannot be, or when the engine cores' bounds differ."""
    buckets = _rows(found, field, wanted, series, "_bucket")
    sums = found.get(f"{series[field]}_sum", []) if buckets else []
    total = _total(sums)
    if total is None or not all(row.bound is not None and _usable(value) for row, value in buckets):
        return None
    parts: dict[Labels, dict[float, float]] = defaultdict(dict)
    for row, value in buckets:
        parts[row.labels][row.bound or 0.0] = value
    bounds, *different = {tuple(sorted(part)) for part in parts.values()}
    if different or bounds[-1] != math.inf:
        return None
    return Histogram(bounds, tuple(sum(part[bound] for part in parts.values()) for bound in bounds), total)
