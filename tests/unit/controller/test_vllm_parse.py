"""vLLM's text as a reading: unknown stays unknown, engines are never averaged, one bad number costs one series."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from controller.sensors.vllm import Parser, names
from domain.errors import BadReading
from domain.readings.vllm import VllmReading
from domain.slo import Latency

CAPTURE = Path(__file__).parents[2] / "field" / "data" / "metrics-0.32.txt"
RUNNING = 'vllm:num_requests_running{engine="0"} 3\n'


def parse(text: str) -> VllmReading:
    return Parser().parse(text)


class TestValues:
    def test_everything_is_read_from_what_a_real_vllm_printed_under_load(self) -> None:
        reading = parse(CAPTURE.read_text())
        assert (reading.running, reading.waiting, reading.deferred, reading.asleep) == (16, 8, 0, False)
        assert reading.kv_cache_usage_ratio == pytest.approx(49 / 199)
        assert (reading.requests_finished, reading.requests_failed, reading.requests_rejected) == (440, 0, 0)
        assert (reading.prompt_tokens, reading.generation_tokens, reading.preemptions) == (38418, 10812, 0)
        assert (reading.prefix_cache_queries, reading.prefix_cache_hits) == (38418, 14432)
        assert reading.response_bytes == 305451
        assert {one: histogram.samples for one, histogram in reading.latencies.items()} == {
            Latency.TTFT: 456,
            Latency.ITL: 10356,
            Latency.E2E: 440,
            Latency.QUEUE: 440,
            Latency.INFERENCE: 440,
        }
        assert reading.prompt_lengths is not None
        assert reading.output_lengths is not None
        assert (reading.prompt_lengths.samples, reading.output_lengths.total) == (440, 10560)
        wanted = {**names.GAUGES, **names.COUNTERS, **names.LENGTHS, "asleep": names.AWAKE}
        wanted |= {latency.value: series for latency, series in names.LATENCIES.items()}
        assert reading.series == {field: series.names[0] for field, series in wanted.items()}

    def test_a_second_scrape_reads_the_same_from_lines_it_knows(self) -> None:
        parser, text = Parser(), CAPTURE.read_text()
        assert parser.parse(text) == parser.parse(text)
        moved = text.replace('running{engine="0",model_name="tiny"} 16.0', 'running{engine="0",model_name="tiny"} 5.0')
        assert parser.parse(moved).running == 5

    @pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "-0.5"])
    def test_a_value_that_cannot_be_is_unknown_for_its_own_series_alone(self, value: str) -> None:
        reading = parse(
            f'vllm:num_requests_running{{engine="0"}} {value}\nvllm:num_preemptions_total{{engine="0"}} {value}\n'
            'vllm:num_requests_waiting{engine="0"} 4\n'
        )
        assert (reading.running, reading.preemptions, reading.waiting) == (None, None, 4)

    def test_an_engine_that_says_nonsense_makes_the_sum_and_the_worst_unknown_but_not_the_other_engine(self) -> None:
        reading = parse(
            'vllm:num_requests_running{engine="0"} NaN\nvllm:num_requests_running{engine="1"} 2\n'
            'vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        )
        assert (reading.running, reading.kv_cache_usage_ratio) == (None, None)
        assert [(one.engine, one.running) for one in reading.engines] == [("0", None), ("1", 2)]

    def test_engines_are_in_the_order_of_their_numbers(self) -> None:
        rows = "".join(f'vllm:num_requests_running{{engine="{number}"}} 1\n' for number in (10, 2, 0))
        assert [one.engine for one in parse(rows).engines] == ["0", "2", "10"]

    def test_errors_and_aborts_are_failures_and_every_end_is_finished(self) -> None:
        rows = "".join(
            f'vllm:request_success_total{{engine="0",finished_reason="{reason}"}} {count}\n'
            for reason, count in (("stop", 10), ("length", 5), ("abort", 2), ("error", 1), ("repetition", 4))
        )
        reading = parse(rows)
        assert (reading.requests_finished, reading.requests_failed) == (22, 3)

    def test_of_the_waiting_only_the_deferred_are_deferred(self) -> None:
        rows = (
            'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9\n'
            'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 2\n'
            'vllm:num_requests_waiting_by_reason{engine="1",reason="deferred"} 1\n'
        )
        assert parse(rows).deferred == 3
        assert parse(rows.replace("deferred", "held")).deferred is None

    def test_rejections_are_summed_over_their_reasons(self) -> None:
        rows = "".join(
            f'vllm:admission_rejections_total{{model_name="m",reason="{reason}"}} 3\n'
            for reason in ("max_num_queued_reqs", "max_num_queued_tokens")
        )
        assert parse(rows).requests_rejected == 6

    @pytest.mark.parametrize(("awake", "asleep"), [((1, 1), False), ((1, 0), True), ((0, 0), True)])
    def test_one_engine_that_sleeps_is_sleep(self, awake: tuple[int, int], asleep: bool) -> None:
        rows = "".join(
            f'vllm:engine_sleep_state{{engine="{engine}",sleep_state="awake"}} {value}\n'
            f'vllm:engine_sleep_state{{engine="{engine}",sleep_state="discard_all"}} 0\n'
            for engine, value in enumerate(awake)
        )
        assert parse(rows).asleep is asleep

    def test_bytes_sent_are_summed_over_handlers_and_the_count_of_answers_is_not_among_them(self) -> None:
        rows = (
            'http_response_size_bytes_sum{handler="/v1/completions"} 100\n'
            'http_response_size_bytes_sum{handler="none"} 11\n'
            'http_response_size_bytes_count{handler="/v1/completions"} 7\n'
        )
        assert parse(RUNNING + rows).response_bytes == 111


class TestHistograms:
    BUCKET = "vllm:inter_token_latency_seconds_bucket"
    SUM = 'vllm:inter_token_latency_seconds_sum{{engine="{}"}} {}\n'

    def rows(self, engine: str, counts: tuple[float, ...], bounds: tuple[str, ...] = ("0.01", "0.025", "+Inf")) -> str:
        return "".join(
            f'{self.BUCKET}{{engine="{engine}",le="{le}"}} {count}\n' for le, count in zip(bounds, counts, strict=True)
        )

    def test_several_engines_are_summed_by_bound(self) -> None:
        text = self.rows("0", (1, 3, 4)) + self.rows("1", (0, 1, 6)) + self.SUM.format(0, 1.5) + self.SUM.format(1, 0.5)
        histogram = parse(text).latencies[Latency.ITL]
        assert histogram.counts == (1, 4, 10)
        assert histogram.total == 2.0

    def test_engines_with_different_bounds_have_no_common_histogram(self) -> None:
        text = self.rows("0", (1, 3, 4)) + self.rows("1", (0, 1, 6), ("0.01", "0.05", "+Inf"))
        assert parse(text + self.SUM.format(0, 1.5)).latencies == {}

    @pytest.mark.parametrize("bad", ["NaN", "-1", "+Inf"])
    def test_one_bucket_that_cannot_be_makes_the_histogram_unknown_and_no_other_series(self, bad: str) -> None:
        text = RUNNING + self.rows("0", (1, 3, 4)).replace(" 3\n", f" {bad}\n") + self.SUM.format(0, 1.5)
        reading = parse(text)
        assert (reading.latencies, reading.running) == ({}, 3)

    @pytest.mark.parametrize(
        "rows",
        [
            f'{BUCKET}{{engine="0"}} 4\n',
            f'{BUCKET}{{engine="0",le="wide"}} 4\n',
            f'{BUCKET}{{engine="0",le="0.1"}} 4\n',
        ],
    )
    def test_buckets_without_bound_or_without_the_last_one_are_no_histogram(self, rows: str) -> None:
        assert parse(RUNNING + rows + self.SUM.format(0, 1.5)).latencies == {}

    def test_a_histogram_without_its_sum_is_unknown_since_its_mean_would_be_zero(self) -> None:
        assert parse(self.rows("0", (1, 3, 4))).latencies == {}


class TestText:
    @pytest.mark.parametrize("text", ["", "python_gc_objects_collected_total 3\n", "<html>busy</html>"])
    def test_an_answer_without_vllm_series_is_refused_with_a_hint(self, text: str) -> None:
        with pytest.raises(BadReading, match="disable-log-stats"):
            parse(text)

    @pytest.mark.parametrize(
        "line",
        [
            'vllm:num_requests_running{engine="0" 4',
            'vllm:num_requests_running{engine="0"} four',
            'vllm:num_requests_running{engine="0"}',
            "vllm:num_requests_running",
        ],
    )
    def test_a_broken_line_is_an_error_not_a_zero_and_is_told_the_same_each_time(self, line: str) -> None:
        parser = Parser("http://vllm/metrics")
        parser.parse(RUNNING)
        for _ in range(2):
            with pytest.raises(
                BadReading, match=r"^cannot understand .* a line of vllm:num_requests_running is malformed"
            ):
                parser.parse(line + "\n")

    def test_a_value_with_a_timestamp_is_read_as_the_value(self) -> None:
        parser = Parser()
        for value, stamp in ((4, 1739500000000), (5, 1739500001000)):
            assert parser.parse(f'vllm:num_requests_running{{engine="0"}} {value} {stamp}\n').running == value

    def test_spaces_braces_and_line_separators_inside_a_label_belong_to_the_label(self) -> None:
        for model in ("a b", "a} 7", 'a\\"b', "a\u2028b", "a{b"):
            assert parse(f'vllm:num_requests_running{{engine="0",model_name="{model}"}} 4\n').running == 4

    def test_series_that_begin_like_a_wanted_one_are_not_it(self) -> None:
        reading = parse(RUNNING + 'vllm:num_requests_running_total{engine="0"} 9\nvllm:prompt_tokens_created 1.7e9\n')
        assert (reading.running, reading.prompt_tokens) == (3, None)


def test_what_the_plugin_answers_the_daemon_is_no_clients_traffic() -> None:
    own = 'http_response_size_bytes_sum{handler="/governor/v1"} 400000\n'
    assert parse(RUNNING + own).response_bytes is None
    assert parse(RUNNING + own + 'http_response_size_bytes_sum{handler="/v1/completions"} 7\n').response_bytes == 7


PROCESS = """
import sys
from prometheus_client import Counter, Gauge, Histogram
labels, of_engine = ["model_name", "engine"], {"model_name": "m", "engine": "0"}
running = Gauge("vllm:num_requests_running", "d", labels, multiprocess_mode="mostrecent").labels(**of_engine)
waiting = Gauge("vllm:num_requests_waiting", "d", labels).labels(**of_engine)
prompt = Counter("vllm:prompt_tokens", "d", labels).labels(**of_engine)
ttft = Histogram("vllm:time_to_first_token_seconds", "d", labels, buckets=[0.1, 1]).labels(**of_engine)
if sys.argv[1] != "idle":
    running.set(int(sys.argv[1])); waiting.set(6)
prompt.inc(100)
ttft.observe(0.5)
"""


def test_api_processes_add_up_what_each_counts_and_say_once_what_all_see(tmp_path: Path) -> None:
    """Two real processes write as vLLM's do; one of them is told of the engine, the other holds zeros."""
    for told in ("9", "idle"):
        subprocess.run(
            [sys.executable, "-c", PROCESS, told],
            env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            check=True,
            timeout=60,
        )
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(tmp_path))  # type: ignore[no-untyped-call]
    text = generate_latest(registry).decode()
    assert text.count("vllm:num_requests_waiting{") == 2  # without vLLM's mode a gauge comes once per process
    reading = parse(text)
    assert (reading.running, reading.waiting, reading.prompt_tokens) == (9, 6, 200)
    assert reading.latencies[Latency.TTFT].samples == 2
    assert len(reading.engines) == 1
