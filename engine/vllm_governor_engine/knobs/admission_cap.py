"""The knob `max_num_seqs`: how many requests may be running.

Here: where this vLLM reads its admission limit, and how to move it safely. Never here: preemption; a lowered cap
drains, running requests finish.

Source: `scheduler.max_num_active_reqs` (vLLM 0.31 on). Before that there is only `max_num_running_reqs`, which the
scheduler also asserts against: below the number of running requests it kills the engine. So there the cap is a ratchet,
set before every step to the larger of the cap and the running count.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine import probe

from .base import NATIVE, Bounds, Engine, Support, Value, Values, check_int, read_int, reads_int

NAME = "max_num_seqs"
_RATCHET = Support(
    "limited",
    "this vLLM has no separate admission limit; max_num_running_reqs is lowered step by step as requests finish, and "
    "the value shown is the cap that admission obeys",
)


def admission_limit(scheduler: Any) -> tuple[str, Support]:
    """The scheduler's attribute that admission obeys, and whether it can be moved."""
    for attribute, support in (("max_num_active_reqs", NATIVE), ("max_num_running_reqs", _RATCHET)):
        if probe.reads(type(scheduler), "schedule", attribute) and reads_int(scheduler, attribute):
            return attribute, support
    return "", Support("off", f"{type(scheduler).__name__}.schedule() reads no admission limit this plugin knows")


class AdmissionCap:
    """The admission cap; see the module."""

    name = NAME
    part = NAME

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._attribute, self.support = admission_limit(engine.scheduler)
        self.startup: Value = 0 if self.support.off else read_int(engine.scheduler, self._attribute)
        self._target: Value = self.startup  # the ratchet's: what max_num_running_reqs moves toward

    @property
    def _ratchet(self) -> bool:
        return self.support.level == "limited"

    def read(self) -> Value:
        """The cap admission obeys."""
        return self._target if self._ratchet else read_int(self._engine.scheduler, self._attribute)

    def check_type(self, value: object) -> Value:
        """An integer."""
        return check_int(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """1 (at 0 vLLM's loop spins without work) up to the start-up value."""
        return Bounds(1, self.startup)

    def apply(self, value: Value) -> None:
        """Set the cap; takes effect at the next step's admission."""
        if not self._ratchet:
            setattr(self._engine.scheduler, self._attribute, value)
            return
        if value == self.startup:  # nothing to hold back any more, so nothing of ours stays in place
            self.release()
            return
        self._engine.before_each_step(self.name, self._turn)
        self._target = value
        self._turn()

    def release(self) -> None:
        """Back to the start-up value, at which vLLM's assertion cannot fail."""
        self._engine.hook.remove(self.name)
        self._target = self.startup
        setattr(self._engine.scheduler, self._attribute, self.startup)

    def _turn(self) -> None:
        scheduler = self._engine.scheduler
        scheduler.max_num_running_reqs = min(self.startup, max(self._target, len(scheduler.running)))
