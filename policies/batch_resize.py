"""batch_resize: how many requests may run at once (vLLM's max_num_seqs).

Algorithm `rules` is the seeds' rule made safe: it grows with demand and room, and shrinks only when the inference
part of the latency breaks an objective, because a smaller batch makes a queue longer, not shorter. Belongs here:
the rule. Never: bounds of the engine or cooldowns across policies (the arbiter holds those).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, model_validator

from domain.decision import Proposal, Reason
from domain.runtime import MAX_NUM_SEQS, EngineRuntime, Knob
from domain.slo import Latency, Slo
from domain.view import View
from policies import ladder
from policies.base import PolicySettings

MIN_BREACH_SAMPLES = 20
"""A breach is acted on from here on if it is beyond noise: cutting on little evidence is the safe side, growing is
not.
"""
ONE_SIDED_95 = 1.645
"""Standard normal quantile: a share counts as over the allowed one only beyond sampling noise at 95 % confidence."""


class BatchResizeSettings(PolicySettings):
    """Every number of the rule. Growth 1.3 to 1.8 and steps of 8 are the seeds' table; the rest is explained in
    docs/policies.md.
    """

    enabled: bool = True
    algorithm: Literal["rules"] = "rules"
    floor: int = Field(default=8, ge=1, description="never shrinks below this on its own")
    ladder_step: int = Field(default=8, ge=1)
    growth_factor: float = Field(default=1.5, ge=1.3, le=1.8)
    max_growth: int = Field(default=8, ge=1, description="largest step up")
    shrink_factor: float = Field(default=0.85, ge=0.5, le=0.95)
    steep_shrink_factor: float = Field(default=0.7, ge=0.3, le=0.9, description="when the objective is missed by far")
    steep_over: float = Field(default=3.0, ge=1.0, description="by far: this many times the allowed share")
    raise_interval_s: float = Field(default=2.0, ge=0.0)
    effect_delay_s: float = Field(default=3.0, ge=0.0, description="after a cut, before the next one")
    min_samples: int = Field(default=100, ge=1)
    kv_room_ratio: float = Field(default=0.9, gt=0.0, le=1.0, description="no growth at or above this KV cache usage")
    binding_ratio: float = Field(
        default=0.9, gt=0.0, le=1.0, description="the cap binds when this share of it is running"
    )
    slo_margin_ratio: float = Field(
        default=0.5, ge=0.0, le=1.0, description="growth needs the share over the bound under this part of the allowed"
    )
    refuted_s: float = Field(
        default=60.0, ge=0.0, description="how long a cap that missed the objective is avoided, doubled each time"
    )
    refuted_max_s: float = Field(default=900.0, ge=0.0)

    @model_validator(mode="after")
    def _steep_is_steeper(self) -> BatchResizeSettings:
        if self.steep_shrink_factor > self.shrink_factor:
            raise ValueError(f"steep_shrink_factor must not be over shrink_factor = {self.shrink_factor:g}")
        return self


@dataclass(frozen=True, slots=True)
class BatchResizeState:
    """What the policy remembers. Times are the View's monotonic seconds."""

    boot_id: str | None = None
    cap: float | None = None
    changed_s: float = -math.inf
    shrank: bool = False
    suspect_cap: float | None = None
    """The cap that the last cut was proposed from; it becomes `refuted_cap` once the cut is seen in force."""
    refuted_cap: float | None = None
    refuted_until_s: float = -math.inf
    refuted_for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Verdict:
    slo: Slo
    over_ratio: float | None
    samples: float
    independent: float
    """How many of the samples say something of their own: one engine step gives all that run the same latency."""
    queue_bound: bool | None
    """None: unknown, then the breach is nobody's: neither a reason to shrink nor leave to grow."""

    @property
    def breached(self) -> bool:
        if self.over_ratio is None or self.samples < MIN_BREACH_SAMPLES:
            return False
        allowed = self.slo.allowed_ratio
        return self.over_ratio > allowed + ONE_SIDED_95 * math.sqrt(allowed * (1 - allowed) / self.independent)

    def describe(self) -> str:
        share = "unknown" if self.over_ratio is None else f"{self.over_ratio:.1%}"
        return (
            f"{share} of {self.samples:.0f} {self.slo.latency} samples are over {self.slo.bound_s * 1000:.4g} ms "
            f"({self.slo.allowed_ratio:.1%} allowed)"
        )


