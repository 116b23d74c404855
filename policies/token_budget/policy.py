"""The policy: four knobs from one view, and the evidence that goes with them.

Belongs here: the order of things and what is carried on. Never: a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from domain.decision import Priority, Proposal, Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS
from domain.view import View
from policies import aim, idle, oom
from policies.token_budget import budget, prefill, table
from policies.token_budget.scene import Scene
from policies.token_budget.settings import TokenBudgetSettings
from policies.token_budget.state import TokenBudgetState, observe
from policies.verdict import judge


class TokenBudget:
    """How much one step computes, and how arrivals are gathered for it."""

    name = table.POLICY

    def __init__(self, settings: TokenBudgetSettings) -> None:
        self.settings = settings

    def initial_state(self) -> TokenBudgetState:
        """Before the first view."""
        return TokenBudgetState()

    def decide(self, state: TokenBudgetState, view: View) -> tuple[TokenBudgetState, tuple[Proposal, ...]]:
        """Proposals for max_num_batched_tokens, admission_delay_ms, length_grouping, long_prefill_token_threshold."""
        knob = view.knob(MAX_NUM_BATCHED_TOKENS)
        state = observe(state, self.settings, view, knob.value if knob is not None else None)
        state = table.follow(state, self.settings, view)
        memory, signature = oom.watch(state.oom, view, self.settings.oom)
        state = replace(state, oom=memory)
        proposals = []
        if self.settings.window:
            proposals += [table.delay(state, self.settings, view), table.grouping(state, self.settings, view)]
        state, limited = prefill.decide(state, self.settings, view)
        proposals += [limited] if limited is not None else []
        if view.runtime is None or knob is None or knob.value is None:
            why = "No proposal: the engine has no token budget to steer, or has not answered."
            return state, (self._proposal(None, Reason.ABSTAIN_UNKNOWN, why), *_at_rest(view, proposals))
        hardest = aim.hardest(judge(view, slo) for slo in view.slos)
        scene = Scene(self.settings, state, view, view.runtime, knob, knob.value, hardest, signature)
        state, answer = budget.decide(scene)
        made = self._proposal(answer.wanted, answer.reason, answer.sentence)
        if answer.wanted == knob.value and any(
            _reached(limit, knob.value) for limit in (state.oom_limit, state.slo_limit)
        ):
            made = replace(made, priority=Priority.SHRINK)  # a limit goes before anybody's raise
        made = replace(made, evidence=_evidence(replace(scene, state=state)))
        return state, tuple(_at_rest(view, [made, *proposals]))

    def _proposal(self, wanted: float | None, reason: Reason, sentence: str) -> Proposal:
        return Proposal(self.name, MAX_NUM_BATCHED_TOKENS, wanted, reason, sentence)


def _at_rest(view: View, proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    return (idle.rest(view, one) for one in proposals)


def _reached(limit: float | None, tokens: float) -> bool:
    return limit is not None and tokens >= limit


def _evidence(scene: Scene) -> dict[str, float | str | None]:
    view, verdict, model = scene.view, scene.verdict, budget.by_model(scene)
    return {
        "max_num_batched_tokens": scene.now,
        "requests_per_s": view.requests_per_s,
        "mean_prompt_tokens": view.mean_prompt_tokens,
        "running": scene.runtime.running,
        "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
        "preemptions_per_s": view.preemptions_per_s,
        "batch_utilization_ratio": view.batch_utilization_ratio,
        "effective_memory_ratio": view.effective_memory_ratio,
        "oom": scene.oom.clause if scene.oom is not None else None,
        "model": model if isinstance(model, str) else model.because,
        "inter_token_latency_over_ratio": verdict.over_ratio if verdict is not None else None,
        "inter_token_latency_samples": verdict.samples if verdict is not None else None,
    }
