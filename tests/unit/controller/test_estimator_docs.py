"""docs/signals.md against the code: every signal is there, as it is."""

from __future__ import annotations

import re
from pathlib import Path

from controller.sensors.vllm import names
from domain.view import SIGNALS

TEXT = (Path(__file__).parents[3] / "docs" / "signals.md").read_text(encoding="utf-8")
UNITS = {
    "_ratio": "ratio",
    "_per_s": "per second",
    "_per_s_mean_1h": "per second",
    "_per_s_peak_1h": "per second",
    "_s": "s",
    "_w": "W",
    "_j": "J",
    "_c": "°C",
    "_tokens": "tokens",
}


def table(section: str) -> list[list[str]]:
    """The rows under a heading, without its head."""
    body = TEXT.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_every_signal_is_documented_once_with_its_meaning() -> None:
    assert {row[0].strip("`"): row[1] for row in table("The signals")} == dict(SIGNALS)
    assert len(table("The signals")) == len(SIGNALS)


def test_the_unit_is_the_end_of_the_name() -> None:
    for name, _, unit, source, unknown in table("The signals"):
        ending = max((e for e in UNITS if name.strip("`").endswith(e)), key=len, default=None)
        assert unit == UNITS[ending] if ending else unit in ("requests", "quotient", "J"), name
        assert source, name
        assert unknown, name


def test_the_original_documents_names_lead_to_signals() -> None:
    rows = table("The names of the original documents")
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert named - {"latencies"} <= set(SIGNALS)
    seeds = " ".join(row[0] for row in rows)
    for name in ("gpu_mem_usage", "batch_size_current", "cache_hit_rate", "gpu_util", "memory_fragmentation"):
        assert f"`{name}`" in seeds
    for name in ("rejected_requests", "latency_slope", "padding_efficiency", "vllm_logs/batch_rebuild"):
        assert f"`{name}`" in seeds


def test_the_series_read_from_vllm_are_those_of_the_sensor() -> None:
    latencies = {latency.value: series for latency, series in names.LATENCIES.items()}
    read = {**names.GAUGES, "asleep": names.AWAKE, **names.COUNTERS, **latencies, **names.LENGTHS}
    told = {row[0].strip("`"): re.findall(r"`([^`]+)`", row[2]) for row in table("What is read from vLLM")}
    assert told == {value: list(series.names) for value, series in read.items()}
