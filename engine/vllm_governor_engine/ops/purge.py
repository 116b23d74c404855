"""Purging the prefix cache, and preempting the newest running requests.

Here: what POST purge does in one engine core. Payload: `expect` (its keys are the boot_ids), `ratio` (0..1), `preempt`
(a count, 0 for none). Never here: the pieces (purging.py), or vLLM's preemption (preempt.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm_governor_engine import errors
from vllm_governor_engine.knobs.admission_cap import NAME as CAP

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def check(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Raise what `purge` would raise, and change nothing."""
    governor.require_not_frozen()
    governor.require_current(payload["expect"], with_generation=False)
    purging = governor.purging
    if purging.under_way:
        raise errors.conflict("a purge is under way; read the runtime until it is done")
    if payload["ratio"] > 0 and purging.support.off:
        raise errors.cannot_purge("ratio", purging.support.reason)
    if payload["preempt"] > 0:
        if purging.preempt_support.off:
            raise errors.cannot_purge("preempt", purging.preempt_support.reason)
        if CAP not in governor.knobs.values():
            raise errors.cannot_purge("preempt", f"the knob {CAP} is off, and the next step would admit them again")
        if not governor.lease.held:
            raise errors.conflict("to preempt lowers the cap, which holds with a lease only; take one first")


def purge(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Preempt, lower the cap to what then runs, and begin to purge.

    One request at least goes on running: a cap of 0 is none.
    """
    check(governor, payload)
    scheduler = governor.scheduler
    preempted = 0
    count = min(payload["preempt"], len(scheduler.running) - 1)
    if count > 0:
        before = len(scheduler.running)
        try:
            governor.purging.preempt(count)
        finally:  # those that were preempted before it failed must not come back in the next step either
            preempted = before - len(scheduler.running)
            cap = min(governor.knobs.values()[CAP], max(1, len(scheduler.running)))
            governor.change({CAP: cap}, f"purge that preempted {preempted}")
    governor.purging.start(payload["ratio"], preempted)
