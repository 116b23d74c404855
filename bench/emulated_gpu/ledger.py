"""What the device remembers of each request. Turning a scheduled step into tokens belongs here; time never does.

A request's answer has a token at every step that computes the last token it has so far: not while a prompt is still
being read in chunks, and not while a preempted request is being computed anew. With two batches in flight the
scheduler counts the tokens it has been promised but has not seen, so the position is right there too. The ledger keeps
its own count beside the scheduler's and refuses to go on when they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.emulated_gpu.tokens import TokenRule, seed_of


class LedgerError(RuntimeError):
    """The scheduler and the device disagree about a request. Final: one of the two has a defect."""


@dataclass(slots=True)
class _Entry:
    seed: int
    prompt_tokens: int
    answered_tokens: int


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """One step as the device sees it."""

    request_ids: list[str]
    """The requests in it, in the scheduler's order."""
    sampled: list[list[int]]
    """For each request the token produced, or nothing."""
    tokens: int
    """Tokens computed in the step."""
    context_tokens: int
    """Tokens that were in the KV cache before the step, summed over its requests (vLLM's ``num_computed_tokens``)."""


class Ledger:
    """Requests on the device, by id."""

    def __init__(self, rule: TokenRule) -> None:
        self._rule = rule
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def run(self, scheduled: Any) -> DeviceStep:
        """Computes one ``SchedulerOutput`` of vLLM. Raises ``LedgerError`` when it contradicts the steps before."""
        for request_id in scheduled.finished_req_ids:  # first: the id may have been taken again
            self._entries.pop(request_id, None)
        computed = {**self._admit(scheduled.scheduled_new_reqs), **self._resume(scheduled.scheduled_cached_reqs)}
        sampled = [self._sample(i, computed[i] + n) for i, n in scheduled.num_scheduled_tokens.items()]
        return DeviceStep(
            request_ids=list(scheduled.num_scheduled_tokens),
            sampled=sampled,
            tokens=scheduled.total_num_scheduled_tokens,
            context_tokens=sum(computed[request_id] for request_id in scheduled.num_scheduled_tokens),
        )

    def _admit(self, new_requests: Any) -> dict[str, int]:
        """Takes in requests seen for the first time (or, under vLLM's second model runner, again after preemption)."""
        computed: dict[str, int] = {}
        for request in new_requests:
            prompt_tokens = len(request.prompt_token_ids)
            known = request.prefill_token_ids
            answered = 0 if known is None else len(known) - prompt_tokens
            self._entries[request.req_id] = _Entry(seed_of(request.req_id), prompt_tokens, answered)
            computed[request.req_id] = request.num_computed_tokens
        return computed

    def _resume(self, cached: Any) -> dict[str, int]:
        """Checks requests seen before; one that was preempted goes on from where the scheduler says it was."""
        for request_id, answered in zip(cached.req_ids, cached.num_output_tokens, strict=True):
            entry = self._entries.get(request_id)
            if entry is None:
                raise LedgerError(f"cannot run a step: request {request_id} was never admitted")
            if request_id in cached.resumed_req_ids:
                entry.answered_tokens = answered
            elif entry.answered_tokens != answered:
                raise LedgerError(
                    f"cannot run a step: request {request_id} has {answered} tokens by the scheduler and "
                    f"{entry.answered_tokens} by the device"
                )
        return dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))

    def _sample(self, request_id: str, computed_after: int) -> list[int]:
        entry = self._entries[request_id]
        if computed_after < entry.prompt_tokens + entry.answered_tokens:
            return []
        token = self._rule.token(entry.seed, entry.answered_tokens)
        entry.answered_tokens += 1
        return [token]
