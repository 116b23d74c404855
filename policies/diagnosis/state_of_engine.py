"""The engine as such: down, asleep, unseen, stuck.

Belongs here: what is not a question of tuning. Never: load, latency.
"""

from __future__ import annotations

from domain.diagnosis import Cause
from domain.snapshot import Source
from policies.diagnosis.finding import Finding, Patient, figure
from policies.ternary import above, at_least, at_most, both, either, negated


def find(patient: Patient) -> tuple[Finding, ...]:
    """All four."""
    return (_down(patient), _asleep(patient), _blind(patient), _stuck(patient))


def _down(patient: Patient) -> Finding:
    """Neither of its two faces answers. Which of the two is broken alone is another thing."""
    view = patient.view
    silent = view.runtime is None and not patient.fresh(Source.METRICS)
    told = view.problems.get(Source.METRICS) or view.problems.get(Source.RUNTIME) or "no answer"
    return Finding(
        Cause.ENGINE_DOWN,
        silent,
        view.runtime is not None or patient.fresh(Source.METRICS),
        f"Neither vLLM's metrics nor its plugin answer: {told}.",
        "Nothing is changed until it is back; then its settings are read and verified anew. See vLLM's own log.",
        {"metrics_age_s": view.ages_s.get(Source.METRICS), "runtime_age_s": view.ages_s.get(Source.RUNTIME)},
        patient.settings.engine_down_s,
        clear_for_s=0.0,
    )


def _asleep(patient: Patient) -> Finding:
    asleep = patient.view.asleep
    return Finding(
        Cause.ENGINE_ASLEEP,
        asleep,
        negated(asleep),
        "The engine sleeps (vLLM's sleep mode): it has given its KV cache back.",
        "Nothing is resized or purged; wake it up with POST /wake_up.",
        for_s=0.0,
        clear_for_s=0.0,
    )


def _blind(patient: Patient) -> Finding:
    view, fresh = patient.view, patient.fresh(Source.METRICS)
    told = view.problems.get(Source.METRICS) or f"the last reading is {figure(view.ages_s.get(Source.METRICS))} s old"
    return Finding(
        Cause.BLIND,
        view.runtime is not None and not fresh,
        fresh or view.runtime is None,
        f"The engine answers, but its metrics say nothing: {told}.",
        "Policies are frozen. Look for --disable-log-stats, a wrong engine.url, or PROMETHEUS_MULTIPROC_DIR.",
        {"metrics_age_s": view.ages_s.get(Source.METRICS)},
        patient.settings.blind_s,
        clear_for_s=0.0,
    )


def _stuck(patient: Patient) -> Finding:
    """No token comes although requests run; or nothing ends while those that hold the slots do not run."""
    view, limit_s = patient.view, patient.settings.no_progress_s
    stalled = at_least(view.stalled_s, limit_s)
    quiet = at_most(view.generation_tokens_per_s, 0)
    idle = at_most(view.running, 0)
    queued = above(view.waiting, 0)
    ends_nothing = at_most(view.requests_per_s, 0)
    held_up = None if view.deferred is None or view.running is None else view.deferred > view.running
    asleep = view.asleep is True
    stuck = either(both(idle, queued, quiet, ends_nothing), both(queued, held_up, ends_nothing))
    if asleep:
        stalled, stuck = False, False
    goes_on = both(either(negated(ends_nothing), negated(queued)), negated(stalled))
    told = f"{figure(view.running)} requests run, {figure(view.waiting)} wait, {figure(view.deferred)} of them deferred"
    return Finding(
        Cause.NO_PROGRESS,
        True if stalled else stuck,
        True if asleep else goes_on,
        f"No progress: {told}; {figure(view.requests_per_s)} end a second, no token for {figure(view.stalled_s)} s.",
        "Restart the engine: no knob helps, and a purge would not either.",
        {
            "running": view.running,
            "waiting": view.waiting,
            "deferred": view.deferred,
            "requests_per_s": view.requests_per_s,
            "stalled_s": view.stalled_s,
            "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
            "gpu_utilization_ratio": view.gpu_utilization_ratio,
        },
        0.0 if stalled else limit_s,
        clear_for_s=0.0,
    )
