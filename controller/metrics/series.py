"""The series of the daemon's own /metrics: their names, types, labels and meanings.

Belongs here: what there is and how a signal's name becomes a series' name. Never: values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from domain.view import SIGNALS
from policies.alert_thresholds import CHECKS, OBJECTIVE_EXCESS

PREFIX = "vllm_governor_"

_UNITS = {"s": "seconds", "w": "watts", "j": "joules_total", "c": "celsius"}
"""Joules are a counter wherever they are a signal of their own."""

Kind = Literal["gauge", "counter", "info", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """One series: `name` as it stands in a query, `said` as its help text."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    said: str


@functools.cache
def metric_name(signal: str) -> str:
    """The series that carries a signal of `domain.view.SIGNALS`, as PromQL names it.

    `requests_per_s` is `vllm_governor_requests_per_second`, `gpu_energy_j` is `vllm_governor_gpu_energy_joules_total`.
    """
    spelled = re.sub(r"_per_s(?=_|$)", "_per_second", signal)
    stem, _, unit = spelled.rpartition("_")
    return PREFIX + (f"{stem}_{_UNITS[unit]}" if stem and unit in _UNITS else spelled)


def check_name(check: str) -> str:
    """The series that carries a self-check of `policies.alert_thresholds.CHECKS`."""
    return metric_name(f"check_{check}")


def _gauge(name: str, said: str, *labels: str) -> Family:
    return Family(PREFIX + name, "gauge", labels, said)


def _counter(name: str, said: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}_total", "counter", labels, said)


def _info(name: str, said: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}_info", "info", labels, said)


def _signal(signal: str) -> Family:
    name = metric_name(signal)
    return Family(name, "counter" if name.endswith("_total") else "gauge", (), SIGNALS[signal])


_OBJECTIVE = ("latency", "percentile")
_DEVICE = ("gpu", "uuid", "name")

_LATENCIES = (
    _gauge("window_seconds", "Length of the window that rates rest on."),
    _gauge("latency_seconds", "Latency that so many percent of the window's requests did not exceed.", *_OBJECTIVE),
    _gauge(
        "latency_saturated",
        "1 when that latency lies past the last finite bound of vLLM's histogram: it is at least the value given.",
        *_OBJECTIVE,
    ),
    _gauge("latency_samples", "Samples of a latency in the window.", "latency"),
    _gauge("objective_bound_seconds", "The bound that an objective sets.", *_OBJECTIVE),
    _gauge("objective_allowed_ratio", "Share of samples that may lie above the bound.", *_OBJECTIVE),
    _gauge("objective_over_ratio", "Share of samples above the bound in the window.", *_OBJECTIVE),
    _gauge("objective_samples", "Samples behind that share.", *_OBJECTIVE),
    _gauge(
        OBJECTIVE_EXCESS,
        "Share of samples over the bound of the objective that is missed most, over the share allowed, beyond noise.",
    ),
    _gauge("objective_proposed", "1 when the daemon proposed the objective, 0 when it is configured.", *_OBJECTIVE),
)

_KNOBS = (
    _gauge("knob_wanted", "What the policy wanted in the last tick; absent when it abstained.", "knob"),
    _gauge("knob_requested", "What was last asked of this boot of the engine, after the guards.", "knob"),
    _gauge("knob_observed", "What the engine read when the last tick began.", "knob", "engine"),
    _gauge("knob_startup", "The engine's start-up value.", "knob", "engine"),
    _gauge("knob_minimum", "The lowest value that the engine takes.", "knob", "engine"),
    _gauge("knob_maximum", "The highest value that the engine takes.", "knob", "engine"),
    _counter(
        "decisions",
        "Decisions taken, one per knob and tick, by what became of them; the history leaves out repeated holds.",
        *("knob", "policy", "status", "reason"),
    ),
)

