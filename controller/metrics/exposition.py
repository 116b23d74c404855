"""The daemon's own /metrics: the last picture, decisions and counts as Prometheus series.

Belongs here: which value each series of `controller.metrics.series` has now. Never: HTTP, working a value out, keeping
one.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller import __version__
from controller import clock as system_clock
from controller.metrics.observed import DURATION_BOUNDS_S, Observed
from controller.metrics.series import CATALOGUE, PREFIX, Family, check_name, metric_name
from domain.alert import AlertState
from domain.readings.gpu import GpuReading, GpusReading
from domain.runtime import EngineRuntime
from domain.snapshot import Snapshot
from domain.view import View
from policies.alert_thresholds import OBJECTIVE_EXCESS, worst_objective
from store.writer import WriterState

PERCENTILES = (50.0, 95.0, 99.0)

Value = tuple[str, tuple[str, ...], float | None]
"""A series without the prefix, its labels' values, and the number; None: not known, so left out."""


class Exposition(Collector):
    """Reads `observed` at each scrape and keeps nothing. What is not known is absent, never 0 or NaN.

    Ages go on growing between two ticks, and once the loop stands still all that speaks of now is left out.
    """

    def __init__(self, observed: Observed, clock: Callable[[], system_clock.Now] = system_clock.now) -> None:
        self._observed = observed
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """All there can be, without values."""
        return [_empty(family) for family in CATALOGUE.values()]

    def collect(self) -> Iterable[Metric]:
        """All there is now."""
        found: dict[str, Metric] = {}
        for name, values, number in self._values():
            if number is None or math.isnan(number):
                continue
            family = CATALOGUE[PREFIX + name]
            metric = found.get(name) or found.setdefault(name, _empty(family))
            metric.add_sample(family.name, dict(zip(family.labels, values, strict=True)), float(number))
        yield from found.values()
        yield _tick_durations(self._observed)

    def _values(self) -> Iterator[Value]:
        observed = self._observed
        yield from _counts(observed)
        yield from _receivers(observed)
        now_s = self._clock().monotonic_s
        if now_s - observed.checked_s <= observed.fresh_for_s:
            yield from _checks(observed)
            yield from _rules(observed)
        view, snapshot = observed.view, observed.snapshot
        if view is None or snapshot is None:
            return
        since_s = now_s - view.now_s
        yield from _ages(view, since_s)
        if since_s > observed.fresh_for_s:
            return
        yield "maintenance", (), observed.maintenance is not None
        if observed.history is not None:
            yield from _history(observed.history)
        yield from _signals(view)
        yield from _objectives(view)
        yield from _latencies(view)
        yield from _sources(snapshot)
        yield from _decisions(observed)
        if snapshot.runtime is not None:
            yield from _engine(snapshot.runtime, since_s)
        if snapshot.gpus is not None:
            yield from _devices(snapshot.gpus)


def registry(observed: Observed) -> CollectorRegistry:
    """The daemon's series and those of its process."""
    made = CollectorRegistry()
    made.register(Exposition(observed))
    ProcessCollector(registry=made)
    return made


def _empty(family: Family) -> Metric:
    # The library's families are named without the ending that it gives to their samples.
    return Metric(family.name.removesuffix("_total").removesuffix("_info"), family.said, family.kind)


def _tick_durations(observed: Observed) -> Metric:
    family = CATALOGUE[PREFIX + "tick_duration_seconds"]
    bounds = (*(f"{bound:g}" for bound in DURATION_BOUNDS_S), "+Inf")
    counts = accumulate(observed.durations.counts)
    buckets = [(bound, float(count)) for bound, count in zip(bounds, counts, strict=True)]
    return HistogramMetricFamily(family.name, family.said, buckets, sum_value=observed.durations.total_s)


def _counts(observed: Observed) -> Iterator[Value]:
    yield "ticks_total", (), observed.ticks
    yield "ticks_failed_total", (), observed.failed_ticks
    succeeded_at = observed.succeeded_at
    yield "last_tick_timestamp_seconds", (), succeeded_at.timestamp() if succeeded_at else None
    yield "mode_info", (observed.mode.value,), 1
    yield "build_info", (__version__, platform.python_version()), 1
    for outcome, count in observed.outcomes.items():
        yield "decisions_total", outcome, count


def _checks(observed: Observed) -> Iterator[Value]:
    for check, value in observed.checks.items():
        yield check_name(check).removeprefix(PREFIX), (), value


def _rules(observed: Observed) -> Iterator[Value]:
    for rule, state in observed.rules():
        if state in (AlertState.PENDING, AlertState.FIRING):
            yield "alerts", (rule.name, rule.severity.value, state.value), 1


def _receivers(observed: Observed) -> Iterator[Value]:
    for name, fares in observed.receivers().items():
        yield "receiver_pending", (name,), fares.pending
        yield "receiver_failing_seconds", (name,), fares.failing_s
        yield "receiver_attempts_total", (name,), fares.attempts
        succeeded_at = fares.last_success_at
        yield "receiver_last_success_timestamp_seconds", (name,), succeeded_at.timestamp() if succeeded_at else None
        for result in ("delivered", "failed", "superseded"):
            yield "notifications_total", (name, result), getattr(fares, result)


