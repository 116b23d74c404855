"""The daemon's own series: what is known is there under one name, what is not known is absent."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from alerts.settings import Kind
from alerts.worker import ReceiverState
from controller.clock import Now
from controller.metrics.exposition import Exposition, registry
from controller.metrics.observed import Observed, Standing
from controller.metrics.series import CATALOGUE, metric_name
from domain.alert import AlertState
from domain.decision import Decision, Mode, Reason, Status
from domain.histogram import Histogram
from domain.readings.gpu import GpuMemory, GpuReading, GpusReading, MemoryApi
from domain.readings.vllm import VllmReading
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot, Source
from domain.view import SIGNALS, View
from policies.alert_thresholds import CHECKS, RULES
from store.writer import WriterState
from tests.programs import need
from tests.views import runtime, samples

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
WALL = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "/etc/vllm-governor/token and s3cret"

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def gpu(index: int = 0, uuid: str = "GPU-a", **changes: Any) -> GpuReading:
    known: dict[str, Any] = {
        "utilization_ratio": 0.9,
        "sm_activity_ratio": 0.5,
        "memory": GpuMemory(80, 60, 18, 2, MemoryApi.V2),
        "bar1_total_bytes": 100,
        "bar1_used_bytes": 5,
        "power_w": 300.0,
        "power_limit_w": 400.0,
        "energy_j": 1e6,
        "temperature_c": 61.0,
        "sm_clock_hz": 1.4e9,
        "memory_clock_hz": 1.5e9,
        "ecc_corrected": 2,
        "ecc_uncorrected": 0,
    }
    return GpuReading(index, uuid, "NVIDIA A100-SXM4-80GB", **(known | changes))


def decision(**changes: Any) -> Decision:
    values: dict[str, Any] = {
        "at": WALL,
        "mode": Mode.AUTO,
        "policy": "batch_resize",
        "knob": "max_num_seqs",
        "old": 8.0,
        "wanted": 20.0,
        "requested": 16.0,
        "observed": 16.0,
        "status": Status.APPLIED,
        "reason": Reason.GROW_DEMAND,
        "sentence": SECRET,
        "evidence": {"why": SECRET},
    }
    return Decision(**(values | changes))


def full_view(**changes: Any) -> View:
    """Every signal has a value of its own."""
    values: dict[str, Any] = {name: 0.25 + number for number, name in enumerate(SIGNALS)}
    values |= {
        "now_s": 100.0,
        "runtime": runtime(),
        "slos": (Slo(Latency.TTFT, 99.9, 2.0),),
        "window_s": 10.0,
        "latencies": {Latency.TTFT: samples(1000, 40, bound_s=2.0)},
        "ages_s": {Source.METRICS: 0.2, Source.GPU: 7.0},
        "problems": {Source.STATS: SECRET},
    }
    return View(**(values | changes))


def observed(view: View | None = None, **readings: Any) -> Observed:
    """A daemon in mode auto that has made three ticks of which one failed."""
    state = Observed(Mode.AUTO, fresh_for_s=16.0)
    known: dict[str, Any] = {
        "vllm": VllmReading(),
        "runtime": runtime(),
        "gpus": GpusReading((gpu(),), lost=("GPU-b",)),
        "problems": {Source.STATS: SECRET},
    }
    state.see(Snapshot(100.0, WALL, **(known | readings)), view or full_view())
    state.decide([decision()])
    state.check(100.0, {check: 0.5 + number for number, check in enumerate(CHECKS)})
    state.rules = lambda: [Standing(RULES[0], AlertState.FIRING), Standing(RULES[1], AlertState.RESOLVED)]
    state.receivers = lambda: {"ops": ReceiverState("ops", Kind.WEBHOOK, pending=2, last_success_at=WALL)}
    state.history = WriterState(pending=3, oldest_wait_s=0.5, file_bytes=4096, wal_bytes=0)
    for seconds, failed in ((0.02, False), (7.0, True), (0.5, False)):
        state.end_tick(seconds, failed=failed)
    return state


def rendered(state: Observed, now_s: float = 100.0) -> str:
    made = CollectorRegistry()
    made.register(Exposition(state, lambda: Now(now_s, WALL)))
    return generate_latest(made).decode()


def series(state: Observed, now_s: float = 100.0) -> Series:
    """Everything exposed, by name without prefix and labels."""
    return {
        (sample.name.removeprefix("vllm_governor_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(rendered(state, now_s))
        for sample in family.samples
    }


def names(found: Mapping[tuple[str, Any], float]) -> set[str]:
    return {re.sub("_(bucket|sum|count)$", "", name) for name, _ in found}


@pytest.mark.parametrize(
    ("signal", "name"),
    [
        ("running", "vllm_governor_running"),
        ("requests_per_s", "vllm_governor_requests_per_second"),
        ("requests_per_s_peak_1h", "vllm_governor_requests_per_second_peak_1h"),
        ("requests_per_s_swing_ratio", "vllm_governor_requests_per_second_swing_ratio"),
        ("oldest_waiting_s", "vllm_governor_oldest_waiting_seconds"),
        ("gpu_power_w", "vllm_governor_gpu_power_watts"),
        ("gpu_energy_j", "vllm_governor_gpu_energy_joules_total"),
        ("joules_per_token", "vllm_governor_joules_per_token"),
        ("gpu_temperature_c", "vllm_governor_gpu_temperature_celsius"),
        ("cache_hit_ratio", "vllm_governor_cache_hit_ratio"),
    ],
)
def test_a_signals_name_spells_out_its_unit(signal: str, name: str) -> None:
    assert metric_name(signal) == name


def test_every_known_signal_is_there_with_its_value_and_its_meaning() -> None:
    found = series(observed())
    text = rendered(observed())
    for number, (signal, said) in enumerate(SIGNALS.items()):
        assert found[metric_name(signal).removeprefix("vllm_governor_"), ()] == 0.25 + number
        assert f"# HELP {metric_name(signal)} {said}\n" in text


def test_when_all_is_known_every_series_of_the_catalogue_is_there_and_no_other() -> None:
    assert {f"vllm_governor_{name}" for name in names(series(observed()))} == set(CATALOGUE)


def test_a_history_that_cannot_be_written_is_down_and_what_waits_is_counted() -> None:
    state = observed()
    state.history = WriterState(pending=7, dropped=2, oldest_wait_s=9.5, problem="cannot write the history: disk full")
    found = series(state)
    assert (found["history_up", ()], found["history_pending", ()], found["history_dropped_total", ()]) == (0, 7, 2)
    assert ("history_file_bytes", ()) not in found


def test_a_tick_that_fails_tells_of_itself_all_the_same() -> None:
    state = Observed(Mode.AUTO, fresh_for_s=16.0)
    state.check(100.0, {"ticks_failed": 3.0, "engine_down_s": 20.0})
    state.end_tick(7.0, failed=True)
    found = series(state)
    assert (found["check_ticks_failed", ()], found["check_engine_down_seconds", ()]) == (3, 20)
    assert "check_ticks_failed" not in names(series(state, now_s=117.0))


def test_what_is_not_known_is_absent() -> None:
    nothing = View(now_s=100.0, latencies={Latency.TTFT: samples(0, 0)}, gpu_power_w=math.nan)
    state = observed(nothing, runtime=None, vllm=None, gpus=None, problems={})
    present = names(series(state))
    assert present.isdisjoint({metric_name(signal).removeprefix("vllm_governor_") for signal in SIGNALS})
    assert present.isdisjoint({"latency_seconds", "knob_observed", "lease_remaining_seconds", "source_up"})
    assert "NaN" not in rendered(state)


def test_before_the_first_tick_the_counts_are_there_and_nothing_else() -> None:
    assert names(series(Observed(Mode.PAUSED))) == {
        *("ticks_total", "ticks_failed_total", "tick_duration_seconds", "mode_info", "build_info")
    }


def test_between_two_ticks_ages_grow_and_the_lease_shrinks() -> None:
    found = series(observed(), now_s=103.0)
    assert found["source_age_seconds", (("source", "gpu"),)] == 10.0
    assert found["lease_remaining_seconds", (("engine", "0"),)] == 11.0


def test_a_loop_that_stands_still_leaves_its_ages_and_counts_and_no_picture_of_now() -> None:
    found = series(observed(), now_s=117.0)
    assert names(found) == {
        *("ticks_total", "ticks_failed_total", "tick_duration_seconds", "mode_info", "build_info"),
        *("decisions_total", "last_tick_timestamp_seconds", "source_age_seconds", "notifications_total"),
        *("receiver_pending", "receiver_failing_seconds", "receiver_attempts_total"),
        "receiver_last_success_timestamp_seconds",
    }
    assert found["last_tick_timestamp_seconds", ()] == WALL.timestamp()


def test_an_objective_tells_its_bound_what_lies_over_it_and_on_how_many_samples() -> None:
    found = series(observed())
    labels = (("latency", "time_to_first_token"), ("percentile", "99.9"))
    assert found["objective_bound_seconds", labels] == 2.0
    assert found["objective_over_ratio", labels] == pytest.approx(0.04)
    assert found["objective_allowed_ratio", labels] == pytest.approx(0.001)
    assert found["objective_samples", labels] == 1000
    assert found["objective_proposed", labels] == 0


def test_a_percentile_past_the_last_bound_is_flagged_and_one_inside_is_not() -> None:
    found = series(observed())

    def of(name: str, percentile: str) -> float:
        return found[name, (("latency", "time_to_first_token"), ("percentile", percentile))]

    assert of("latency_seconds", "95") == pytest.approx(0.95 / 0.96 * 2.0)
    assert of("latency_saturated", "95") == 0
    assert (of("latency_seconds", "99"), of("latency_saturated", "99")) == (2.0, 1)


def test_a_percentile_needs_a_sample_beyond_it() -> None:
    few = full_view(latencies={Latency.TTFT: Histogram((1.0, math.inf), (99.0, 99.0), 50.0)})
    known = {dict(labels)["percentile"] for name, labels in series(observed(few)) if name == "latency_seconds"}
    assert known == {"50", "95"}


def test_a_knob_shows_what_was_wanted_requested_and_observed_apart() -> None:
    found = series(observed())
    assert found["knob_wanted", (("knob", "max_num_seqs"),)] == 20
    assert found["knob_requested", (("knob", "max_num_seqs"),)] == 16
    assert found["knob_observed", (("engine", "0"), ("knob", "max_num_seqs"))] == 8
    assert found["knob_startup", (("engine", "0"), ("knob", "max_num_seqs"))] == 64


def test_a_knob_that_the_engine_cannot_carry_has_no_value() -> None:
    found = series(observed(runtime=runtime(cap=None)))
    assert ("knob_observed", (("engine", "0"), ("knob", "max_num_seqs"))) not in found


def test_a_request_lasts_over_holds_and_ends_with_the_boot_it_was_made_of() -> None:
    state, labels = observed(), (("knob", "max_num_seqs"),)
    state.decide([decision(requested=None, status=Status.HOLD, reason=Reason.HOLD_STEADY)])
    assert series(state)["knob_requested", labels] == 16
    state.see(Snapshot(101.0, WALL, runtime=runtime(boot_id="boot-b")), full_view())
    assert ("knob_requested", labels) not in series(state)


def test_decisions_are_counted_by_what_became_of_them() -> None:
    state = observed()
    state.decide([decision(), decision(status=Status.HOLD, requested=None, reason=Reason.HOLD_STEADY)])
    counted = {dict(k)["status"]: v for (name, k), v in series(state).items() if name == "decisions_total"}
    assert counted == {"applied": 2, "hold": 1}


def test_a_tick_counts_in_its_bucket_and_in_all_that_are_wider() -> None:
    found = series(observed())
    buckets = {dict(k)["le"]: v for (name, k), v in found.items() if name == "tick_duration_seconds_bucket"}
    assert (buckets["0.01"], buckets["0.025"], buckets["0.5"], buckets["5"], buckets["10"]) == (0, 1, 2, 2, 3)
    assert (found["tick_duration_seconds_count", ()], found["tick_duration_seconds_sum", ()]) == (3, 7.52)
    assert (found["ticks_total", ()], found["ticks_failed_total", ()]) == (3, 1)


def test_a_source_is_up_down_or_not_set_up() -> None:
    up = {dict(k)["source"]: v for (name, k), v in series(observed()).items() if name == "source_up"}
    assert up == {"metrics": 1, "runtime": 1, "gpu": 1, "stats": 0}


def test_what_belongs_to_a_card_is_said_once_over_its_mig_instances() -> None:
    """Field case E3: three MIG rows of one card."""
    instances = tuple(gpu(uuid=f"MIG-{i}", parent_uuid="GPU-a", utilization_ratio=None) for i in range(3))
    found = series(observed(gpus=GpusReading(instances)))

    def uuids(name: str) -> list[str]:
        return sorted(dict(labels)["uuid"] for found_name, labels in found if found_name == name)

    assert uuids("device_power_watts") == uuids("device_energy_joules_total") == ["GPU-a"]
    assert uuids("device_memory_used_bytes") == ["MIG-0", "MIG-1", "MIG-2"]
    assert uuids("device_utilization_ratio") == []


def test_a_lost_gpu_is_down_and_tells_nothing_else() -> None:
    up = {dict(k)["uuid"]: v for (name, k), v in series(observed()).items() if name == "device_up"}
    assert up == {"GPU-a": 1, "GPU-b": 0}
    assert sum("GPU-b" in line for line in rendered(observed()).splitlines()) == 1


def test_sentences_paths_and_secrets_are_in_no_label() -> None:
    text = rendered(observed())
    assert "token and" not in text
    assert "/etc/" not in text
    assert SECRET not in text


def test_eight_gpus_and_two_engines_stay_under_four_hundred_series() -> None:
    eight = GpusReading(tuple(gpu(i, f"GPU-{i}") for i in range(8)))
    view = full_view(latencies={latency: samples(1000, 40) for latency in Latency})
    assert 150 < len(series(observed(view, gpus=eight, runtime=runtime(cores=2)))) < 400


def test_a_metric_asked_for_by_name_comes_alone() -> None:
    made = CollectorRegistry()
    made.register(Exposition(observed(), lambda: Now(100.0, WALL)))
    only = made.restricted_registry(["vllm_governor_gpu_power_watts"])
    text = generate_latest(only).decode()
    assert {line.split()[0] for line in text.splitlines()} == {"#", "vllm_governor_gpu_power_watts"}


def test_openmetrics_says_the_same_and_ends_with_eof() -> None:
    made = CollectorRegistry()
    made.register(Exposition(observed(), lambda: Now(100.0, WALL)))
    text = generate_openmetrics(made).decode()  # type: ignore[no-untyped-call]
    assert text.endswith("# EOF\n")
    kinds = {family.name: family.type for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
    assert kinds["vllm_governor_gpu_energy_joules"] == "counter"
    assert kinds["vllm_governor_mode"] == "info"
    assert kinds["vllm_governor_tick_duration_seconds"] == "histogram"


@pytest.fixture
def promtool() -> Path:
    return need("promtool")


def test_promtool_finds_nothing_to_say(promtool: Path) -> None:
    text = generate_latest(registry(replace(observed(full_view(now_s=1e12)), fresh_for_s=math.inf)))
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert b"\nvllm_governor_gpu_power_watts " in text
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")


def test_the_queries_in_the_docs_are_promql_over_series_that_exist(promtool: Path, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```promql\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    queries = [line for line in block.splitlines() if line and not line.startswith("#")]
    assert len(queries) >= 7
    assert set(re.findall(r"vllm_governor_\w+", block)) <= set(CATALOGUE)
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "docs", "rules": rules}]}))  # JSON is YAML
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tables_in_the_docs_are_the_catalogue() -> None:
    told = re.findall(r"^\| `vllm_governor_\w+` \|.*$", DOCS.read_text(), re.MULTILINE)
    rows = [
        f"| `{family.name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} | {family.said} |"
        for family in CATALOGUE.values()
    ]
    wrong = [row for row in rows if row not in told]
    assert not wrong, "docs/metrics.md should say:\n" + "\n".join(wrong)
    assert len(told) == len(rows)


def test_alerts_that_are_pending_or_fire_are_series_and_those_that_are_over_are_not() -> None:
    found = series(observed())
    rule = RULES[0]
    labels = {"alertname": rule.name, "severity": rule.severity.value, "state": "firing"}
    assert [told for name, told in found if name == "alerts"] == [tuple(labels.items())]
