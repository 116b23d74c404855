"""cache_ratio: how much of the KV pool the hot tier may keep, and what goes with the tiers.

The engine's tier moves its own boundary by the hits that it wins and loses; the ratio is only the ceiling of that. So
it is moved last, rarely and for one reason: the share of hot requests. Belongs here: that, and switching the tiers on.
Never: the tiers' own order (the plugin's).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pydantic import Field, model_validator

from domain.decision import Evidence, Proposal, Reason
from domain.knobs import (
    COLD_CACHE_RECLAIM_THRESHOLD,
    COLD_TTL_S,
    HOT_CACHE_MIN_SIZE_MB,
    HOT_CACHE_RATIO,
    HOT_TTL_S,
)
from domain.runtime import Knob, Support
from domain.view import View
from policies import idle, profiles
from policies.base import PolicySettings
from policies.hysteresis import OFF, Held, Waits, step
from policies.ternary import above, below, negated

DEFAULT_START = 0.3


class CacheRatioSettings(PolicySettings):
    """How much of the KV pool the hot tier may keep, and switching the tiers on: `[policies.cache_ratio]`."""

    enabled: bool = True
    start: bool = Field(default=True, description="switch the tiers on where the engine carries them natively")
    start_ratio: float | None = Field(
        default=None, ge=0.05, le=0.8, description="without it the profile's (A100-80G: 0.35), else 0.3"
    )
    ratio_min: float = Field(default=0.3, ge=0.05, le=0.8, description="the seeds' range")
    ratio_max: float = Field(default=0.4, ge=0.05, le=0.8)
    step: float = Field(default=0.05, gt=0.0, le=0.2, description="the seeds' 5 %")
    hot_requests_ratio: float = Field(default=0.4, gt=0.0, le=1.0, description="over this share of hot requests: up")
    hot_clear_ratio: float = Field(
        default=0.3, ge=0.0, le=1.0, description="under this, the low end of what the seeds expect: back"
    )
    hot_for_s: float = Field(default=60.0, ge=0.0, description="for so long")
    interval_s: float = Field(default=600.0, ge=0.0, description="between two moves")
    hit_ratio: float = Field(default=0.6, gt=0.0, le=1.0, description="under this the requests are to be looked at")
    latency_rise_ratio: float = Field(
        default=0.1, ge=0.0, description="no raise while P99 rises by more: what it does could not be told"
    )
    kv_full_ratio: float = Field(
        default=0.95, gt=0.0, le=1.0, description="preemptions at or above this KV usage: hot blocks are in the way"
    )
    min_size_mb: float = Field(default=2048.0, ge=0.0, le=1048576.0, description="the seeds' hot_cache_min_size")
    hot_ttl_s: float = Field(default=900.0, ge=1.0, le=86400.0)
    cold_ttl_s: float = Field(default=120.0, ge=1.0, le=86400.0)
    reclaim_threshold: float = Field(default=0.8, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _in_order(self) -> CacheRatioSettings:
        if self.ratio_min > self.ratio_max:
            raise ValueError(f"ratio_min must not be over ratio_max = {self.ratio_max:g}")
        if self.start_ratio is not None and not self.ratio_min <= self.start_ratio <= self.ratio_max:
            raise ValueError(
                f"start_ratio must lie from ratio_min = {self.ratio_min:g} to ratio_max = {self.ratio_max:g}"
            )
        if self.hot_clear_ratio > self.hot_requests_ratio:
            raise ValueError(f"hot_clear_ratio must not be over hot_requests_ratio = {self.hot_requests_ratio:g}")
        return self


@dataclass(frozen=True, slots=True)
class RatioWatch:
    """What is noticed of the ratio, whoever moved it. Plain values; times are the View's monotonic seconds."""

    boot_id: str | None = None
    ratio: float | None = None
    changed_s: float | None = None


def notice(state: RatioWatch, view: View, ratio: float) -> RatioWatch:
    """A new boot forgets everything."""
    boot_id = view.runtime.boot_id if view.runtime is not None else state.boot_id
    if boot_id != state.boot_id:
        return RatioWatch(boot_id=boot_id, ratio=ratio)
    return state if ratio == state.ratio else replace(state, ratio=ratio, changed_s=view.now_s)


def raised(settings: CacheRatioSettings, ratio: float) -> float:
    """One step up, inside the range."""
    return max(ratio, min(settings.ratio_max, round(ratio + settings.step, 6)))


