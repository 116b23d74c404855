"""The seeds' tree for memory that runs out, and what else is wrong with memory.

Belongs here: budget, hot ratio, allocator, thrashing. Never: what relieves it (emergency_purge, token_budget, the cap).
"""

from __future__ import annotations

from domain.diagnosis import Cause
from domain.knobs import HOT_CACHE_RATIO, MAX_NUM_BATCHED_TOKENS
from domain.snapshot import Source
from policies import profiles
from policies.diagnosis.finding import Finding, Patient, figure, percent
from policies.ternary import above, at_least, at_most, below, both, either, negated


def find(patient: Patient) -> tuple[Finding, ...]:
    """Root: effective memory. Leaves: the budget over what the card bears, the hot tier too large, else the rest."""
    s, view = patient.settings, patient.view
    known = patient.fresh(Source.GPU)
    memory = view.effective_memory_ratio if known else None
    tight, relaxed = above(memory, s.memory_ratio), at_most(memory, s.memory_clear_ratio)
    return (
        _budget(patient, tight, relaxed),
        _hot_ratio(patient, tight, relaxed),
        _allocator(patient, tight, relaxed),
        _thrashing(patient),
    )


def _budget(patient: Patient, tight: bool | None, relaxed: bool | None) -> Finding:
    view, limit = patient.view, patient.settings.a100_budget_tokens
    too_large = _budget_too_large(patient)
    knob = patient.view.knob(MAX_NUM_BATCHED_TOKENS)
    value = knob.value if knob is not None else None
    return Finding(
        Cause.BUDGET_BEYOND_CARD,
        both(tight, too_large),
        either(relaxed, negated(too_large)),
        f"GPU memory is {percent(view.effective_memory_ratio)} used and max_num_batched_tokens {figure(value, '.0f')} "
        f"is over the {limit} that an A100-80G bears.",
        f"token_budget lowers it step by step; start vLLM with --max-num-batched-tokens {limit}.",
        {"effective_memory_ratio": view.effective_memory_ratio, "max_num_batched_tokens": value},
    )


def _budget_too_large(patient: Patient) -> bool | None:
    """Only for the card whose limit is known."""
    knob = patient.view.knob(MAX_NUM_BATCHED_TOKENS)
    if not patient.view.gpu_names or knob is None or knob.value is None:
        return None
    if profiles.of_engine(patient.view.gpu_names) is not profiles.A100_80G:
        return False
    return knob.value > patient.settings.a100_budget_tokens


def _hot_ratio(patient: Patient, tight: bool | None, relaxed: bool | None) -> Finding:
    """Under tight memory or a thrashing cache."""
    view, s = patient.view, patient.settings
    knob = patient.view.knob(HOT_CACHE_RATIO)
    value = knob.value if knob is not None else None
    too_high = above(value, s.hot_ratio_max)
    full = both(*_thrown_out(patient))
    roomy = either(relaxed, at_most(view.kv_cache_usage_ratio, s.kv_clear_ratio))
    return Finding(
        Cause.HOT_RATIO_TOO_HIGH,
        both(either(tight, full), too_high),
        either(roomy, negated(too_high)),
        f"hot_cache_ratio is {figure(value)}, over the {s.hot_ratio_max:g} of the seeds' range, while GPU memory is "
        f"{percent(view.effective_memory_ratio)} and the KV cache {percent(view.kv_cache_usage_ratio)} used.",
        "cache_ratio moves it back into its range; check the bounds in [policies.cache_ratio].",
        {
            "hot_cache_ratio": value,
            "effective_memory_ratio": view.effective_memory_ratio,
            "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
            "preemptions_per_s": view.preemptions_per_s,
        },
    )


def _allocator(patient: Patient, tight: bool | None, relaxed: bool | None) -> Finding:
    """Split memory; or tight memory outside the KV pool that neither leaf above explains."""
    view, s = patient.view, patient.settings
    hot = patient.view.knob(HOT_CACHE_RATIO)
    explained = bool(_budget_too_large(patient)) or bool(above(hot.value if hot else None, s.hot_ratio_max))
    kv = view.kv_cache_usage_ratio
    pool_full = at_least(kv, s.kv_full_ratio)
    outside = both(tight, not explained, negated(pool_full))
    split = above(view.allocator_fragmentation_ratio, s.fragmentation_ratio)
    whole = at_most(view.allocator_fragmentation_ratio, s.fragmentation_clear_ratio)
    return Finding(
        Cause.ALLOCATOR_PRESSURE,
        either(split, outside),
        _over(patient, relaxed, whole),
        f"Memory outside the KV cache: GPU memory is {percent(view.effective_memory_ratio)} used, "
        f"{percent(view.allocator_fragmentation_ratio)} of the allocator's is split and unused.",
        "emergency_purge and token_budget act while it is tight. For good: lower --gpu-memory-utilization, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, AWQ or FP8 weights.",
        {
            "effective_memory_ratio": view.effective_memory_ratio,
            "gpu_memory_usage_ratio": view.gpu_memory_usage_ratio,
            "allocator_fragmentation_ratio": view.allocator_fragmentation_ratio,
        },
    )


def _over(patient: Patient, relaxed: bool | None, whole: bool | None) -> bool | None:
    """What this engine cannot tell (unified memory, a CPU) has not to be over; what is unknown for now has."""
    view = patient.view
    gpus_well = patient.fresh(Source.GPU) or Source.GPU not in view.ages_s
    stats_well = patient.fresh(Source.STATS) or Source.STATS not in view.ages_s
    if relaxed is None and gpus_well and whole is not None:
        relaxed = True
    if whole is None and stats_well and relaxed is not None:
        whole = True
    return both(relaxed, whole)


def _thrown_out(patient: Patient) -> tuple[bool | None, bool | None]:
    """Whether the KV cache is full, and whether requests are thrown out of it."""
    view, s = patient.view, patient.settings
    kv, thrown = view.kv_cache_usage_ratio, view.preemptions_per_s
    return at_least(kv, s.kv_full_ratio), at_least(thrown, s.preemptions_per_s)


def _thrashing(patient: Patient) -> Finding:
    view, s = patient.view, patient.settings
    thrown = view.preemptions_per_s
    return Finding(
        Cause.KV_THRASHING,
        both(*_thrown_out(patient)),
        either(
            at_most(view.kv_cache_usage_ratio, s.kv_clear_ratio),
            below(thrown, s.preemptions_per_s / 2),
        ),
        f"The KV cache is {percent(view.kv_cache_usage_ratio)} used by {figure(view.running)} running requests and "
        f"{figure(thrown)} requests/s are thrown out of it and computed again.",
        "batch_resize steps the cap down towards what the cache holds.",
        {
            "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
            "preemptions_per_s": thrown,
            "running": view.running,
            "waiting": view.waiting,
        },
    )
