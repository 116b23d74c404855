"""vLLM and how it was started: what each check on it comes out with."""

from __future__ import annotations

from bench.emulated_nvml import cards
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN
from controller.preflight.surroundings import EngineSeen
from domain.errors import BadReading, EngineRefused, EngineUnreachable, PluginMissing
from domain.histogram import Histogram
from domain.knobs import HOT_CACHE_RATIO, LONG_PREFILL_TOKEN_THRESHOLD, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.runtime import Support
from domain.slo import Latency
from tests.preflight_scene import GIB, Cases, Scene, lengths

CASES = Cases()
INF = float("inf")
ITL = Histogram((0.05, 0.075, INF), (900.0, 1000.0, 1000.0), 40.0)


def pool(scene: Scene, tokens: str, cap: float = 64.0) -> None:
    """A KV cache, and 200 requests of 300 tokens on average."""
    scene.see(cache_config={"kv_cache_size_tokens": tokens, "num_gpu_blocks": "100", "block_size": "16"})
    scene.knob(MAX_NUM_SEQS, cap)
    scene.read(prompt_lengths=lengths(le_500=200, total=40_000.0), output_lengths=lengths(le_500=200, total=20_000.0))


for name in ("envelope_cap", "envelope_budget", "hot_ratio", "chunked_prefill"):

    @CASES(name, UNKNOWN, "see the check plugin")
    def no_plugin(_scene: Scene) -> None:
        return


for name in ("prefix_caching", "envelope_kv", "length_spread", "long_context"):

    @CASES(name, UNKNOWN, "see the check metrics")
    def no_metrics(scene: Scene) -> None:
        scene.see(reading=None, metrics_error=BadReading("no series"))


@CASES("metrics", PASS, "carries all of them")
def every_series(scene: Scene) -> None:
    scene.read(kv_cache_usage_ratio=0.2, prefix_cache_queries=1.0, latencies={Latency.E2E: ITL})


@CASES("metrics", WARN, "nothing for cache_hit_rate (vllm:prefix_cache_queries)", "--disable-log-stats")
def a_series_is_missing(scene: Scene) -> None:
    scene.read(kv_cache_usage_ratio=0.2, latencies={Latency.E2E: ITL})


@CASES("metrics", FAIL, "no engine data", "curl -sS http://127.0.0.1:8000/metrics")
def metrics_without_engine_data(scene: Scene) -> None:
    scene.see(reading=None, metrics_error=BadReading("cannot see the engine: no engine data"))


@CASES("metrics", UNKNOWN, "were not asked for")
def metrics_that_nobody_asked_for(scene: Scene) -> None:
    scene.engine = EngineSeen()


@CASES("plugin", PASS, "plugin 0.1.0; live: max_num_seqs")
def live_plugin(scene: Scene) -> None:
    scene.knob(MAX_NUM_SEQS, 64.0)


@CASES("plugin", WARN, "hot_cache_ratio off (prefix caching is off)", "vllm-governor knobs")
def a_knob_is_off(scene: Scene) -> None:
    scene.knob(MAX_NUM_SEQS, 64.0)
    scene.knob(HOT_CACHE_RATIO, None, support=Support.OFF, reason="prefix caching is off")


@CASES("plugin", WARN, "stats.steps: it raised", "vllm-governor knobs")
def a_part_of_it_is_off(scene: Scene) -> None:
    scene.runtime(degraded=("stats.steps: it raised",))


@CASES("plugin", FAIL, "has no governor plugin", "pip install ./engine")
def no_plugin_inside(scene: Scene) -> None:
    scene.see(runtime_error=PluginMissing("vLLM has no governor plugin"))


@CASES("plugin", FAIL, "the token is wrong", "VLLM_GOVERNOR_TOKEN_FILE")
def wrong_token(scene: Scene) -> None:
    scene.see(runtime_error=EngineRefused("the token is wrong"))


@CASES("plugin", UNKNOWN, "cannot reach vLLM")
def vllm_is_away(scene: Scene) -> None:
    scene.see(runtime_error=EngineUnreachable("cannot reach vLLM"))


@CASES("vllm_version", PASS, "vLLM 0.32.0+cpu")
def tried_version(scene: Scene) -> None:
    scene.version("0.32.0+cpu")


@CASES("vllm_version", PASS, "vLLM 0.31.0")
def version_without_the_plugin(scene: Scene) -> None:
    scene.see(version="0.31.0")


@CASES("vllm_version", WARN, "none of those tried", "pip install vllm==")
def newer_version(scene: Scene) -> None:
    scene.version("0.40.0")


@CASES("vllm_version", UNKNOWN, "does not answer")
def no_version(_scene: Scene) -> None:
    return


@CASES("vllm_version", UNKNOWN, "is no release")
def version_of_a_fork(scene: Scene) -> None:
    scene.version("dev")


@CASES("chunked_prefill", PASS, "is on")
def prompts_are_split(scene: Scene) -> None:
    scene.knob(LONG_PREFILL_TOKEN_THRESHOLD, 0.0)


@CASES("chunked_prefill", FAIL, "holds up all others", "--enable-chunked-prefill")
def prompts_are_whole(scene: Scene) -> None:
    reason = "chunked prefill is off, and a threshold would cut prompts all the same"
    scene.knob(LONG_PREFILL_TOKEN_THRESHOLD, None, support=Support.OFF, reason=reason)