_DAEMON = (
    _counter("ticks", "Ticks that ended, those that failed included."),
    _counter("ticks_failed", "Ticks that failed."),
    Family(PREFIX + "tick_duration_seconds", "histogram", (), "How long a tick took, waiting for answers included."),
    _gauge("last_tick_timestamp_seconds", "Unix time at which the last tick began that did not fail."),
    _gauge("source_age_seconds", "Seconds since a source last gave a reading; absent: it never did.", "source"),
    _gauge("source_up", "1 when a source gave a reading in the last tick, 0 when it has a problem.", "source"),
    _gauge("lease_remaining_seconds", "Seconds until the engine goes back to its fallback values.", "engine"),
    _counter("lease_expirations", "Leases that ran out since the engine's boot.", "engine"),
    _gauge("history_up", "1 when the history can be written, 0 when it fails and what is to be written waits."),
    _gauge("history_pending", "Rows and other writes that wait to be written."),
    _gauge("history_oldest_wait_seconds", "How long the one that waits longest has waited; 0 when none does."),
    _counter("history_dropped", "Writes given up since the start: as many waited as store.queue allows."),
    _gauge("history_set_aside", "1 when a damaged file was set aside since the start, else 0."),
    _gauge("history_file_bytes", "Size of the history's file; absent with another database than SQLite."),
    _gauge("history_wal_bytes", "Size of its write-ahead log."),
    _info("mode", "What the governor may do.", "mode"),
    _gauge("maintenance", "1 in a maintenance window, in which nothing is changed, else 0."),
    _info("build", "The daemon's version.", "version", "python"),
    _info("engine", "The engine that is steered.", "boot_id", "vllm_version", "plugin_version"),
)

_DEVICES = (
    _gauge("device_up", "1 when a GPU answers, 0 when it answered before and is lost.", "uuid"),
    _gauge("device_utilization_ratio", "Share of time in which any kernel ran.", *_DEVICE),
    _gauge("device_sm_activity_ratio", "Share of SMs that had work.", *_DEVICE),
    _gauge("device_memory_total_bytes", "Memory of the GPU or MIG instance.", *_DEVICE),
    _gauge("device_memory_used_bytes", "Memory in use; with NVML's older call what the driver reserves too.", *_DEVICE),
    _gauge("device_memory_reserved_bytes", "Memory that the driver reserves, where NVML tells it apart.", *_DEVICE),
    _gauge("device_bar1_total_bytes", "BAR1 memory of the card.", *_DEVICE),
    _gauge("device_bar1_used_bytes", "BAR1 memory of the card in use.", *_DEVICE),
    _gauge("device_power_watts", "Power that the card draws.", *_DEVICE),
    _gauge("device_power_limit_watts", "Power limit of the card.", *_DEVICE),
    _counter("device_energy_joules", "Energy of the card since its driver was loaded.", *_DEVICE),
    _gauge("device_temperature_celsius", "Temperature of the card.", *_DEVICE),
    _gauge("device_sm_clock_hertz", "SM clock of the card.", *_DEVICE),
    _gauge("device_memory_clock_hertz", "Memory clock of the card.", *_DEVICE),
    _counter("device_ecc_corrected_errors", "Memory errors of the card that ECC corrected.", *_DEVICE),
    _counter("device_ecc_uncorrected_errors", "Memory errors of the card that ECC could not correct.", *_DEVICE),
)

_ALERTS = (
    _gauge(
        "alerts",
        "1 for each of the daemon's alerts that is pending or firing.",
        "alertname",
        "severity",
        "state",
    ),
    _counter("notifications", "Notifications by what became of them.", "receiver", "result"),
    _gauge("receiver_pending", "Notifications that a receiver has still to be told.", "receiver"),
    _gauge(
        "receiver_failing_seconds", "Seconds that a receiver has taken nothing; 0 while it does not fail.", "receiver"
    ),
    _gauge("receiver_last_success_timestamp_seconds", "Unix time at which a receiver last took one.", "receiver"),
    _counter("receiver_attempts", "Requests to a receiver, tests and repetitions included.", "receiver"),
)

_CHECKS = tuple(Family(check_name(check), "gauge", (), said) for check, said in CHECKS.items())

CATALOGUE: Mapping[str, Family] = {
    family.name: family
    for family in (*map(_signal, SIGNALS), *_LATENCIES, *_KNOBS, *_DAEMON, *_CHECKS, *_ALERTS, *_DEVICES)
}
"""Every series by name."""
