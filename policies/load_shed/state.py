"""What load_shed carries from one view to the next.

Belongs here: the state, and what is noticed of cap, budget and queue limit whoever moved them. Never: what is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.view import View
from policies.hysteresis import OFF, Held


@dataclass(frozen=True, slots=True)
class Level:
    """A knob's value and when it was last raised, or first seen."""

    value: float | None = None
    risen_s: float | None = None

    def at(self, value: float | None, now_s: float) -> Level:
        """The next one. An unknown value says nothing."""
        if value is None or value == self.value:
            return self
        risen = self.value is None or value > self.value
        return Level(value, now_s if risen else self.risen_s)

    def still_s(self, now_s: float) -> float:
        """Seconds since it was raised; 0 where it was never seen."""
        return 0.0 if self.risen_s is None else now_s - self.risen_s


@dataclass(frozen=True, slots=True)
class LoadShedState:
    """Plain values; times are the View's monotonic seconds."""

    boot_id: str | None = None
    cap: Level = Level()
    budget: Level = Level()
    bounded: bool = False
    """A limit was in force at the last view."""
    shed: Held = OFF
    """Off: the queue is not to be bounded; how long there has been cause to. On: the other way round."""
    limit: float | None = None
    """How many may wait, worked out when the queue was bounded; None: it was found bounded, by whomever."""


def observe(state: LoadShedState, view: View, bounded: bool) -> LoadShedState:
    """Notice a new boot, a cap or a budget that was raised, and a queue that is bounded already, by whomever."""
    boot_id = view.runtime.boot_id if view.runtime is not None else state.boot_id
    if boot_id != state.boot_id:
        state = LoadShedState(boot_id=boot_id)
    if bounded and not state.bounded and not state.shed.on:
        state = replace(state, shed=Held(on=True), limit=None)
    cap, budget = view.knob(MAX_NUM_SEQS), view.knob(MAX_NUM_BATCHED_TOKENS)
    return replace(
        state,
        bounded=bounded,
        cap=state.cap.at(cap.value if cap is not None else None, view.now_s),
        budget=state.budget.at(budget.value if budget is not None else None, view.now_s),
    )
