"""The seeds' trees for a swinging load, a jump of latency and a drop of throughput; and which part breaks an objective.

Belongs here: those trees. Never: the engine's own state, memory.
"""

from __future__ import annotations

from domain.diagnosis import Cause
from domain.knobs import HOT_CACHE_RATIO
from policies.diagnosis.finding import Finding, Patient, figure, percent
from policies.ternary import above, at_least, at_most, below, both, either, negated
from policies.verdict import Verdict, judge


def find(patient: Patient) -> tuple[Finding, ...]:
    """All leaves."""
    return (*_swing(patient), _regrouping(patient), *_drop(patient), *_objectives(patient))


def _swing(patient: Patient) -> tuple[Finding, ...]:
    """QPS swings by over 30 %: the growth factor, or the mix of hot requests."""
    s, view = patient.settings, patient.view
    swing, factor = view.requests_per_s_swing_ratio, patient.growth_factor
    swings, steady = above(swing, s.swing_ratio), at_most(swing, s.swing_clear_ratio)
    told = f"The request rate swings by {percent(swing)}"
    evidence = {"requests_per_s_swing_ratio": swing, "growth_factor": factor}
    fast, slow = above(factor, s.growth_factor_max), below(factor, s.growth_factor_min)
    corrected = (
        "batch_resize uses growth_factor_stable instead; set growth_factor within its range ([policies.batch_resize])."
    )
    hot, knob = view.hot_requests_ratio, patient.view.knob(HOT_CACHE_RATIO)
    ratio = knob.value if knob is not None else None
    return (
        Finding(
            Cause.GROWTH_TOO_FAST,
            both(swings, fast),
            either(steady, negated(fast)),
            f"{told} and the growth factor {figure(factor)} is over {s.growth_factor_max:g}.",
            corrected,
            evidence,
        ),
        Finding(
            Cause.GROWTH_TOO_SLOW,
            both(swings, slow),
            either(steady, negated(slow)),
            f"{told} and the growth factor {figure(factor)} is under {s.growth_factor_min:g}.",
            corrected,
            evidence,
        ),
        Finding(
            Cause.HOT_MIX_ABOVE_RATIO,
            both(swings, above(hot, s.hot_requests_ratio)),
            either(steady, at_most(hot, s.hot_requests_ratio)),
            f"{told} and {percent(hot)} of the requests are hot (over {s.hot_requests_ratio:.0%}).",
            "stability raises hot_cache_ratio by a step, inside the range of [policies.cache_ratio]."
            if knob is not None
            else "This engine has no hot tier to widen: see hot_cache_ratio in GET /governor/v1/runtime.",
            {"requests_per_s_swing_ratio": swing, "hot_requests_ratio": hot, "hot_cache_ratio": ratio},
        ),
    )


def _regrouping(patient: Patient) -> Finding:
    """Latency jumps: did the admission window reorder arrivals?"""
    s, view = patient.settings, patient.view
    slope, regrouped = view.latency_slope_ratio, view.regroupings_per_s
    return Finding(
        Cause.REGROUPING,
        both(above(slope, s.latency_jump_ratio), at_least(regrouped, s.regroupings_per_s)),
        either(at_most(slope, s.latency_jump_clear_ratio), at_most(regrouped, 0)),
        f"P99 rose by {percent(slope)} within a minute while the admission window reordered arrivals "
        f"{figure(regrouped)} times a second.",
        "Switch length_grouping off, or shorten admission_delay_ms ([policies.token_budget]).",
        {"latency_slope_ratio": slope, "regroupings_per_s": regrouped},
    )


def _drop(patient: Patient) -> tuple[Finding, Finding]:
    """Throughput drops under load: prompts of very different length, or requests that run one by one."""
    s, view = patient.settings, patient.view
    now, usual = patient.tokens_per_s, patient.usual_tokens_per_s
    share = None if now is None or usual is None or usual <= 0 else 1.0 - now / usual
    loaded = above(view.demand, 0.0)
    drops, back = both(above(share, s.throughput_drop_ratio), loaded), at_most(share, s.throughput_clear_ratio)
    spread, batch = view.prompt_spread, view.batch_size_current
    serial = both(below(batch, s.serial_batch), at_least(view.waiting, 1.0))
    told = f"Throughput is {figure(now)} tokens/s, {percent(share)} under the usual {figure(usual)}"
    evidence = {"tokens_per_s": now, "usual_tokens_per_s": usual, "demand": view.demand}
    return (
        Finding(
            Cause.LENGTH_SPREAD,
            both(drops, above(spread, s.length_spread)),
            either(back, at_most(spread, s.length_spread), negated(loaded)),
            f"{told}, and long prompts are {figure(spread)} times as long as short ones.",
            "length_grouping and long_prefill_token_threshold keep them apart ([policies.token_budget]); for good, "
            "send long prompts to another engine.",
            evidence | {"prompt_spread": spread},
        ),
        Finding(
            Cause.SERIAL_FALLBACK,
            both(drops, serial),
            either(back, negated(serial)),
            f"{told}: a step holds {figure(batch)} requests while {figure(view.waiting)} wait.",
            "Requests run one by one: look at the cap (max_num_seqs), the KV cache and vLLM's log.",
            evidence
            | {"batch_size_current": batch, "waiting": view.waiting, "kv_cache_usage_ratio": view.kv_cache_usage_ratio},
        ),
    )


def _objectives(patient: Patient) -> tuple[Finding, Finding]:
    """An objective is missed: by waiting or by running? One needs room, the other a smaller batch."""
    verdicts = [judge(patient.view, slo) for slo in patient.view.slos]
    share = percent(patient.view.queue_share_ratio)
    return (
        _objective(
            Cause.QUEUE_BOUND,
            [v for v in verdicts if v.queue_bound is not False],
            f"because requests wait ({share} of their time)",
            "batch_resize raises the cap where there is room; load_shed bounds the queue where there is none.",
        ),
        _objective(
            Cause.INFERENCE_BOUND,
            [v for v in verdicts if v.queue_bound is not True],
            f"while requests run (waiting takes {share} of their time)",
            "token_budget lowers the budget first, batch_resize the cap second.",
        ),
    )


def _objective(cause: Cause, verdicts: list[Verdict], how: str, action: str) -> Finding:
    known = [v for v in verdicts if v.measured]
    if not verdicts:
        return Finding(cause, False, True, "No such objective.", None)
    if not known:
        return Finding(cause, None, None, "No objective has enough samples.", None)
    worst = max(known, key=lambda v: v.excess)
    begins = both(worst.breached, None if worst.queue_bound is None else True)
    evidence = {f"{worst.slo.latency}_over_ratio": worst.over_ratio, f"{worst.slo.latency}_samples": worst.samples}
    return Finding(cause, begins, worst.excess <= 0.5, f"{_capital(worst.describe())}, {how}.", action, evidence)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