def objection(settings: CacheRatioSettings, watch: RatioWatch, view: View, ratio: float) -> tuple[Reason, str] | None:
    """What is to be said against a raise that the hot share asks for."""
    if ratio >= settings.ratio_max:
        return Reason.HOLD_AT_LIMIT, f"{ratio:g} is at the end of its range"
    hits, slope = view.cache_hit_ratio, view.latency_slope_ratio
    if hits is None or view.kv_cache_usage_ratio is None or view.preemptions_per_s is None or slope is None:
        return Reason.ABSTAIN_UNKNOWN, "the hit rate, KV cache usage, preemptions or the rise of P99 are not known"
    if hits <= 0:
        return Reason.HOLD_HIT_RATE, "nothing was found in the cache: prompts may share less than one block"
    if view.preemptions_per_s > 0:
        rate = f"{view.preemptions_per_s:.2g} requests/s are preempted"
        return Reason.HOLD_PREEMPTING, f"{rate}: more hot blocks leave them less room, and they may hit their own"
    if slope > settings.latency_rise_ratio:
        return Reason.HOLD_SLO_MARGIN, f"P99 rises by {slope:.0%}, so what a move does could not be told"
    return waiting(settings, watch, view)


def waiting(settings: CacheRatioSettings, watch: RatioWatch, view: View) -> tuple[Reason, str] | None:
    """The last move is too fresh for another."""
    since_s = None if watch.changed_s is None else view.now_s - watch.changed_s
    if since_s is None or since_s >= settings.interval_s:
        return None
    return Reason.HOLD_EFFECT_PENDING, f"the last move is {since_s:.0f} s old ({settings.interval_s:g} s between two)"


def crowded(settings: CacheRatioSettings, view: View) -> bool:
    """Running requests are thrown out of a full cache. Unknown is no crowd."""
    kv, preemptions = view.kv_cache_usage_ratio, view.preemptions_per_s
    return kv is not None and kv >= settings.kv_full_ratio and preemptions is not None and preemptions > 0


@dataclass(frozen=True, slots=True)
class CacheRatioState:
    """Plain values."""

    watch: RatioWatch = field(default_factory=RatioWatch)
    high: Held = OFF
    """The share of hot requests is over the mark; `low`: under the clear level."""
    low: Held = OFF
    moved: tuple[str, ...] = ()
    """Knobs seen away from their start-up value in this boot: what is set once is not set again."""


