"""The knob `long_prefill_token_threshold`: how many tokens of one prompt a step may hold.

Here: the threshold, where it may lie. Never here: the step's budget, which is a knob of its own.

Source: `scheduler_config.long_prefill_token_threshold`, read by each schedule(); 0 is no limit. vLLM cuts every
request to it that asks for more tokens in a step, a decode with its drafts included, and ignores it while there is
only one request.

The envelope. A threshold takes nothing from the engine that it was not started with: a chunk is never larger than the
token budget, whose envelope is the start-up value, and a request takes the same KV blocks in one chunk or in ten. So
both directions are open, 0 .. max_model_len (vLLM refuses more at its start), and the start-up value is only what it
falls back to. A small threshold costs the long prompt time, and others none: every step it takes part in serves them
too.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine import probe

from .base import NATIVE, Bounds, Engine, Support, Value, Values, check_int, read_int, reads_int
from .token_budget import read_floor_facts

NAME = "long_prefill_token_threshold"


class LongPrefill:
    """The long-prefill threshold; see the module."""

    name = NAME
    part = NAME

    def __init__(self, engine: Engine) -> None:
        self._config: Any = getattr(engine.scheduler, "scheduler_config", None)
        self.support = _support(engine, self._config)
        self.startup: Value = 0 if self.support.off else read_int(self._config, NAME)
        self._low, self._why_low = _smallest(engine)
        self._high = max(read_int(engine.scheduler, "max_model_len"), int(self.startup), self._low)

    def read(self) -> Value:
        """The threshold in force, tokens; 0 is none."""
        return read_int(self._config, NAME)

    def check_type(self, value: object) -> Value:
        """An integer."""
        return check_int(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """0, or what lets every request advance .. max_model_len."""
        if self._low <= 1:
            return Bounds(0, self._high)
        return Bounds(self._low, self._high, self._why_low, off=0)

    def apply(self, value: Value) -> None:
        """Set the threshold for the next step."""
        setattr(self._config, NAME, value)

    def release(self) -> None:
        """Back to the start-up value."""
        self.apply(self.startup)


def _support(engine: Engine, config: Any) -> Support:
    kind = type(engine.scheduler)
    if not probe.reads(kind, "schedule", NAME) or not reads_int(config, NAME):
        return Support("off", f"{kind.__name__}.schedule() reads no long-prefill threshold this plugin knows")
    if not getattr(config, "enable_chunked_prefill", True):
        return Support("off", "chunked prefill is off, and a threshold would cut prompts all the same")
    if getattr(config, "long_prefill_token_threshold_adaptive", False):
        how = "the server was started with the adaptive flag: vLLM raises it to max_num_batched_tokens / requests"
        return Support("limited", how)
    return NATIVE


def _smallest(engine: Engine) -> tuple[int, str]:
    """The smallest threshold with which every request still advances, tokens, and why."""
    scheduler = engine.scheduler
    facts = read_floor_facts(scheduler, engine.vllm_config)
    lookahead = int(getattr(scheduler, "num_prefill_lookahead", 0) or 0)
    needs = (
        (1, ""),
        (facts.tokens_per_decode, "a decode with its drafts has that many tokens and would be cut too"),
        (facts.beside_decodes, "a whole multimodal item, or a Mamba block, has to fit in a chunk"),
        (lookahead + 1 if lookahead else 0, "the draft model looks that far ahead in a prompt"),
    )
    return max(needs, key=lambda need: need[0])