class BatchResize:
    """Grow with demand and room, shrink when inference breaks an objective, else hold; each with the numbers."""

    name = "batch_resize"

    def __init__(self, settings: BatchResizeSettings) -> None:
        self.settings = settings

    def initial_state(self) -> BatchResizeState:
        return BatchResizeState()

    def decide(self, state: BatchResizeState, view: View) -> tuple[BatchResizeState, tuple[Proposal, ...]]:
        runtime = view.runtime
        knob = runtime.knob(MAX_NUM_SEQS) if runtime else None
        if runtime is None or knob is None or knob.value is None:
            why = (
                "the engine core has not answered"
                if runtime is None
                else "an engine core has no admission cap to steer"
            )
            return state, (self._propose(None, Reason.ABSTAIN_UNKNOWN, f"No proposal: {why}.", {}),)
        state = self._observe(state, view, runtime.boot_id, knob.value)
        verdicts = [self._verdict(view, slo) for slo in view.slos]
        evidence = self._evidence(view, runtime, knob.value, verdicts)
        wanted, reason, sentence = self._rule(state, view, runtime, knob, verdicts)
        if reason is Reason.SHRINK_INFERENCE_SLO:
            state = replace(state, suspect_cap=knob.value)
        return state, (self._propose(wanted, reason, sentence, evidence),)

    def _observe(self, state: BatchResizeState, view: View, boot_id: str, cap: float) -> BatchResizeState:
        """Notice what happened to the cap since the last view, whoever moved it."""
        if state.boot_id != boot_id:
            return BatchResizeState(boot_id=boot_id, cap=cap)
        if state.cap == cap:
            return state
        shrank = state.cap is not None and cap < state.cap
        changed = replace(state, cap=cap, changed_s=view.now_s, shrank=shrank, suspect_cap=None)
        if not shrank or state.suspect_cap != state.cap:
            return changed
        again = state.suspect_cap == state.refuted_cap
        avoid_s = min(
            self.settings.refuted_max_s,
            2 * state.refuted_for_s if again and state.refuted_for_s else self.settings.refuted_s,
        )
        return replace(
            changed, refuted_cap=state.suspect_cap, refuted_until_s=view.now_s + avoid_s, refuted_for_s=avoid_s
        )

    def _rule(
        self, state: BatchResizeState, view: View, runtime: EngineRuntime, knob: Knob, verdicts: list[_Verdict]
    ) -> tuple[float, Reason, str]:
        cap = knob.value or 0.0
        steps = ladder.rungs(
            max(int(knob.minimum or 1), min(self.settings.floor, int(knob.maximum or cap))),
            int(knob.maximum or cap),
            self.settings.ladder_step,
        )
        since_change_s = view.now_s - state.changed_s
        draining = max((core.running for core in runtime.cores), default=0) > cap
        breached = [v for v in verdicts if v.breached]
        inference = [v for v in breached if v.queue_bound is False]

        if draining:
            return (
                cap,
                Reason.HOLD_DRAINING,
                f"Holding {cap:.0f}: {runtime.running} requests still run, the last cut is draining.",
            )
        if inference:
            return self._shrink(cap, steps, since_change_s, state.shrank, inference)
        return self._grow(
            cap, steps, since_change_s, state, view, runtime, verdicts, any(v.queue_bound for v in breached)
        )

    def _shrink(
        self, cap: float, steps: tuple[int, ...], since_change_s: float, shrank: bool, inference: list[_Verdict]
    ) -> tuple[float, Reason, str]:
        worst = max(inference, key=lambda v: (v.over_ratio or 0.0) / max(v.slo.allowed_ratio, 1e-9))
        if cap <= steps[0]:
            return cap, Reason.HOLD_AT_FLOOR, f"Holding {cap:.0f}, the floor, although {worst.describe()}."
        if shrank and since_change_s < self.settings.effect_delay_s:
            return (
                cap,
                Reason.HOLD_EFFECT_PENDING,
                f"Holding {cap:.0f}: the last cut is {since_change_s:.1f} s old, its effect is not in yet.",
            )
        steep = (worst.over_ratio or 0.0) > self.settings.steep_over * worst.slo.allowed_ratio
        factor = self.settings.steep_shrink_factor if steep else self.settings.shrink_factor
        wanted = ladder.down(cap, cap * factor, steps)
        return (
            wanted,
            Reason.SHRINK_INFERENCE_SLO,
            f"Shrinking {cap:.0f} -> {wanted}: {worst.describe()} while requests run, not while they queue.",
        )

    def _grow(
        self,
        cap: float,
        steps: tuple[int, ...],
        since_change_s: float,
        state: BatchResizeState,
        view: View,
        runtime: EngineRuntime,
        verdicts: list[_Verdict],
        queue_breach: bool,
    ) -> tuple[float, Reason, str]:
        hold = self._reason_not_to_grow(cap, steps, since_change_s, view, runtime, verdicts)
        if hold is not None:
            reason, why = hold
            return cap, reason, f"Holding {cap:.0f}: {why}."
        wanted = ladder.up(cap, min(cap * self.settings.growth_factor, cap + self.settings.max_growth), steps)
        if state.refuted_cap is not None and view.now_s < state.refuted_until_s and wanted >= state.refuted_cap:
            left_s = state.refuted_until_s - view.now_s
            return (
                cap,
                Reason.HOLD_REFUTED,
                f"Holding {cap:.0f}: {state.refuted_cap:.0f} missed the objective, not tried again for {left_s:.0f} s.",
            )
        margin = "; ".join(v.describe() for v in verdicts) or "no objective is set"
        cause = "the queue breaks an objective and " if queue_breach else ""
        sentence = (
            f"Growing {cap:.0f} -> {wanted}: {cause}{runtime.waiting} requests wait, {runtime.running} run, "
            f"KV cache {view.kv_cache_usage_ratio or 0:.0%} used; {margin}."
        )
        return wanted, Reason.GROW_DEMAND, sentence

    def _reason_not_to_grow(
        self,
        cap: float,
        steps: tuple[int, ...],
        since_change_s: float,
        view: View,
        runtime: EngineRuntime,
        verdicts: list[_Verdict],
    ) -> tuple[Reason, str] | None:
        s = self.settings
        busiest = max((core.running for core in runtime.cores), default=0)
        if runtime.waiting <= 0 or busiest < s.binding_ratio * cap:
            return (
                Reason.HOLD_NO_DEMAND,
                f"{runtime.waiting} requests wait, {busiest} of {cap:.0f} slots are taken: the cap does not bind",
            )
        if cap >= steps[-1]:
            return Reason.HOLD_AT_LIMIT, f"it is the start-up maximum, {runtime.waiting} requests wait"
        if since_change_s < (s.effect_delay_s if verdicts else s.raise_interval_s):
            return Reason.HOLD_EFFECT_PENDING, f"the last change is {since_change_s:.1f} s old"
        if view.kv_cache_usage_ratio is None or view.preemptions_per_s is None:
            return Reason.ABSTAIN_UNKNOWN, "KV cache usage or preemptions are unknown, and unknown never loosens"
        if view.kv_cache_usage_ratio >= s.kv_room_ratio:
            return Reason.HOLD_KV_FULL, f"the KV cache is {view.kv_cache_usage_ratio:.0%} used"
        if view.preemptions_per_s > 0:
            return Reason.HOLD_PREEMPTING, f"{view.preemptions_per_s:.2g} requests/s are preempted"
        for verdict in verdicts:
            if verdict.queue_bound:
                continue
            if verdict.samples < s.min_samples or verdict.over_ratio is None:
                return (
                    Reason.HOLD_THIN_EVIDENCE,
                    f"only {verdict.samples:.0f} {verdict.slo.latency} samples ({s.min_samples} needed)",
                )
            if verdict.over_ratio > s.slo_margin_ratio * verdict.slo.allowed_ratio:
                return Reason.HOLD_SLO_MARGIN, f"{verdict.describe()}, no margin to grow into"
        return None

    def _verdict(self, view: View, slo: Slo) -> _Verdict:
        """Whose breach it is. Most of the latency spent waiting makes it the queue's: a smaller batch makes that
        worse.
        """
        over, samples = view.over_ratio(slo), view.samples(slo.latency)
        if slo.latency is Latency.ITL:
            at_once = max((core.running for core in view.runtime.cores), default=1) if view.runtime else 1
            return _Verdict(slo, over, samples, samples / max(1, at_once), queue_bound=False)
        if slo.latency is Latency.TTFT:
            return _Verdict(slo, over, samples, samples, queue_bound=True)
        queue, inference = view.latencies.get(Latency.QUEUE), view.latencies.get(Latency.INFERENCE)
        queue_s, inference_s = (h.mean if h is not None else None for h in (queue, inference))
        queue_bound = None if queue_s is None or inference_s is None else queue_s > inference_s
        return _Verdict(slo, over, samples, samples, queue_bound)

    @staticmethod
    def _evidence(
        view: View, runtime: EngineRuntime, cap: float, verdicts: list[_Verdict]
    ) -> dict[str, float | str | None]:
        evidence: dict[str, float | str | None] = {
            "max_num_seqs": cap,
            "running": runtime.running,
            "waiting": runtime.waiting,
            "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
            "preemptions_per_s": view.preemptions_per_s,
            "requests_per_s": view.requests_per_s,
            "gpu_utilization_ratio": view.gpu_utilization_ratio,
            "window_s": view.window_s,
        }
        for verdict in verdicts:
            evidence[f"{verdict.slo.latency}_over_ratio"] = verdict.over_ratio
            evidence[f"{verdict.slo.latency}_samples"] = verdict.samples
            evidence[f"{verdict.slo.latency}_bound_s"] = verdict.slo.bound_s
        return evidence

    def _propose(
        self, wanted: float | None, reason: Reason, sentence: str, evidence: dict[str, float | str | None]
    ) -> Proposal:
        return Proposal(self.name, MAX_NUM_SEQS, wanted, reason, sentence, evidence)
