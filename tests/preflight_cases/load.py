"""The load, the objectives and the alerts: what each check on them comes out with."""

from __future__ import annotations

from bench.emulated_nvml import cards
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN
from domain.histogram import Histogram
from domain.slo import Latency
from tests.preflight_scene import Cases, Scene, lengths

CASES = Cases()
ITL = Histogram((0.05, 0.075, float("inf")), (900.0, 1000.0, 1000.0), 40.0)


def histograms(scene: Scene, version: str = "0.32.0", bound_s: float = 0.055) -> None:
    scene.plain["slo"] = {"inter_token_latency": {"bound_s": bound_s}}
    scene.read(latencies={Latency.ITL: ITL})
    scene.version(version)


for name in ("length_spread", "long_context"):

    @CASES(name, UNKNOWN, "99 requests have finished; it takes 100")
    def too_few(scene: Scene) -> None:
        scene.read(prompt_lengths=lengths(le_100=99))


def rate(scene: Scene, requests_per_s: float | None, waiting: float) -> None:
    scene.cards(cards.a100_80g())
    scene.read(waiting=waiting)
    scene.see(requests_per_s=requests_per_s, rate_over="30 s")


@CASES("expected_qps", PASS, "72 requests/s over 30 s, A100-80G: 60 to 80 expected")
def as_expected(scene: Scene) -> None:
    rate(scene, 72.0, 4.0)


@CASES("expected_qps", PASS, "no more is asked of it")
def little_load(scene: Scene) -> None:
    rate(scene, 5.0, 0.0)


@CASES("expected_qps", WARN, "and 30 wait", "vllm-governor status")
def slow_with_a_queue(scene: Scene) -> None:
    rate(scene, 20.0, 30.0)


@CASES("expected_qps", UNKNOWN, "not measured yet")
def not_measured(scene: Scene) -> None:
    rate(scene, None, 0.0)


@CASES("histogram_bounds", NOT_APPLICABLE, "no objective is set")
def no_objective(_scene: Scene) -> None:
    return


@CASES("histogram_bounds", PASS, "on each of 1 objectives")
def bound_on_the_objective(scene: Scene) -> None:
    histograms(scene, bound_s=0.05)


@CASES("histogram_bounds", WARN, "between 0.05 and 0.075 s", '{"inter_token_latency": [0.05, 0.055, 0.075]}')
def objective_between_bounds(scene: Scene) -> None:
    histograms(scene)


@CASES("histogram_bounds", WARN, "vLLM 0.31.0 cannot have other buckets")
def objective_between_bounds_of_an_older_vllm(scene: Scene) -> None:
    histograms(scene, "0.31.0")


@CASES("histogram_bounds", UNKNOWN, "no histogram of inter_token_latency")
def no_histogram(scene: Scene) -> None:
    histograms(scene)
    scene.read(latencies={})


@CASES("length_spread", PASS, "at most 2")
def alike(scene: Scene) -> None:
    scene.read(prompt_lengths=lengths(le_100=0, le_110=200))


@CASES("length_spread", WARN, "more than 2", "vllm-governor set length_grouping=1")
def unlike(scene: Scene) -> None:
    scene.read(prompt_lengths=lengths(le_10=50, le_100=50, le_1000=100))


@CASES("long_context", PASS, "0 of 200 prompts were surely past 8192 tokens")
def short_prompts(scene: Scene) -> None:
    scene.read(prompt_lengths=lengths(le_5000=100, le_10000=100, le_20000=0))


@CASES("long_context", PASS, "KV offload: 16.0")
def long_prompts_with_offload(scene: Scene) -> None:
    scene.read(prompt_lengths=lengths(le_10000=150, le_16000=50, le_20000=0))
    scene.see(cache_config={"kv_offloading_size": "16.0"})


@CASES("long_context", WARN, "50 of 200 prompts", "--kv-offloading-size")
def long_prompts(scene: Scene) -> None:
    scene.read(prompt_lengths=lengths(le_10000=150, le_16000=50, le_20000=0))


@CASES("long_context", WARN, "3 past 16384", "--kv-offloading-size")
def longer_prompts(scene: Scene) -> None:
    scene.read(prompt_lengths=lengths(le_10000=197, le_20000=0, le_50000=3))
    scene.see(cache_config={"kv_offloading_size": "16.0"})


@CASES("real_time", NOT_APPLICABLE, "no objective")
def nothing_promised(scene: Scene) -> None:
    scene.plain["slo"] = {"inter_token_latency": {"bound_s": 0.02}}


@CASES("real_time", PASS, "within 2000 ms")
def seconds_promised(scene: Scene) -> None:
    scene.plain["slo"] = {"time_to_first_token": {"bound_s": 2.0}}


@CASES("real_time", WARN, "under 50 ms")
def hard_real_time(scene: Scene) -> None:
    scene.plain["slo"] = {"e2e_request_latency": {"bound_s": 0.049}}


def rules(scene: Scene, **changed: object) -> None:
    scene.plain["policies"] = {"alert_thresholds": {"rules": {"gpu_memory": changed}}}


@CASES("alert_thresholds", PASS, "in force as the seeds ask")
def shipped_rules(_scene: Scene) -> None:
    return


@CASES("alert_thresholds", PASS, "in force as the seeds ask")
def stricter_rule(scene: Scene) -> None:
    rules(scene, threshold=0.8)


@CASES("alert_thresholds", WARN, "laxer than the seeds ask: gpu_memory", "policies reset alert_thresholds")
def laxer_rule(scene: Scene) -> None:
    rules(scene, threshold=0.97)


@CASES("alert_thresholds", WARN, "laxer than the seeds ask: gpu_memory", "policies reset alert_thresholds")
def later_rule(scene: Scene) -> None:
    rules(scene, for_s=3600)


@CASES("alert_thresholds", FAIL, "switched off: gpu_memory", "policies reset alert_thresholds")
def rule_that_is_off(scene: Scene) -> None:
    rules(scene, enabled=False)
