"""How long one step takes on the emulated GPU. The arithmetic belongs here; reading it from anywhere never does."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class StepModel:
    """Step time = base + tokens x per token + context tokens x per context token.

    The defaults are the round figures of a mid-size model on a data-centre GPU that the design's simulation uses
    (18 ms + 90 us/token + 60 ns/context token). Everything zero makes a device that answers at once.
    Raises ``ValueError`` when a value is negative or not finite.
    """

    base_ms: float = 18.0
    """Milliseconds every step costs, whatever is in it: weights read, kernels launched."""
    per_token_us: float = 90.0
    """Microseconds per token scheduled in the step, prompt and output alike."""
    per_context_token_ns: float = 60.0
    """Nanoseconds per token already in the KV cache that the step's requests attend to."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0) or value is True:
                raise ValueError(f"cannot use {field.name}={value!r}: it must be a finite number of at least 0")

    def step_s(self, tokens: int, context_tokens: int) -> float:
        """Seconds a step of ``tokens`` scheduled tokens takes over ``context_tokens`` cached ones; 0 without tokens."""
        if tokens == 0:
            return 0.0
        return self.base_ms * 1e-3 + self.token_s(tokens) + context_tokens * self.per_context_token_ns * 1e-9

    def token_s(self, tokens: int) -> float:
        """The part of a step that its scheduled tokens take, seconds."""
        return tokens * self.per_token_us * 1e-6


INSTANT = StepModel(base_ms=0.0, per_token_us=0.0, per_context_token_ns=0.0)
"""A device that takes no time."""
