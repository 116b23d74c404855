"""What the policies see: one frozen picture of now, with rates and windows already worked out.

Belongs here: values a policy, an alert or a person may rest a decision on, each named and explained once. Never: the
history they came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from domain.capacity import Capacity
from domain.histogram import Histogram
from domain.readings.engine import StepSums
from domain.runtime import EngineRuntime, Knob
from domain.slo import Latency, Slo
from domain.snapshot import Source

_HELP = "help"


def _signal(said: str) -> Any:
    """A number that `signals()` lists; `said` is its meaning and source, in one sentence."""
    return field(default=None, metadata={_HELP: said})


@dataclass(frozen=True, slots=True)
class View:
    """`now_s` is monotonic seconds. None means unknown; a policy that needs an unknown value abstains.

    The unit is the end of a signal's name: `_ratio` (0 to 1), `_s`, `_per_s`, `_tokens`, `_bytes`, `_w`, `_j`, `_c`.
    """

    now_s: float
    runtime: EngineRuntime | None = None
    slos: tuple[Slo, ...] = ()
    window_s: float = 0.0
    """Length of the window that rates and latencies rest on; it never reaches back before the last change."""
    latencies: Mapping[Latency, Histogram] = field(default_factory=dict)
    """What completed inside the window."""
    completed: Mapping[Latency, Histogram] = field(default_factory=dict)
    """What completed since the view before. Disjoint, so that two stretches of time can be compared; empty where there
    was no new reading.
    """
    completed_s: float | None = None
    """How many seconds `completed` covers."""
    steps: StepSums | None = None
    """Engine steps since the view before, summed over engine cores: what the capacity model is fitted from. Disjoint,
    so that no step is learned twice; None where the plugin gave no new reading.
    """
    capacity: Capacity | None = None
    """The fitted model of this engine; None before anything was fitted."""
    gpu_names: tuple[str, ...] = ()
    """NVML's names of the GPUs that the engine uses; empty: not known."""
    ages_s: Mapping[Source, float] = field(default_factory=dict)
    """Seconds since a source last gave a reading; absent: it never did."""
    problems: Mapping[Source, str] = field(default_factory=dict)
    """Why a source gives nothing now."""
    asleep: bool | None = None
    """Any engine core sleeps (vLLM's sleep mode)."""
    prompt_spread: float | None = None
    """Long over short prompts of late: the 90th percentile of their tokens over the 10th (plugin)."""

    # What the engine holds now.
    running: float | None = _signal("Requests running, over all engine cores (vLLM).")
    waiting: float | None = _signal("Requests waiting (vLLM), those that the admission window holds included.")
    held: float | None = _signal("Waiting requests that the admission window holds back (plugin).")
    demand: float | None = _signal("Requests that wait for room: waiting less those held and deferred.")
    deferred: float | None = _signal(
        "Waiting requests that wait for something other than room (vLLM's reason deferred)."
    )
    oldest_waiting_s: float | None = _signal(
        "Age of the oldest request without a token that is not running (plugin); 0 when nobody waits."
    )
    kv_cache_usage_ratio: float | None = _signal("KV cache in use, of the fullest engine core (vLLM).")
    batch_size_current: float | None = _signal("Requests per engine step, mean over the window (plugin), else running.")

    # Rates over the window.
    requests_per_s: float | None = _signal("Requests finished a second (vLLM).")
    prompt_tokens_per_s: float | None = _signal("Prompt tokens processed a second (vLLM).")
    generation_tokens_per_s: float | None = _signal("Tokens generated a second (vLLM).")
    preemptions_per_s: float | None = _signal("Running requests thrown back to the queue a second (vLLM).")
    failed_ratio: float | None = _signal("Share of finished requests that ended in an error or an abort (vLLM).")
    rejected_ratio: float | None = _signal(
        "Requests turned away at a queue limit over those finished and turned away (vLLM 0.32)."
    )
    response_bytes_per_s: float | None = _signal(
        "Response bytes a second of non-streaming answers (vLLM's API server)."
    )
    mean_prompt_tokens: float | None = _signal("Mean prompt length of finished requests.")
    mean_output_tokens: float | None = _signal("Mean output length of finished requests.")
    queue_share_ratio: float | None = _signal("Mean queue time over mean end-to-end latency.")
    goodput_ratio: float | None = _signal("Share of finished requests that met every objective.")
    requests_per_s_swing_ratio: float | None = _signal(
        "Swing of the request rate: (highest - lowest) / mean of its ten-second means over five minutes."
    )
    latency_slope_ratio: float | None = _signal(
        "P99 end-to-end of the last minute over that of the minute before, less 1."
    )
    latency_imbalance: float | None = _signal(
        "Slowest tenth over fastest tenth of end-to-end latency among requests of the same length class, worst class."
    )

    # The cache.
    cache_hit_ratio: float | None = _signal(
        "Prefix cache hit tokens over looked-up tokens, recomputation after preemption discounted; unknown without any."
    )
    hot_requests_ratio: float | None = _signal(
        "Share of admitted requests that found a beginning of their prompt (plugin)."
    )
    hot_blocks_ratio: float | None = _signal("Share of free cached blocks in the hot tier (plugin).")
    evictions_per_s: float | None = _signal("Cached blocks emptied for another request a second (plugin).")
    reallocations_per_s: float | None = _signal("Evictions and preemptions a second: KV contents lost (plugin).")
    kv_fragmentation_ratio: float | None = _signal("Empty slots in allocated KV blocks (plugin).")
    allocator_fragmentation_ratio: float | None = _signal("Inactive split bytes over reserved bytes of torch (plugin).")
    memory_fragmentation_ratio: float | None = _signal("The larger of the KV and the allocator fragmentation.")

    # The engine's steps.
    batch_utilization_ratio: float | None = _signal(
        "Tokens scheduled over token budget, steps that held tokens (plugin)."
    )
    padding_ratio: float | None = _signal("Padding among the tokens of CUDA-graph steps (plugin, --cudagraph-metrics).")
    regroupings_per_s: float | None = _signal("Times a second that the admission window reordered arrivals (plugin).")
    stalled_s: float | None = _signal(
        "Seconds that requests have been running while no token came; 0 while tokens come."
    )

    # The GPUs that the engine uses.
    gpu_utilization_ratio: float | None = _signal("Share of time in which a kernel ran, busiest GPU (NVML).")
    sm_activity_ratio: float | None = _signal("Share of SMs at work, mean over GPUs (NVML GPM).")
    gpu_memory_usage_ratio: float | None = _signal("Memory used over total, fullest GPU (NVML).")
    effective_memory_ratio: float | None = _signal("The same without the idle part of vLLM's KV cache.")
    bar1_usage_ratio: float | None = _signal("BAR1 memory used over total, fullest GPU (NVML).")
    bar1_swing_ratio: float | None = _signal("(Highest - lowest) BAR1 use over five minutes, of its total.")
    gpu_temperature_c: float | None = _signal("Temperature of the hottest GPU (NVML).")
    gpu_power_w: float | None = _signal("Power of the engine's GPUs together, each card once (NVML).")
    gpu_energy_j: float | None = _signal("Energy of the engine's GPUs since the daemon began to watch; never falls.")
    joules_per_token: float | None = _signal("GPU energy over tokens generated in the window; unknown without tokens.")

    # What a Prometheus server remembers.
    requests_per_s_mean_1h: float | None = _signal("Mean request rate over an hour (Prometheus).")
    requests_per_s_peak_1h: float | None = _signal("Highest one-minute request rate within an hour (Prometheus).")
    e2e_p99_1h_s: float | None = _signal("P99 end-to-end latency over an hour (Prometheus).")
    requests_per_s_day_ratio: float | None = _signal(
        "This hour's request rate over yesterday's same hour (Prometheus)."
    )
    e2e_p99_day_ratio: float | None = _signal("This hour's P99 over yesterday's same hour (Prometheus).")

    def knob(self, name: str) -> Knob | None:
        """The knob as the engine reads it now; None where it has none such, or has not answered."""
        return self.runtime.knob(name) if self.runtime is not None else None

    def over_ratio(self, slo: Slo) -> float | None:
        """Share of samples above the objective's bound in the window; None without samples."""
        histogram = self.latencies.get(slo.latency)
        return None if histogram is None else histogram.fraction_above(slo.bound_s)

    def samples(self, latency: Latency) -> float:
        """How many samples the window holds: the evidence behind a quantile or share."""
        histogram = self.latencies.get(latency)
        return 0.0 if histogram is None else histogram.samples

    def signals(self) -> Iterator[tuple[str, float | None]]:
        """Every named number with its value now."""
        for name in SIGNALS:
            yield name, getattr(self, name)


def _is_signal(one: Field[Any]) -> bool:
    return _HELP in one.metadata


SIGNALS: Mapping[str, str] = {one.name: one.metadata[_HELP] for one in fields(View) if _is_signal(one)}
"""Every signal by name, with its meaning: the daemon's metrics, the alerts' expressions and the docs use these."""
