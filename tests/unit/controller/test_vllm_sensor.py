"""Parsing vLLM's metrics: unknown stays unknown, and engines are never averaged."""

import pytest

from controller.sensors.vllm import parse
from domain.errors import BadReading
from domain.slo import Latency


def test_counts_are_summed_over_engines_and_the_kv_cache_is_the_fullest() -> None:
    reading = parse(
        'vllm:num_requests_running{engine="0"} 40\nvllm:num_requests_running{engine="1"} 2\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.97\nvllm:kv_cache_usage_perc{engine="1"} 0.10\n'
    )
    assert reading.running == 42
    assert reading.kv_cache_usage_ratio == 0.97


@pytest.mark.parametrize(
    "names", [["gpu_cache_usage_perc"], ["kv_cache_usage_perc"], ["gpu_cache_usage_perc", "kv_cache_usage_perc"]]
)
def test_a_renamed_series_is_read_by_either_name_and_never_summed(names: list[str]) -> None:
    text = "".join(f'vllm:{name}{{engine="0"}} 0.81\n' for name in names)
    assert parse(text).kv_cache_usage_ratio == 0.81


def test_an_absent_series_is_unknown() -> None:
    reading = parse('vllm:num_requests_running{engine="0"} 0\n')
    assert reading.running == 0
    assert reading.preemptions is None
    assert reading.latencies == {}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_a_value_that_cannot_be_is_unknown(value: str) -> None:
    assert parse(f'vllm:num_requests_running{{engine="0"}} {value}\n').running is None


@pytest.mark.parametrize("text", ["", "python_gc_objects_collected_total 3\n", "<html>busy</html>"])
def test_an_answer_without_vllm_series_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadReading, match="disable-log-stats"):
        parse(text)


def test_a_broken_line_is_an_error_not_a_zero() -> None:
    with pytest.raises(BadReading, match="cannot understand"):
        parse('vllm:num_requests_running{engine="0" 4\n')


def test_histograms_of_several_engines_are_summed_by_bound() -> None:
    lines = [
        f'vllm:inter_token_latency_seconds_bucket{{engine="{engine}",le="{le}"}} {count}'
        for engine, counts in (("0", (1, 3, 4)), ("1", (0, 1, 6)))
        for le, count in zip(("0.01", "0.025", "+Inf"), counts, strict=True)
    ]
    lines += [
        'vllm:inter_token_latency_seconds_sum{engine="0"} 1.5',
        'vllm:inter_token_latency_seconds_sum{engine="1"} 0.5',
    ]
    histogram = parse("\n".join(lines)).latencies[Latency.ITL]
    assert histogram.counts == (1, 4, 10)
    assert histogram.total == 2.0


@pytest.mark.parametrize("labels", ['engine="0"', 'le="wide"'])
def test_a_bucket_without_a_usable_bound_is_an_error(labels: str) -> None:
    with pytest.raises(BadReading, match="bucket has no usable bound"):
        parse(f"vllm:inter_token_latency_seconds_bucket{{{labels}}} 4\n")
