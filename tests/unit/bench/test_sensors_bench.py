"""What the sensors bench counts as truth and as error; no server with vLLM, no timing."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import aiohttp
import pytest

from bench.sensors import replay, report
from bench.sensors.double import DATA, Metrics
from bench.sensors.emulated import Emulated
from bench.sensors.exposition import VLLM_BOUNDS, Exposition, with_bound
from bench.sensors.loads import OBJECTIVES, SHAPES, TYPICAL_S, Shape
from bench.sensors.tick import METRICS, Cost
from bench.sensors.truth import bucket, compare
from controller.engine.wire import parse_runtime
from controller.sensors.vllm.parse import Parser
from domain.histogram import Histogram
from domain.slo import Latency

BOUNDS = (0.1, 0.5, 1.0, math.inf)


def _histogram(samples: Sequence[float], bounds: tuple[float, ...] = BOUNDS) -> Histogram:
    return Histogram(bounds, tuple(float(sum(s <= bound for s in samples)) for bound in bounds), sum(samples))


def test_a_value_on_a_bound_is_in_the_bucket_below_it_and_the_first_bucket_begins_at_nothing() -> None:
    assert bucket(BOUNDS, 0.5) == (0.1, 0.5)
    assert bucket(BOUNDS, 0.05) == (0.0, 0.1)
    assert bucket(BOUNDS, 7.0) == (1.0, math.inf)


def test_the_exact_p99_is_a_sample_and_the_error_is_measured_by_its_bucket() -> None:
    samples = [0.2] * 98 + [0.6, 0.9]
    error = compare(samples, _histogram(samples), 0.5)
    assert error is not None
    assert (error.samples, error.p99_s, error.bucket_s) == (100, 0.6, 0.5)
    assert error.estimate_s == pytest.approx(0.75)
    assert error.of_bucket == pytest.approx(0.3)
    assert error.over == pytest.approx(0.02)
    assert error.over_abs == 0.0


def test_beyond_the_bounds_the_estimate_is_a_floor_that_says_so() -> None:
    samples = [0.2] * 90 + [5.0] * 10
    error = compare(samples, _histogram(samples), 0.5)
    assert error is not None
    assert error.beyond
    assert error.saturated
    assert error.estimate_s == 1.0 < error.p99_s


def test_a_histogram_of_other_samples_is_not_compared() -> None:
    assert compare([0.2, 0.3], _histogram([0.2]), 0.5) is None
    assert compare([], _histogram([]), 0.5) is None


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_shape_is_what_it_is_called(shape: Shape) -> None:
    drawn = next(replay.draws(shape, seed=3))
    assert drawn == next(replay.draws(shape, seed=3))
    for latency, values in drawn.items():
        bounds = (*VLLM_BOUNDS[latency], math.inf)
        held = {bucket(bounds, value) for value in values}
        assert (len(held) == 1) is (shape.name == "one bucket")
        assert any(math.isinf(high) for _, high in held) is (shape.name == "last bucket")


def test_no_objective_lies_on_a_bound_of_vllm_until_one_is_added() -> None:
    for slo in OBJECTIVES:
        assert slo.bound_s not in VLLM_BOUNDS[slo.latency]
        assert slo.bound_s in with_bound(slo.latency, slo.bound_s)


def test_the_sensor_reads_from_the_rendered_text_exactly_what_was_observed() -> None:
    exposition = Exposition(VLLM_BOUNDS)
    exposition.observe({Latency.E2E: [0.4, 3.0], Latency.TTFT: [0.2], Latency.ITL: [0.03]})
    reading = Parser("here").parse(exposition.render())
    assert reading.requests_finished == 2
    assert reading.latencies[Latency.E2E].samples == 2
    assert reading.latencies[Latency.E2E].total == pytest.approx(3.4)
    assert reading.latencies[Latency.TTFT].bounds == (*VLLM_BOUNDS[Latency.TTFT], math.inf)


async def test_an_estimate_errs_by_less_than_a_bucket_and_a_share_is_exact_where_a_bound_lies_on_the_objective() -> (
    None
):
    async with aiohttp.ClientSession() as session:
        cases = [
            case
            for on_bound in (False, True)
            for case in await replay.replay(session, SHAPES[0], on_bound=on_bound, ticks=5, seed=1)
        ]
    assert [case.latency for case in cases] == [*TYPICAL_S] * 2
    for case in cases:
        assert len(case.errors) == 5
        assert all(error.of_bucket <= 1.0 for error in case.errors)
        assert all((error.over_abs == 0.0) is case.on_bound for error in case.errors)
    summary = report.of_replay(cases)
    assert summary["violation_abs_error"] == 0.0
    assert json.loads(json.dumps(summary))["estimates"] == 30


def test_the_played_vllm_keeps_buckets_cumulative_and_lets_no_counter_fall() -> None:
    played, parser = Metrics(METRICS.read_text(encoding="utf-8")), Parser("here")
    before, after = parser.parse(played.render(1)), parser.parse(played.render(2))
    assert after.generation_tokens is not None
    assert before.generation_tokens is not None
    assert after.generation_tokens > before.generation_tokens
    for latency, histogram in after.latencies.items():
        assert list(histogram.counts) == sorted(histogram.counts)
        assert histogram.since(before.latencies[latency]) is not None


def test_the_recorded_documents_are_understood_by_the_daemon() -> None:
    runtime = parse_runtime(json.loads((DATA / "runtime.json").read_text(encoding="utf-8")))
    assert runtime.envelope["max_num_seqs"] == 64


def test_the_cost_of_a_tick_has_the_keys_that_scripts_read() -> None:
    chance = random.Random(1)
    ticks = tuple(chance.uniform(4.0, 6.0) for _ in range(100))
    summary = report.of_tick([Cost(200, ticks, {"metrics": ticks}, 60_000, "one H100, scripted")])
    assert summary["tick_cpu_ms"] == pytest.approx(sum(ticks) / 100, abs=0.01)
    assert summary["tick_cpu_ms_p95"] == pytest.approx(sorted(ticks)[94], abs=0.01)
    assert json.loads(json.dumps(summary))["tick_parts_ms"]["metrics"]["mean"] == summary["tick_cpu_ms"]


def test_a_run_with_fewer_timed_than_the_histogram_holds_is_said_to_have_no_error_not_none_of_it() -> None:
    samples = [0.2] * 98 + [0.6, 0.9]
    one = Emulated(client=None, records=compare(samples, _histogram(samples), 0.5))
    client, records = report.emulated_rows("vLLM", one)
    assert "not comparable" in client
    assert "n  100" in records
    found = report.of_emulated(one)
    assert found["client"] is None
    assert json.loads(json.dumps(found["records"]))["p99_s"] == 0.6
