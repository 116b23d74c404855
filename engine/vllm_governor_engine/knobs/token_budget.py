"""The knob `max_num_batched_tokens`: how many tokens one step may hold.

Here: the budget and its floor. Never here: the size of a prefill chunk, which is a knob of its own.

Source: `scheduler.max_num_scheduled_tokens`, read at the start of each schedule(). vLLM serves running requests in
order, so a budget below what the running decodes need gives the last of them nothing for as long as it lasts. That
is why the floor follows the cap and the running count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm_governor_engine import probe

from .admission_cap import NAME as CAP
from .admission_cap import admission_limit
from .base import NATIVE, Bounds, Engine, Support, Value, Values, check_int, read_int, reads_int

NAME = "max_num_batched_tokens"
_ATTRIBUTE = "max_num_scheduled_tokens"


@dataclass(frozen=True)
class FloorFacts:
    """What of the start-up configuration bears on the floor. Tokens throughout."""

    tokens_per_decode: int = 1
    """One, and one more for each draft token."""
    block_size: int = 1
    whole_prompt: int = 0
    """max_model_len where prompts are not split (chunked prefill off), else 0."""
    beside_decodes: int = 0
    """What must fit in beside the decodes: a whole multimodal item, or a Mamba block that has to end aligned."""

    def floor(self, decodes: int) -> tuple[int, str]:
        """The smallest budget with which `decodes` running requests and one prompt all advance, and why."""
        needs = (
            (decodes * self.tokens_per_decode + self.beside_decodes, f"{decodes} running requests need that many"),
            (self.block_size, "one block of the KV cache has that many tokens"),
            (self.whole_prompt, "chunked prefill is off and a prompt can be that long"),
        )
        return max(needs, key=lambda need: need[0])


def read_floor_facts(scheduler: Any, vllm_config: Any) -> FloorFacts:
    """Gather the facts from live objects. What an older vLLM does not have counts as not in use."""
    scheduler_config = getattr(vllm_config, "scheduler_config", None)
    cache_config = getattr(vllm_config, "cache_config", None)
    block_size = getattr(scheduler, "block_size", None) or getattr(cache_config, "block_size", None) or 1
    beside = 0
    if getattr(cache_config, "mamba_cache_mode", None) == "align":
        beside = int(block_size)
    whole_items = getattr(scheduler_config, "disable_chunked_mm_input", False)
    if whole_items or getattr(scheduler, "is_encoder_decoder", False):
        beside = max(beside, int(getattr(scheduler, "max_num_encoder_input_tokens", 0) or 0))
    chunked = getattr(scheduler_config, "enable_chunked_prefill", True)
    max_model_len = int(getattr(scheduler, "max_model_len", 0) or 0)
    return FloorFacts(
        tokens_per_decode=1 + int(getattr(scheduler, "num_spec_tokens", 0) or 0),
        block_size=int(block_size),
        whole_prompt=0 if chunked else max_model_len,
        beside_decodes=beside,
    )


class TokenBudget:
    """The token budget; see the module."""

    name = NAME
    part = NAME

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        scheduler = engine.scheduler
        self.support = NATIVE
        if not probe.reads(type(scheduler), "schedule", _ATTRIBUTE) or not reads_int(scheduler, _ATTRIBUTE):
            why = f"{type(scheduler).__name__}.schedule() reads no token budget this plugin knows"
            self.support = Support("off", why)
        self.startup: Value = 0 if self.support.off else read_int(scheduler, _ATTRIBUTE)
        self._facts = read_floor_facts(scheduler, engine.vllm_config)
        self._limit, support = admission_limit(scheduler)
        self._limit_is_cap = support == NATIVE
        self._settle_at: Value | None = None  # where the budget goes once fewer requests are running

    def read(self) -> Value:
        """The budget in force."""
        return read_int(self._engine.scheduler, _ATTRIBUTE)

    def check_type(self, value: object) -> Value:
        """An integer."""
        return check_int(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """What the decodes of a full batch under the planned cap need, up to the start-up value."""
        cap = plan.get(CAP)  # absent where that knob is off: then what vLLM admits by is the cap
        floor, why = self._facts.floor(max(self._admitted(running) if cap is None else int(cap), running))
        # A server may have been started below its own floor; then the budget cannot move, which is still inside.
        return Bounds(min(floor, self.startup), self.startup, why)

    def apply(self, value: Value) -> None:
        """Set the budget for the next step.

        A lease's fallback cannot be refused, and more requests than its cap allows may still be running then. So the
        budget is held at what they need and goes down with them, as far as the cap in force lets it.
        """
        if value >= self.startup:
            self.release()
            return
        self._settle_at = value
        needed = min(self.startup, self._engine.running * self._facts.tokens_per_decode)
        setattr(self._engine.scheduler, _ATTRIBUTE, max(value, needed))
        # The cap may be set after this, in the same call: what it needs is looked at when the next step begins.
        self._engine.before_each_step(self.name, self._settle)

    def release(self) -> None:
        """Back to the start-up value, at which nothing starves."""
        self._settle_at = None
        self._engine.hook.remove(self.name)
        setattr(self._engine.scheduler, _ATTRIBUTE, self.startup)

    def _admitted(self, running: int) -> int:
        """How many requests vLLM admits now, as far as that is known."""
        return read_int(self._engine.scheduler, self._limit) if self._limit else running

    def _settle(self) -> None:
        if self._settle_at is None:
            return
        running = self._engine.running
        cap = self._admitted(running)
        needed = min(self.startup, self._facts.floor(max(cap, running))[0])
        setattr(self._engine.scheduler, _ATTRIBUTE, max(self._settle_at, needed))
        # A ratchet's limit is never below the running count, so there it does not tell that the draining is over.
        drained = self._limit_is_cap and running <= cap
        if needed <= self._settle_at or drained:
            self._settle_at = None
            self._engine.hook.remove(self.name)
