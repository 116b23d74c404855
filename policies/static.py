"""The seeds' rollback: one fixed batch size, nothing adaptive. It runs alone, in mode `static`.

Belongs here: the fixed values. Never: a condition.
"""

from __future__ import annotations

from pydantic import Field

from domain.decision import Proposal, Reason
from domain.runtime import MAX_NUM_SEQS
from domain.view import View
from policies.base import PolicySettings


class StaticSettings(PolicySettings):
    """`fixed_batch_size` is the seeds' VLLM_FIXED_BATCH_SIZE."""

    fixed_batch_size: int = Field(default=8, ge=1)


class Static:
    """Proposes the fixed batch size at every tick, so that anything that moved the cap is set right again."""

    name = "static"

    def __init__(self, settings: StaticSettings) -> None:
        self.settings = settings

    def initial_state(self) -> None:
        return None

    def decide(self, state: None, view: View) -> tuple[None, tuple[Proposal, ...]]:
        wanted = self.settings.fixed_batch_size
        if view.runtime is None or view.runtime.knob(MAX_NUM_SEQS) is None:
            why = "No proposal: the cap in force is not known."
            return None, (Proposal(self.name, MAX_NUM_SEQS, None, Reason.ABSTAIN_UNKNOWN, why),)
        sentence = f"Static batch: max_num_seqs stays at {wanted}."
        return None, (Proposal(self.name, MAX_NUM_SEQS, wanted, Reason.STATIC_BATCH, sentence),)
