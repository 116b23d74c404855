"""long_prefill_token_threshold: how much of one prompt may go into one step.

Belongs here: the two causes to limit it (a GPU's golden set, short requests that suffer behind long prompts), once per
boot. Never: searching for a best value.
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Proposal, Reason
from domain.knobs import LONG_PREFILL_TOKEN_THRESHOLD
from domain.runtime import Knob
from domain.slo import Latency
from domain.view import View
from policies import profiles
from policies.token_budget.settings import TokenBudgetSettings
from policies.token_budget.state import TokenBudgetState
from policies.token_budget.table import POLICY, clamped
from policies.verdict import judge


def decide(
    state: TokenBudgetState, settings: TokenBudgetSettings, view: View
) -> tuple[TokenBudgetState, Proposal | None]:
    """Propose the limit until it is seen in force; after that, or where somebody set another, leave it alone."""
    knob = view.knob(LONG_PREFILL_TOKEN_THRESHOLD)
    if not settings.long_prefill:
        return state, None
    if knob is None or knob.value is None:
        why = "No proposal: the engine has no such knob to steer, or has not answered."
        return state, Proposal(POLICY, LONG_PREFILL_TOKEN_THRESHOLD, None, Reason.ABSTAIN_UNKNOWN, why)
    if state.prefill_done or knob.value != knob.startup or knob.value > 0:
        return replace(state, prefill_done=True), _hold(knob, "it was set before, and is left alone")
    cause = _golden(view) or _crowded(settings, view) if view.kv_cache_usage_ratio is not None else None
    if cause is None:
        return state, _hold(knob, "short requests do not suffer behind long prompts, as far as is known")
    reason, tokens, why = cause
    wanted = clamped(tokens, knob)
    sentence = f"A prompt takes at most {wanted:.0f} tokens of a step: {why}."
    evidence = {"latency_imbalance": view.latency_imbalance}
    return state, Proposal(POLICY, knob.name, wanted, reason, sentence, evidence)


def _golden(view: View) -> tuple[Reason, float, str] | None:
    profile = profiles.of_engine(view.gpu_names)
    if profile is None or profile.golden is None:
        return None
    return (
        Reason.START_PROFILE,
        profile.golden.prefill_chunk_tokens,
        f"the starting point of the {profile.name} profile",
    )


def _crowded(settings: TokenBudgetSettings, view: View) -> tuple[Reason, float, str] | None:
    """Requests of one length differ by much, and the first token comes late, though there is room."""
    imbalance, kv = view.latency_imbalance, view.kv_cache_usage_ratio
    if imbalance is None or imbalance < settings.latency_imbalance or kv is None or kv >= settings.kv_full_ratio:
        return None
    broken = [v for v in (judge(view, slo) for slo in view.slos if slo.latency is Latency.TTFT) if v.breached]
    if not broken:
        return None
    why = f"{broken[0].describe()}, and requests of one length differ {imbalance:.1f}-fold: long prompts are in the way"
    return Reason.LIMIT_LONG_PREFILL, settings.long_prefill_tokens, why


def _hold(knob: Knob, why: str) -> Proposal:
    sentence = f"Holding {knob.value or 0:.0f}: {why}."
    return Proposal(POLICY, knob.name, knob.value, Reason.HOLD_STEADY, sentence)
