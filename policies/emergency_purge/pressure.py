"""Whether there is real pressure, and whether there is ground to say so.

Belongs here: the triggers, and everything that is no emergency although it looks like one. Never: what is done
about it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from domain.decision import Evidence, Reason
from domain.runtime import EngineRuntime
from domain.snapshot import Source
from domain.view import View
from policies import hysteresis, oom, trend
from policies.emergency_purge.settings import EmergencyPurgeSettings
from policies.emergency_purge.state import Cause, EmergencyState, Figures
from policies.hysteresis import OFF, Waits
from policies.ternary import at_least, negated

MEMORY = (Source.GPU, Source.STATS, Source.METRICS)
"""What effective memory is worked out from."""
CACHE = (Source.STATS, Source.METRICS)
EVIDENCE = (
    "effective_memory_ratio",
    "gpu_memory_usage_ratio",
    "kv_cache_usage_ratio",
    "hot_blocks_ratio",
    "preemptions_per_s",
    "oldest_waiting_s",
    "running",
    "waiting",
    "stalled_s",
)


class Refusal(NamedTuple):
    """Why nothing is done now, whatever the figures."""

    reason: Reason
    why: str


def unfit(view: View, sources: tuple[Source, ...], settings: EmergencyPurgeSettings) -> str | None:
    """Why these sources are no ground for anything now, as a clause: absent, stale, or in trouble."""
    for source in sources:
        if source in view.problems:
            return f"{source} is in trouble ({view.problems[source]})"
        age_s = view.ages_s.get(source)
        if age_s is None:
            return f"{source} has given nothing"
        if age_s > settings.max_age_s:
            return f"{source} is {age_s:.0f} s old"
    return None


def refusal(view: View, settings: EmergencyPurgeSettings) -> Refusal | None:
    """An engine that is down, asleep, unseen or stuck is not relieved by any measure here."""
    if view.runtime is None:
        return Refusal(Reason.ABSTAIN_UNKNOWN, "the engine core does not answer: what is down cannot be relieved")
    if view.asleep:
        return Refusal(Reason.HOLD_ASLEEP, "the engine sleeps")
    blind = unfit(view, (Source.RUNTIME, Source.METRICS), settings)
    if blind is not None:
        return Refusal(Reason.HOLD_BLIND, blind)
    if view.stalled_s is not None and view.stalled_s >= settings.no_progress_s:
        why = f"{_count(view.running)} requests run and no token came for {view.stalled_s:.0f} s: only a restart helps"
        return Refusal(Reason.HOLD_NO_PROGRESS, why)
    return None


def observe(
    state: EmergencyState, view: View, runtime: EngineRuntime, settings: EmergencyPurgeSettings
) -> tuple[EmergencyState, Cause | None]:
    """Take a view in; answers the pressure that begins with it, if one does. For views that `refusal` lets pass."""
    booted = runtime.boot_id != state.oom.boot_id
    watch, signature = oom.watch(state.oom, view, settings.oom)
    memory_unfit, cache_unfit = unfit(view, MEMORY, settings), unfit(view, CACHE, settings)
    memory = view.gpu_memory_usage_ratio if memory_unfit is None else None
    state = replace(state, oom=watch, memory=trend.take(state.memory, view.now_s, memory, settings.growth_window_s))
    tight = _tight(state, view, settings) if memory_unfit is None else None
    crowded = _crowded(view, settings) if cache_unfit is None else None
    state = replace(
        state,
        tight=hysteresis.step(state.tight, view.now_s, tight, negated(tight), Waits(settings.memory_for_s)),
        crowded=hysteresis.step(state.crowded, view.now_s, crowded, negated(crowded), Waits(settings.crowded_for_s)),
    )
    if signature is not None and booted:
        return state, Cause.RESTARTED
    if signature is not None and memory_unfit is None:
        return state, Cause.OOM
    if state.tight.on and tight:
        return state, Cause.MEMORY
    return state, Cause.CROWDED if state.crowded.on and crowded else None


def forget(state: EmergencyState) -> EmergencyState:
    """What began before an interruption has to begin anew."""
    return replace(state, tight=OFF, crowded=OFF)


def _tight(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> bool | None:
    """Effective memory is over the level. A full KV cache alone is not that.

    On a server whose pool is most of the card a full pool reads as over 90 % by itself: that is load, and the cap's
    business. So with a full pool memory has to have grown too, which the pool never does.
    """
    effective, kv = view.effective_memory_ratio, view.kv_cache_usage_ratio
    if effective is None:
        return None
    if effective <= settings.memory_ratio:
        return False
    if kv is None:
        return None
    if kv < settings.crowded_kv_ratio:
        return True
    return at_least(trend.rise(state.memory, view.gpu_memory_usage_ratio), settings.memory_growth_ratio)


def _crowded(view: View, settings: EmergencyPurgeSettings) -> bool | None:
    """Hot blocks fill the cache while running requests are thrown out of it."""
    hot, kv, preemptions = view.hot_blocks_ratio, view.kv_cache_usage_ratio, view.preemptions_per_s
    if hot is None or kv is None or preemptions is None or view.running is None:
        return None
    full = kv >= settings.crowded_kv_ratio and hot >= settings.crowded_hot_ratio
    return full and preemptions >= settings.crowded_preemptions_per_s and view.running > 0


def eased(cause: Cause | None, view: View, settings: EmergencyPurgeSettings) -> bool | None:
    """Whether the pressure is gone, at the clear level; None: not known now."""
    if cause is Cause.CROWDED:
        if unfit(view, CACHE, settings) is not None or view.preemptions_per_s is None:
            return None
        roomy = view.hot_blocks_ratio is not None and view.hot_blocks_ratio <= settings.crowded_clear_ratio
        return roomy or view.preemptions_per_s < settings.crowded_preemptions_per_s / 2
    if unfit(view, MEMORY, settings) is not None or view.effective_memory_ratio is None:
        # What another saw cannot be seen here, so nothing here can say that it lasts.
        return True if cause is Cause.ASKED else None
    return view.effective_memory_ratio <= settings.memory_clear_ratio


def lasts(cause: Cause | None, view: View, settings: EmergencyPurgeSettings) -> bool | None:
    """Whether the pressure is still over its level: what any further measure needs. None: not known now."""
    if cause is Cause.CROWDED:
        return _crowded(view, settings) if unfit(view, CACHE, settings) is None else None
    if unfit(view, MEMORY, settings) is not None or view.effective_memory_ratio is None:
        return None
    return view.effective_memory_ratio > settings.memory_ratio


def figures(view: View, settings: EmergencyPurgeSettings) -> Figures:
    """What is to come down, as far as there is ground to say so."""
    memory = view.effective_memory_ratio if unfit(view, MEMORY, settings) is None else None
    if unfit(view, CACHE, settings) is not None:
        return Figures(memory)
    return Figures(memory, view.preemptions_per_s, view.oldest_waiting_s)


def fell(cause: Cause | None, before: Figures, now: Figures, settings: EmergencyPurgeSettings) -> bool | None:
    """Whether what matters to this pressure fell; None: not known."""
    if cause is not Cause.CROWDED:
        if before.memory_ratio is None or now.memory_ratio is None:
            return None
        return before.memory_ratio - now.memory_ratio >= settings.relief_memory_ratio
    pairs = (
        (before.preemptions_per_s, now.preemptions_per_s),
        (before.oldest_waiting_s, now.oldest_waiting_s),
    )
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    return None if not known else any(old > 0 and new <= old * (1.0 - settings.relief_ratio) for old, new in known)


def describe(cause: Cause | None, now: Figures) -> str:
    """The figures that matter to this pressure, as a clause."""
    if cause is not Cause.CROWDED:
        return f"effective GPU memory {_percent(now.memory_ratio)}"
    queue = "unknown" if now.oldest_waiting_s is None else f"{now.oldest_waiting_s:.1f} s"
    return f"{_rate(now.preemptions_per_s)} preemptions/s, oldest waiting request {queue}"


def because(cause: Cause, view: View, settings: EmergencyPurgeSettings, asked: str | None = None) -> str:
    """Why this is an emergency, as a clause."""
    memory = _percent(view.effective_memory_ratio)
    match cause:
        case Cause.MEMORY:
            return f"effective GPU memory is {memory} (over {settings.memory_ratio:.0%})"
        case Cause.OOM:
            return f"GPU memory runs out: effective use is {memory} and growing outside the KV pool"
        case Cause.RESTARTED:
            return f"the engine restarted just after its GPU memory was over {settings.oom.memory_ratio:.0%}"
        case Cause.CROWDED:
            return (
                f"the hot tier holds {_percent(view.hot_blocks_ratio)} of what is cached, the KV cache is "
                f"{_percent(view.kv_cache_usage_ratio)} used and {_rate(view.preemptions_per_s)} requests/s leave it"
            )
        case Cause.ASKED:
            return f"{asked} asks for it (effective GPU memory is {memory})"


def calm(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> tuple[bool, str]:
    """Whether at least one trigger can be judged, and what both say."""
    memory_unfit, cache_unfit = unfit(view, MEMORY, settings), unfit(view, CACHE, settings)
    told = []
    tight = _tight(state, view, settings) if memory_unfit is None else None
    crowded = _crowded(view, settings) if cache_unfit is None else None
    if tight is None:
        told.append(f"effective GPU memory is not known{_clause(memory_unfit)}")
    else:
        grown = ", but the KV cache is full and memory does not grow" if _over(view, settings) and not tight else ""
        level = f"{settings.memory_ratio:.0%} is pressure"
        told.append(f"effective GPU memory is {_percent(view.effective_memory_ratio)} ({level}{grown})")
    if crowded is None:
        told.append(f"what the hot tier holds is not known{_clause(cache_unfit)}")
    else:
        told.append(
            "the hot tier crowds nobody out" if not crowded else "the hot tier is full while requests are thrown out"
        )
    return tight is not None or crowded is not None, "; ".join(told)


def evidence(view: View) -> Evidence:
    """The numbers that any decision here rests on."""
    return {name: getattr(view, name) for name in EVIDENCE}


def _over(view: View, settings: EmergencyPurgeSettings) -> bool:
    return view.effective_memory_ratio is not None and view.effective_memory_ratio > settings.memory_ratio


def _clause(why: str | None) -> str:
    return "" if why is None else f": {why}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"


def _count(value: float | None) -> str:
    return "an unknown number of" if value is None else f"{value:.0f}"
