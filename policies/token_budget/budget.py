"""max_num_batched_tokens: how much one engine step may compute.

Its length in time is what every running request waits for its next token, so this is the first knob for the tail of
inter-token latency. By the capacity model where that is trusted and there is an objective, else by the seeds' table.
Belongs here: the target, and when to go there. Never: the table's rows, the limits after an OOM.
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Reason
from policies import aim, trend
from policies.token_budget import limits, table
from policies.token_budget.scene import Answer, Scene, Target
from policies.token_budget.state import TokenBudgetState


def decide(scene: Scene) -> tuple[TokenBudgetState, Answer]:
    """One answer, and the state that goes with it."""
    if scene.storm and scene.oom is None:
        kv, rate = scene.view.kv_cache_usage_ratio or 0.0, scene.view.preemptions_per_s or 0.0
        why = (
            f"the KV cache is {kv:.0%} used and {rate:.2g} requests/s are thrown out of it, which is the cap's business"
        )
        return scene.state, Answer(scene.now, Reason.HOLD_PREEMPTING, f"Holding {scene.now:.0f} tokens: {why}.")
    modelled = by_model(scene)
    is_model = isinstance(modelled, Target)
    scene = replace(scene, state=limits.after_oom(scene))
    scene = replace(scene, state=limits.after_breach(scene, is_model))
    free = modelled if isinstance(modelled, Target) else by_table(scene)
    target = limits.under(scene, free or Target(scene.now, "the request rate is not known"))
    targets = trend.recent(scene.state.targets, scene.view.now_s, target.tokens, scene.settings.raise_window_s)
    state = replace(scene.state, targets=targets)
    if isinstance(modelled, Target):
        state = trim(scene, state, modelled)
    scene = replace(scene, state=state)
    if free is None and target.tokens >= scene.now:
        return state, Answer(None, Reason.ABSTAIN_UNKNOWN, "No proposal: the request rate is not known.")
    if target.tokens < scene.now:
        answer = _lower(scene, target)
        missed = scene.measured and scene.verdict is not None and scene.verdict.excess > 1.0
        lowered = answer.wanted is not None and answer.wanted < scene.now
        return (replace(state, suspect=scene.now) if missed and lowered else state), answer
    return state, _settled(scene, target) if target.tokens == scene.now else _raise(scene, target)


def by_model(scene: Scene) -> Target | str:
    """The largest step that keeps the inter-token objective, or why that is not known, as a clause."""
    ground = aim.ground(scene.verdict, scene.view.capacity)
    if isinstance(ground, str):
        return ground
    capacity, bound_s = ground.capacity, ground.verdict.slo.bound_s
    aim_s = scene.settings.model.aim_s(bound_s, scene.state.trim)
    context = scene.busiest * ground.context
    most = capacity.most_tokens(aim_s, context)
    tokens = scene.ceiling if most is None else scene.rung(most)
    clause = (
        f"the model aims at {aim_s * 1e3:.3g} of {bound_s * 1e3:.3g} ms between tokens, expects "
        f"{capacity.step_s(scene.now, context) * 1e3:.3g} ms of a full step and allows {tokens:.0f} tokens"
    )
    return Target(tokens, clause, by_model=True)


def by_table(scene: Scene) -> Target | None:
    """What the table says, inside the envelope; None while the request rate is not known."""
    row = table.row_of(scene.state, scene.settings)
    if row is None or scene.view.requests_per_s is None:
        return None
    tokens = min(max(float(row.max_tokens), scene.knob.minimum or 1), scene.ceiling)
    why = table.describe(scene.state, scene.settings, scene.view)
    if tokens < row.max_tokens:
        why += f", asks for {row.max_tokens}; {scene.ceiling:.0f} is the most here"
    return Target(tokens, why)


def trim(scene: Scene, state: TokenBudgetState, target: Target) -> TokenBudgetState:
    """Move the aim slowly by what was measured, where the aim is what holds the budget: it must not wind up else."""
    now_s, s, verdict = scene.view.now_s, scene.settings.model, scene.verdict
    waited_s = aim.waited_s(state.trimmed_s, now_s)
    state = replace(state, trimmed_s=now_s)
    if verdict is None or not scene.well_measured or scene.since_change_s < scene.settings.effect_delay_s:
        return state
    band = 1.0 + s.dead_band_ratio
    pull = aim.pull(
        verdict.excess,
        scene.settings.slo_margin_ratio,
        may_lower=scene.now <= target.tokens * band,
        may_raise=scene.now * band >= target.tokens and _used(scene, target),
    )
    return replace(state, trim=s.trimmed(state.trim, pull, waited_s))


def _used(scene: Scene, target: Target) -> bool:
    """The aim holds the budget, and so many steps fill it that the share over the bound would show them to be late."""
    telling = scene.verdict is not None and scene.full_steps_ratio > scene.verdict.slo.allowed_ratio
    return telling and scene.prompts_matter and target.tokens < min(scene.ceiling, scene.refuted)


def _lower(scene: Scene, target: Target) -> Answer:
    """At once, but one cut per effect delay and not by more than half."""
    s, now, verdict = scene.settings, scene.now, scene.verdict
    if limits.held_by_oom(scene) == target.tokens:
        sentence = f"Lowering {now:.0f} -> {target.tokens:.0f} tokens: {target.because}."
        return Answer(target.tokens, Reason.SHRINK_OOM, sentence)
    if target.by_model and not scene.measured:
        return _hold(scene, Reason.HOLD_THIN_EVIDENCE, "no inter-token latency is measured")
    far_over = verdict is not None and verdict.breached and verdict.excess > s.steep_over and scene.prompts_matter
    if target.by_model and not far_over and now <= target.tokens * (1.0 + s.model.dead_band_ratio):
        return _hold(scene, Reason.HOLD_DEAD_BAND, target.because)
    if target.by_model and scene.full and scene.well_measured and verdict and verdict.excess <= s.slo_margin_ratio:
        return _hold(scene, Reason.HOLD_DEAD_BAND, f"{target.because}, yet with full steps {verdict.describe()}")
    if scene.since_change_s < s.effect_delay_s:
        why = f"the last change is {scene.since_change_s:.1f} s old, its effect is not in yet"
        return _hold(scene, Reason.HOLD_EFFECT_PENDING, why)
    wanted = max(target.tokens, scene.rung(now * s.lowest_cut_ratio))
    reason = Reason.SHRINK_PREDICTED if target.by_model else Reason.TABLE_ROW
    if not target.by_model and scene.state.slo_limit is not None and scene.rung(scene.state.slo_limit) == target.tokens:
        reason = Reason.SHRINK_INFERENCE_SLO
    return Answer(wanted, reason, f"Lowering {now:.0f} -> {wanted:.0f} tokens: {target.because}.")


def _raise(scene: Scene, target: Target) -> Answer:
    """Slowly: to the lowest target of the window, a step at a time, with evidence and nothing unknown."""
    objection = _objection(scene, target)
    if objection is not None:
        return _hold(scene, *objection)
    s, now = scene.settings, scene.now
    lowest = min(tokens for _, tokens in scene.state.targets)
    if lowest <= now:
        why = f"there was cause for no more within the last {s.raise_window_s:g} s"
        return _hold(scene, Reason.HOLD_RAISE_WINDOW, why)
    if target.by_model and lowest < now * (1.0 + s.model.dead_band_ratio):
        return _hold(scene, Reason.HOLD_DEAD_BAND, target.because)
    if lowest >= scene.refuted or scene.missed_lately:
        lowest = min(lowest, scene.rung(scene.refuted - s.step_tokens))
        if lowest < now * (1.0 + s.model.dead_band_ratio) or scene.missed_lately:
            left_s = (scene.state.refuted_until_s or 0.0) - scene.view.now_s
            why = f"{scene.refuted:.0f} missed the objective, not tried again for {left_s:.0f} s"
            return _hold(scene, Reason.HOLD_REFUTED, why)
    wanted = min(lowest, max(scene.rung(now + scene.raise_tokens), min(lowest, now + s.step_tokens)))
    limited = scene.state.oom_limit is not None or scene.state.slo_limit is not None
    reason = Reason.GROW_PREDICTED if target.by_model else Reason.RECOVER_STEP if limited else Reason.TABLE_ROW
    return Answer(wanted, reason, f"Raising {now:.0f} -> {wanted:.0f} tokens: {target.because}.")


def _objection(scene: Scene, target: Target) -> tuple[Reason, str] | None:
    s, view, verdict = scene.settings, scene.view, scene.verdict
    if view.kv_cache_usage_ratio is None or view.preemptions_per_s is None or view.requests_per_s is None:
        return (
            Reason.ABSTAIN_UNKNOWN,
            "KV cache usage, preemptions or the request rate are unknown, and unknown never loosens",
        )
    if scene.oom is not None:
        return Reason.HOLD_AT_FLOOR, f"it must not be less, although {scene.oom.clause}"
    if view.preemptions_per_s > 0:
        return Reason.HOLD_PREEMPTING, f"{view.preemptions_per_s:.2g} requests/s are preempted"
    if verdict is not None:
        if not scene.well_measured:
            why = f"only {verdict.samples:.0f} {verdict.slo.latency} samples ({s.min_samples} needed)"
            return Reason.HOLD_THIN_EVIDENCE, why
        if not target.by_model and scene.state.oom_limit is None and scene.state.slo_limit is None:
            why = (
                f"without a model nobody knows that steps of {target.tokens:.0f} tokens keep {verdict.slo.bound_s:g} s"
            )
            return Reason.HOLD_THIN_EVIDENCE, why
        if verdict.excess > (1.0 if target.by_model else s.slo_margin_ratio):
            return Reason.HOLD_SLO_MARGIN, f"{verdict.describe()}, no margin to grow into"
    if scene.since_change_s < s.raise_interval_s:
        return Reason.HOLD_EFFECT_PENDING, f"the last change is {scene.since_change_s:.1f} s old"
    return None


def _settled(scene: Scene, target: Target) -> Answer:
    if scene.oom is not None:
        return _hold(scene, Reason.HOLD_AT_FLOOR, f"it must not be less, although {scene.oom.clause}")
    return _hold(scene, Reason.HOLD_STEADY, target.because)


def _hold(scene: Scene, reason: Reason, why: str) -> Answer:
    return Answer(scene.now, reason, f"Holding {scene.now:.0f} tokens: {why}.")
