"""Algorithm `rules`: the seeds' rule made safe.

It grows with demand and room, and shrinks only when the inference part of the latency breaks an objective or the KV
cache is too small for what runs: a smaller batch makes a queue longer, not shorter. Belongs here: that rule; `model`
uses its cuts and its tests of room. Never: bounds of the engine or cooldowns across policies (the arbiter holds those).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

from domain.decision import Reason
from domain.slo import Latency
from policies import ladder
from policies.batch_resize import growth
from policies.batch_resize.scene import Answer, Scene
from policies.verdict import Verdict

Objection = tuple[Reason, str]


class Recommendation(NamedTuple):
    """Which cap would be right now, whatever was changed lately; `objection` says why it is not a higher one."""

    cap: float
    objection: Objection | None
    because: str = ""


def tighten(scene: Scene) -> Answer | None:
    """A cut, or the reason for waiting with one; None: there is no cause for one."""
    cap = scene.cap
    if scene.draining:
        return Answer(
            cap,
            Reason.HOLD_DRAINING,
            f"Holding {cap:.0f}: {scene.runtime.running} requests still run, the last cut is draining.",
        )
    breaches = scene.inference_breaches
    if breaches:
        return _shrink(scene, max(breaches, key=lambda v: v.excess))
    return _relieve(scene)


def _shrink(scene: Scene, worst: Verdict) -> Answer:
    s = scene.settings
    steep = worst.excess > s.steep_over
    target = scene.cap * (s.steep_shrink_factor if steep else s.shrink_factor)
    sentence = f"{worst.describe()} while requests run, not while they queue"
    return cut(scene, target, Reason.SHRINK_INFERENCE_SLO, sentence, wait=scene.state.shrank)


def _relieve(scene: Scene) -> Answer | None:
    """The KV cache is full and requests are thrown out of it: step down to what it holds, which is what runs."""
    s, view = scene.settings, scene.view
    if view.kv_cache_usage_ratio is None or view.preemptions_per_s is None:
        return None
    if view.kv_cache_usage_ratio < s.kv_full_ratio or view.preemptions_per_s <= s.preemptions_per_s:
        return None
    held = scene.at_least(scene.busiest)
    target = max(held, scene.cap * s.steep_shrink_factor) if held < scene.cap else scene.cap - 1
    sentence = (
        f"the KV cache is {view.kv_cache_usage_ratio:.0%} used by {scene.busiest} running requests and "
        f"{view.preemptions_per_s:.2g} requests/s are thrown out of it"
    )
    return cut(scene, target, Reason.SHRINK_PREEMPTING, sentence, wait=True)


def cut(scene: Scene, target: float, reason: Reason, because: str, wait: bool) -> Answer:
    """The rung at or under `target`, or the reason for holding. `wait`: for the effect of the last change."""
    cap = scene.cap
    if cap <= scene.rungs[0]:
        return Answer(cap, Reason.HOLD_AT_FLOOR, f"Holding {cap:.0f}, the floor, although {because}.")
    if wait and scene.since_change_s < scene.settings.effect_delay_s:
        return Answer(
            cap,
            Reason.HOLD_EFFECT_PENDING,
            f"Holding {cap:.0f}: the last change is {scene.since_change_s:.1f} s old, its effect is not in yet.",
        )
    wanted = scene.lower(target)
    if wanted is None:
        return Answer(
            cap,
            Reason.HOLD_SLOTS_TAKEN,
            f"Holding {cap:.0f} although {because}: {scene.view.deferred or 0:.0f} deferred requests hold a slot, a "
            "lower cap would let nobody in.",
        )
    return Answer(wanted, reason, f"Shrinking {cap:.0f} -> {wanted}: {because}.")


def recommend(scene: Scene) -> Recommendation:
    """A rung up while requests wait, the cap binds and there is room; else the cap as it is."""
    objection = no_room(scene) or thin_margin(scene)
    if objection is not None:
        return Recommendation(scene.cap, objection)
    factor = growth.factor(scene.state, scene.settings, scene.profile)
    target = ladder.up(scene.cap, min(scene.cap * factor, scene.cap + scene.settings.max_growth), scene.rungs)
    return Recommendation(target, None, "; ".join(v.describe() for v in scene.verdicts) or "no objective is set")


def settle(scene: Scene, now: Recommendation) -> Answer:
    """Raise to the lowest recommendation of the window, once the last change has shown its effect."""
    cap, s = scene.cap, scene.settings
    if now.objection is not None:
        reason, why = now.objection
        return Answer(cap, reason, f"Holding {cap:.0f}: {why}.")
    if scene.since_change_s < (s.effect_delay_s if scene.verdicts else s.raise_interval_s):
        why = f"the last change is {scene.since_change_s:.1f} s old"
        return Answer(cap, Reason.HOLD_EFFECT_PENDING, f"Holding {cap:.0f}: {why}.")
    at_s, lowest = min(scene.state.recommended, key=lambda one: one[1], default=(scene.view.now_s, now.cap))
    if lowest <= cap:
        ago_s = scene.view.now_s - at_s
        why = f"{ago_s:.1f} s ago there was cause for no more, and the lowest of the last {s.raise_window_s:g} s counts"
        return Answer(cap, Reason.HOLD_RAISE_WINDOW, f"Holding {cap:.0f}: {why}.")
    wanted = min(lowest, _not_refuted(scene))
    if wanted <= cap:
        left_s = (scene.state.refuted_until_s or 0.0) - scene.view.now_s
        why = f"{scene.state.refuted_cap:.0f} missed the objective, not tried again for {left_s:.0f} s"
        return Answer(cap, Reason.HOLD_REFUTED, f"Holding {cap:.0f}: {why}.")
    cause = "the queue breaks an objective and " if scene.queue_breached else ""
    sentence = (
        f"Growing {cap:.0f} -> {wanted:.0f}: {cause}{scene.waiting:.0f} requests wait, {scene.runtime.running} run, "
        f"KV cache {scene.view.kv_cache_usage_ratio or 0:.0%} used; {now.because}."
    )
    return Answer(wanted, Reason.GROW_DEMAND, sentence)


def _not_refuted(scene: Scene) -> float:
    """The highest cap that may be tried: under the one that missed the objective lately, and later that one itself.

    It is not skipped: only at the same cap does a second miss show that the first was no accident.
    """
    state, highest = scene.state, scene.rungs[-1]
    if state.refuted_cap is None or state.refuted_until_s is None or scene.cap >= state.refuted_cap:
        return highest
    if state.refuted_budget is not None and (scene.budget_tokens or math.inf) < state.refuted_budget:
        return highest  # it missed with longer steps
    if scene.view.now_s >= state.refuted_until_s:
        return state.refuted_cap
    under = bisect_left(scene.rungs, state.refuted_cap) - 1
    return scene.rungs[under] if under >= 0 else scene.cap


def no_room(scene: Scene) -> Objection | None:
    """Demand, limit, KV cache, memory: what a raise needs whatever the objectives."""
    s, view, cap = scene.settings, scene.view, scene.cap
    if scene.waiting <= 0 or scene.taken < s.binding_ratio * cap:
        return (
            Reason.HOLD_NO_DEMAND,
            f"{scene.waiting:.0f} requests wait, {scene.taken:.0f} of {cap:.0f} slots are taken: the cap does not bind",
        )
    if cap >= scene.rungs[-1]:
        return Reason.HOLD_AT_LIMIT, f"{limit_name(scene)}, {scene.waiting:.0f} requests wait"
    if view.kv_cache_usage_ratio is None or view.preemptions_per_s is None:
        return Reason.ABSTAIN_UNKNOWN, "KV cache usage or preemptions are unknown, and unknown never loosens"
    if scene.steps_full:
        used = f"{view.batch_utilization_ratio or 0.0:.0%} of the token budget is used"
        return Reason.HOLD_BUDGET_FIRST, f"{used}: {scene.waiting:.0f} requests wait for that, not for a slot"
    if view.kv_cache_usage_ratio >= s.kv_room_ratio:
        return Reason.HOLD_KV_FULL, f"the KV cache is {view.kv_cache_usage_ratio:.0%} used"
    if view.preemptions_per_s > 0:
        return Reason.HOLD_PREEMPTING, f"{view.preemptions_per_s:.2g} requests/s are preempted"
    return growth.objection(scene)


def limit_name(scene: Scene) -> str:
    """What the highest rung is."""
    if scene.knob.maximum is not None and scene.rungs[-1] >= scene.knob.maximum:
        return "it is the start-up maximum"
    if scene.settings.hardware_limit is not None:
        return f"the hardware limit is set to {scene.rungs[-1]}"
    return f"the limit of the {scene.profile.name if scene.profile else 'hardware'} profile is {scene.rungs[-1]}"


def thin_margin(scene: Scene, leave_out: tuple[Verdict, ...] = ()) -> Objection | None:
    """An objective that lacks evidence, or room between what is measured and what is allowed."""
    s = scene.settings
    for verdict in scene.verdicts:
        if verdict.slo.latency is Latency.TTFT or verdict in leave_out:
            continue  # waiting for the first token is what a larger cap ends
        objection = thin(scene, verdict)
        if objection is not None:
            return objection
        if not verdict.queue_bound and verdict.excess > s.slo_margin_ratio:
            return Reason.HOLD_SLO_MARGIN, f"{verdict.describe()}, no margin to grow into"
    return None


def thin(scene: Scene, verdict: Verdict) -> Objection | None:
    """Too few samples to grow by."""
    needed = scene.settings.min_samples
    if verdict.samples >= needed and verdict.over_ratio is not None:
        return None
    return (
        Reason.HOLD_THIN_EVIDENCE,
        f"only {verdict.samples:.0f} {verdict.slo.latency} samples ({needed} needed)",
    )