class CacheRatio:
    """Switches the tiers on with the seeds' numbers, follows the share of hot requests, and else leaves them alone."""

    name = "cache_ratio"

    def __init__(self, settings: CacheRatioSettings) -> None:
        self.settings = settings

    def initial_state(self) -> CacheRatioState:
        """Before the first view."""
        return CacheRatioState()

    def decide(self, state: CacheRatioState, view: View) -> tuple[CacheRatioState, tuple[Proposal, ...]]:
        """One proposal for hot_cache_ratio; for what is set once with it only while that is to be done."""
        knob = view.knob(HOT_CACHE_RATIO)
        if knob is None or knob.value is None:
            why = "No proposal: the engine has no hot tier to steer (prefix caching may be off), or has not answered."
            return state, (self._propose(view, None, Reason.ABSTAIN_UNKNOWN, why),)
        state = self._observe(state, view, knob.value)
        if knob.value <= 0:
            return state, (idle.rest(view, self._start(state, view, knob)),)
        once = (idle.rest(view, one) for one in self._set_once(state, view))
        return state, (self._move(state, view, knob), *once)

    def _observe(self, state: CacheRatioState, view: View, ratio: float) -> CacheRatioState:
        s, boot_id = self.settings, view.runtime.boot_id if view.runtime is not None else None
        moved = state.moved if boot_id == state.watch.boot_id else ()
        away = {name for name in (HOT_CACHE_RATIO, *self._once()) if _moved(view, name)}
        hot, waits = view.hot_requests_ratio, Waits(on_s=s.hot_for_s)
        high, low = above(hot, s.hot_requests_ratio), below(hot, s.hot_clear_ratio)
        return CacheRatioState(
            watch=notice(state.watch, view, ratio),
            high=step(state.high, view.now_s, high, negated(high), waits),
            low=step(state.low, view.now_s, low, negated(low), waits),
            moved=tuple(sorted({*moved, *away})),
        )

    def _start(self, state: CacheRatioState, view: View, knob: Knob) -> Proposal:
        """The tiers are off: switch them on once, where nothing speaks against it."""
        if HOT_CACHE_RATIO in state.moved:
            return self._propose(view, 0.0, Reason.HOLD_STEADY, "The tiers stay off: somebody switched them off.")
        if not self.settings.start:
            return self._propose(view, 0.0, Reason.HOLD_STEADY, "The tiers stay off: the setting start is false.")
        if knob.support is not Support.NATIVE:
            why = f"The tiers stay off: this engine carries them in part ({knob.reason or 'no reason given'})."
            return self._propose(view, 0.0, Reason.HOLD_STEADY, why)
        if view.kv_cache_usage_ratio is None:
            why = "No proposal: the engine's metrics are not known, so nothing is begun."
            return self._propose(view, None, Reason.ABSTAIN_UNKNOWN, why)
        ratio, whose = self._start_ratio(view)
        sentence = f"Hot tier on: it may keep {ratio:.0%} of the KV pool, {whose}."
        return self._propose(view, ratio, Reason.SET_UP, sentence)

    def _start_ratio(self, view: View) -> tuple[float, str]:
        s, profile = self.settings, profiles.of_engine(view.gpu_names)
        if s.start_ratio is not None:
            return s.start_ratio, "as set"
        golden = profile.golden if profile is not None else None
        ratio = golden.hot_cache_ratio if golden is not None else DEFAULT_START
        whose = (
            f"the starting point of the {profile.name} profile" if golden and profile else "the seeds' starting point"
        )
        return min(s.ratio_max, max(s.ratio_min, ratio)), whose

    def _move(self, state: CacheRatioState, view: View, knob: Knob) -> Proposal:
        s, ratio, hot = self.settings, knob.value or 0.0, view.hot_requests_ratio
        if ratio > s.ratio_max and crowded(s, view):
            why = f"hot blocks crowd out running requests, and {s.ratio_max:g} is the most that is advised"
            sentence = f"Hot ratio {ratio:g} -> {s.ratio_max:g}: {why}."
            return self._propose(view, s.ratio_max, Reason.HOT_RATIO_TOO_HIGH, sentence)
        if hot is None:
            why = "No proposal: the share of hot requests is not known."
            return self._propose(view, None, Reason.ABSTAIN_UNKNOWN, why)
        share = f"{hot:.0%} of the requests are hot"
        if state.high.on:
            against = objection(s, state.watch, view, ratio)
            if against is not None:
                return self._hold(view, ratio, against[0], f"{share}, but {against[1]}")
            wanted = raised(s, ratio)
            sentence = f"Hot ratio {ratio:g} -> {wanted:g}: {share} (over {s.hot_requests_ratio:.0%})."
            return self._propose(view, wanted, Reason.HOT_SHARE_HIGH, sentence)
        base, hits = self._start_ratio(view)[0], view.cache_hit_ratio
        settled = waiting(s, state.watch, view) is None
        if state.low.on and base < ratio <= s.ratio_max and settled and hits is not None and hits > 0:
            wanted = max(base, round(ratio - s.step, 6))
            sentence = f"Hot ratio {ratio:g} -> {wanted:g}: {share} (under {s.hot_clear_ratio:.0%})."
            return self._propose(view, wanted, Reason.HOT_SHARE_LOW, sentence)
        if hits is not None and hits < s.hit_ratio:
            why = f"{hits:.0%} of prompt tokens are found in the cache (under {s.hit_ratio:.0%})"
            return self._hold(
                view, ratio, Reason.HOLD_HIT_RATE, f"{why}: look at what prompts share, no ratio cures it"
            )
        return self._hold(view, ratio, Reason.HOLD_DEAD_BAND, f"{share}, no move promises more than the noise of hits")

    def _once(self) -> dict[str, float]:
        s = self.settings
        return {
            HOT_CACHE_MIN_SIZE_MB: s.min_size_mb,
            HOT_TTL_S: s.hot_ttl_s,
            COLD_TTL_S: s.cold_ttl_s,
            COLD_CACHE_RECLAIM_THRESHOLD: s.reclaim_threshold,
        }

    def _set_once(self, state: CacheRatioState, view: View) -> tuple[Proposal, ...]:
        proposals = []
        for name, wanted in self._once().items():
            knob = view.knob(name)
            if knob is None or knob.value is None or name in state.moved or knob.value == wanted:
                continue
            sentence = f"{name} {knob.value:g} -> {wanted:g}: it goes with the tiers, set once."
            proposals.append(Proposal(self.name, name, wanted, Reason.SET_UP, sentence))
        return tuple(proposals)

    def _hold(self, view: View, ratio: float, reason: Reason, why: str) -> Proposal:
        return self._propose(view, ratio, reason, f"Holding hot ratio {ratio:g}: {why}.")

    def _propose(self, view: View, wanted: float | None, reason: Reason, sentence: str) -> Proposal:
        return Proposal(self.name, HOT_CACHE_RATIO, wanted, reason, sentence, evidence(view))


def evidence(view: View) -> Evidence:
    """What a move of the ratio rests on."""
    return {
        "hot_requests_ratio": view.hot_requests_ratio,
        "hot_blocks_ratio": view.hot_blocks_ratio,
        "cache_hit_ratio": view.cache_hit_ratio,
        "evictions_per_s": view.evictions_per_s,
        "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
        "preemptions_per_s": view.preemptions_per_s,
        "latency_slope_ratio": view.latency_slope_ratio,
    }


def _moved(view: View, name: str) -> bool:
    knob = view.knob(name)
    return knob is not None and knob.value != knob.startup
