"""The capacity model's answer: how long a step of so many tokens takes on this engine, and how sure that is.

Belongs here: the fitted model as a value and the questions it can be asked. Never: the fitting (policies/capacity.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capacity:
    """Step time ~ a + b tokens + c context: seconds, seconds a token, seconds a token of context."""

    a_s: float
    b_s: float
    c_s: float
    relative_error: float
    """Typical size of what the model misses, over the mean step time."""
    windows: int
    """How many windows of steps it was fitted from."""
    trusted: bool
    why: str
    """Why it is trusted or not, as a sentence."""
    request_context: float | None = None
    """Tokens that one running request has in the KV cache, mean over the last windows; None: not known."""

    def step_s(self, tokens: float, context: float) -> float:
        """Predicted seconds of one step."""
        return self.a_s + self.b_s * tokens + self.c_s * context

    def most_tokens(self, limit_s: float, context: float) -> float | None:
        """The largest step, in tokens, that stays under `limit_s` with this context; None when tokens cost nothing."""
        return None if self.b_s <= 0 else max(0.0, (limit_s - self.a_s - self.c_s * context) / self.b_s)

    def most_decodes(self, limit_s: float, mean_context: float) -> float | None:
        """The most requests that can decode together under `limit_s`, each with this mean context."""
        each_s = self.b_s + self.c_s * mean_context
        return None if each_s <= 0 else max(0.0, (limit_s - self.a_s) / each_s)
