"""Fixed values, nothing adaptive: the seeds' static batch, and their rollback. It runs alone, in mode `static`.

Belongs here: the fixed values and proposing them. Never: a condition, when a rollback begins or ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from domain.decision import Priority, Proposal, Reason
from domain.knobs import MAX_NUM_SEQS
from domain.view import View
from policies.base import PolicySettings
from policies.trial import shown


class StaticSettings(PolicySettings):
    """What mode `static` and a rollback hold: `[policies.static]`. `fixed_batch_size` is the seeds'
    VLLM_FIXED_BATCH_SIZE.
    """

    fixed_batch_size: int = Field(default=8, ge=1, description="the batch in mode static and after a rollback")
    rollback_tokens: int = Field(default=4096, ge=1, description="the budget after a rollback, if it was not smaller")
    rollback_queue: int = Field(default=100, ge=0, description="how many may wait after a rollback")
    rollback_connection_close: bool = Field(default=True, description="keep-alive is off after a rollback")

    @property
    def values(self) -> dict[str, float]:
        """What mode `static` holds."""
        return {MAX_NUM_SEQS: self.fixed_batch_size}


class Static:
    """Proposes its values at every tick, so that anything that moved a knob is set right again.

    That they are to be held was an operator's word, so no guard but the engine's own bounds stands in their way.
    """

    name = "static"

    def __init__(
        self, values: Mapping[str, float], reason: Reason = Reason.STATIC_BATCH, why: str = "Static batch"
    ) -> None:
        self.values = dict(values)
        self.reason = reason
        self.why = why

    def initial_state(self) -> None:
        return None

    def decide(self, state: None, view: View) -> tuple[None, tuple[Proposal, ...]]:
        return None, tuple(self._hold(view, name, wanted) for name, wanted in self.values.items())

    def _hold(self, view: View, name: str, wanted: float) -> Proposal:
        if view.runtime is None or view.runtime.knob(name) is None:
            what = "the cap in force" if name == MAX_NUM_SEQS else f"the engine's {name}"
            return Proposal(self.name, name, None, Reason.ABSTAIN_UNKNOWN, f"No proposal: {what} is not known.")
        sentence = f"{self.why}: {name} stays at {shown(wanted)}."
        return Proposal(self.name, name, wanted, self.reason, sentence, priority=Priority.OPERATOR)
