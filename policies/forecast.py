"""What a value of a knob would have done at this moment, by the capacity model.

Belongs here: the prediction and why there is none. Never: fitting the model, adding predictions up.

In a decode step each of n running requests makes one token, and prefill adds its share: it costs a + b n (1 + p) + c n
context, with p the prompt tokens processed for each generated one. What is left out: that more at once may thrash the
KV cache, that batching changes the hit rate, and how arrivals would have answered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.view import View


@dataclass(frozen=True, slots=True)
class Forecast:
    """`step_s`: a usual step of decoding requests under a cap, the longest one under a token budget."""

    step_s: float
    tokens_per_s: float | None
    """Generated tokens a second; None where the model does not say."""


def forecast(view: View, knob: str, value: float) -> Forecast | str:
    """The prediction for `value` in place of the one in force; else why there is none, as the end of a sentence."""
    model, running = view.capacity, view.running
    if knob not in (MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS):
        return f"no model covers {knob}"
    if model is None:
        return "no capacity model was fitted"
    if not model.trusted:
        return "the capacity model was not trusted"
    if model.request_context is None:
        return "the context of a request was not known"
    if running is None or view.waiting is None or view.runtime is None:
        return "the load was not known"
    if running < 1:
        return "nothing ran"
    cores = max(1, len(view.runtime.cores))
    if knob == MAX_NUM_BATCHED_TOKENS:
        return Forecast(model.step_s(value, running / cores * model.request_context), None)
    demand = view.demand if view.demand is not None else view.waiting
    prefill = _prefill_share(view)
    if prefill is None:
        return "the share of prefill was not known"
    at_once = min(value, (running + demand) / cores)
    step_s = model.step_s(at_once * (1 + prefill), at_once * model.request_context)
    return Forecast(step_s, cores * at_once / step_s) if step_s > 0 and math.isfinite(step_s) else "a step took no time"


def _prefill_share(view: View) -> float | None:
    """Prompt tokens processed for each generated one."""
    prompts, generated = view.prompt_tokens_per_s, view.generation_tokens_per_s
    return None if prompts is None or not generated else prompts / generated