def _history(state: WriterState) -> Iterator[Value]:
    yield "history_up", (), state.problem is None
    yield "history_pending", (), state.pending
    yield "history_oldest_wait_seconds", (), state.oldest_wait_s
    yield "history_dropped_total", (), state.dropped
    yield "history_set_aside", (), state.set_aside is not None
    yield "history_file_bytes", (), state.file_bytes
    yield "history_wal_bytes", (), state.wal_bytes


def _signals(view: View) -> Iterator[Value]:
    for signal, value in view.signals():
        yield metric_name(signal).removeprefix(PREFIX), (), value


def _ages(view: View, since_s: float) -> Iterator[Value]:
    for source, age_s in view.ages_s.items():
        yield "source_age_seconds", (source.value,), age_s + since_s


def _sources(snapshot: Snapshot) -> Iterator[Value]:
    """A source that is not set up neither gives a reading nor has a problem."""
    for source, reading in snapshot.readings.items():
        if source in snapshot.problems or reading is not None:
            yield "source_up", (source.value,), source not in snapshot.problems


def _objectives(view: View) -> Iterator[Value]:
    worst = worst_objective(view)
    yield OBJECTIVE_EXCESS, (), None if worst is None else worst[1]
    for slo in view.slos:
        labels = (slo.latency.value, f"{slo.percentile:g}")
        yield "objective_bound_seconds", labels, slo.bound_s
        yield "objective_allowed_ratio", labels, slo.allowed_ratio
        yield "objective_over_ratio", labels, view.over_ratio(slo)
        yield "objective_samples", labels, view.samples(slo.latency)
        yield "objective_proposed", labels, slo.proposed


def _latencies(view: View) -> Iterator[Value]:
    yield "window_seconds", (), view.window_s
    for latency, histogram in view.latencies.items():
        yield "latency_samples", (latency.value,), histogram.samples
        for percentile in PERCENTILES:
            # With less than one sample expected beyond it, a percentile is the slowest request's luck.
            if histogram.samples * (100.0 - percentile) < 100.0:
                continue
            labels, q = (latency.value, f"{percentile:g}"), percentile / 100.0
            yield "latency_seconds", labels, histogram.quantile(q)
            yield "latency_saturated", labels, histogram.saturated(q)


def _decisions(observed: Observed) -> Iterator[Value]:
    for decision in observed.decisions:
        yield "knob_wanted", (decision.knob,), decision.wanted
    for knob, requested in observed.requested.items():
        yield "knob_requested", (knob,), requested


def _engine(runtime: EngineRuntime, since_s: float) -> Iterator[Value]:
    yield "engine_info", (runtime.boot_id, runtime.vllm_version, runtime.plugin_version), 1
    for core in runtime.cores:
        engine = str(core.index)
        left_s = core.lease_remaining_s
        yield "lease_remaining_seconds", (engine,), None if left_s is None else max(0.0, left_s - since_s)
        yield "lease_expirations_total", (engine,), core.lease_expirations
        for name, knob in core.knobs.items():
            labels = (name, engine)
            yield "knob_observed", labels, knob.value
            yield "knob_startup", labels, knob.startup
            yield "knob_minimum", labels, knob.minimum
            yield "knob_maximum", labels, knob.maximum


def _devices(gpus: GpusReading) -> Iterator[Value]:
    """MIG instances share a card: what is the card's is said once, under the card's UUID."""
    for uuid in gpus.lost:
        yield "device_up", (uuid,), 0
    cards = {gpu.card_uuid: gpu for gpu in gpus.devices}
    for gpu in gpus.devices:
        labels = (str(gpu.index), gpu.uuid, gpu.name)
        yield "device_up", (gpu.uuid,), 1
        yield "device_utilization_ratio", labels, gpu.utilization_ratio
        yield "device_sm_activity_ratio", labels, gpu.sm_activity_ratio
        if gpu.memory is not None:
            yield "device_memory_total_bytes", labels, gpu.memory.total_bytes
            yield "device_memory_used_bytes", labels, gpu.memory.used_bytes
            yield "device_memory_reserved_bytes", labels, gpu.memory.reserved_bytes
    for card_uuid, gpu in cards.items():
        yield from _card(gpu, (str(gpu.index), card_uuid, gpu.name))


def _card(gpu: GpuReading, labels: tuple[str, ...]) -> Iterator[Value]:
    yield "device_bar1_total_bytes", labels, gpu.bar1_total_bytes
    yield "device_bar1_used_bytes", labels, gpu.bar1_used_bytes
    yield "device_power_watts", labels, gpu.power_w
    yield "device_power_limit_watts", labels, gpu.power_limit_w
    yield "device_energy_joules_total", labels, gpu.energy_j
    yield "device_temperature_celsius", labels, gpu.temperature_c
    yield "device_sm_clock_hertz", labels, gpu.sm_clock_hz
    yield "device_memory_clock_hertz", labels, gpu.memory_clock_hz
    yield "device_ecc_corrected_errors_total", labels, gpu.ecc_corrected
    yield "device_ecc_uncorrected_errors_total", labels, gpu.ecc_uncorrected