@CASES("chunked_prefill", UNKNOWN, "it cannot be read")
def threshold_off_for_another_reason(scene: Scene) -> None:
    scene.knob(LONG_PREFILL_TOKEN_THRESHOLD, None, support=Support.OFF, reason="it cannot be read")


@CASES("prefix_caching", PASS, "is on")
def caching(scene: Scene) -> None:
    scene.see(cache_config={"enable_prefix_caching": "True"})


@CASES("prefix_caching", FAIL, "nothing is reused", "--enable-prefix-caching")
def no_caching(scene: Scene) -> None:
    scene.see(cache_config={"enable_prefix_caching": "False"})


@CASES("prefix_caching", UNKNOWN, "vllm:cache_config_info")
def untold_caching(_scene: Scene) -> None:
    return


@CASES("envelope_cap", PASS, "the A100-80G's batch goes to 64")
def cap_of_the_card(scene: Scene) -> None:
    scene.cards(cards.a100_80g())
    scene.knob(MAX_NUM_SEQS, 64.0)


@CASES("envelope_cap", WARN, "cannot be raised so far", "--max-num-seqs 128")
def small_cap(scene: Scene) -> None:
    scene.cards(cards.h100_pcie())
    scene.knob(MAX_NUM_SEQS, 64.0)


@CASES("envelope_cap", WARN, "never used", "--max-num-seqs 32")
def large_cap(scene: Scene) -> None:
    scene.cards(cards.rtx_4090())
    scene.knob(MAX_NUM_SEQS, 256.0)


@CASES("envelope_cap", FAIL, "nowhere to grow", "--max-num-seqs 64")
def cap_of_the_rollback(scene: Scene) -> None:
    scene.knob(MAX_NUM_SEQS, 8.0)


@CASES("envelope_cap", FAIL, "nowhere to grow", "--max-num-seqs 32")
def cap_of_the_rollback_on_a_small_card(scene: Scene) -> None:
    scene.cards(cards.rtx_4090())
    scene.knob(MAX_NUM_SEQS, 8.0)


@CASES("envelope_cap", NOT_APPLICABLE, "no row for NVIDIA GH200")
def cap_of_another_card(scene: Scene) -> None:
    scene.cards(cards.gh200())
    scene.knob(MAX_NUM_SEQS, 64.0)


@CASES("envelope_budget", PASS, "--max-num-batched-tokens 8192")
def budget_of_the_card(scene: Scene) -> None:
    scene.cards(cards.a100_80g())
    scene.knob(MAX_NUM_BATCHED_TOKENS, 8192.0)


@CASES("envelope_budget", WARN, "more than 8192, which is what an A100-80G bears", "--max-num-batched-tokens 8192")
def budget_beyond_the_card(scene: Scene) -> None:
    scene.cards(cards.a100_80g())
    scene.knob(MAX_NUM_BATCHED_TOKENS, 16384.0)


@CASES("envelope_budget", WARN, "no row of the seeds' table", "--max-num-batched-tokens 4096")
def small_budget(scene: Scene) -> None:
    scene.cards(cards.h100_pcie())
    scene.knob(MAX_NUM_BATCHED_TOKENS, 2048.0)


@CASES("envelope_budget", NOT_APPLICABLE, "NVML is not available")
def budget_without_a_gpu(scene: Scene) -> None:
    scene.knob(MAX_NUM_BATCHED_TOKENS, 2048.0)


@CASES("envelope_kv", PASS, "67 requests of 300 tokens")
def cache_that_is_large_enough(scene: Scene) -> None:
    pool(scene, "20000")


@CASES("envelope_kv", WARN, "20 requests of 300 tokens", "--max-num-seqs 20")
def cache_that_is_too_small(scene: Scene) -> None:
    pool(scene, "6000")


@CASES("envelope_kv", WARN, "the KV cache holds 1600 tokens", "--max-num-seqs 5")
def cache_told_in_blocks(scene: Scene) -> None:
    pool(scene, "None")


@CASES("envelope_kv", WARN, ", 40 GiB beside 32 GiB for weights", "--max-num-seqs 20")
def what_else_takes_memory(scene: Scene) -> None:
    scene.cards(cards.a100_80g())
    pool(scene, "6000")
    scene.see(pool_bytes=40.0 * GIB)


@CASES("envelope_kv", FAIL, "not one fits", "--gpu-memory-utilization")
def cache_for_nobody(scene: Scene) -> None:
    pool(scene, "200")


@CASES("envelope_kv", NOT_APPLICABLE, "no attention")
def model_without_attention(scene: Scene) -> None:
    scene.see(cache_config={"is_attention_free": "True"})


@CASES("hot_ratio", PASS, "35%, inside 30% to 40%")
def hot_tier(scene: Scene) -> None:
    scene.knob(HOT_CACHE_RATIO, 0.0, 0.35)


@CASES("hot_ratio", WARN, "50%, outside 30% to 40%", "vllm-governor set hot_cache_ratio=0.3")
def large_hot_tier(scene: Scene) -> None:
    scene.knob(HOT_CACHE_RATIO, 0.0, 0.5)


@CASES("hot_ratio", WARN, "no hot tier now", "vllm-governor set hot_cache_ratio=0.3")
def no_hot_tier(scene: Scene) -> None:
    scene.knob(HOT_CACHE_RATIO, 0.0)


@CASES("hot_ratio", NOT_APPLICABLE, "prefix caching is off")
def no_tiers(scene: Scene) -> None:
    scene.knob(HOT_CACHE_RATIO, None, support=Support.OFF, reason="prefix caching is off")
