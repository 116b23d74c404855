"""Whether the engine has anything left to give to those who wait.

Belongs here: what is full and cannot be raised, whoever holds it. Never: whether anybody is late.
"""

from __future__ import annotations

from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.view import View
from policies import profiles
from policies.batch_resize import BatchResizeSettings
from policies.batch_resize.scene import ceiling
from policies.load_shed.settings import LoadShedSettings
from policies.load_shed.state import LoadShedState


def spent(settings: LoadShedSettings, batch: BatchResizeSettings, state: LoadShedState, view: View) -> str | None:
    """What is at its limit, as a clause; None: something may still be raised, or that is not known.

    A cap at its highest, the hardware's limit included, is that whether it is full or not: what holds the queue then is
    beyond it.
    """
    cap = view.knob(MAX_NUM_SEQS)
    if view.runtime is None or cap is None or cap.value is None:
        return None
    highest = ceiling(batch, cap, profiles.of_engine(view.gpu_names))
    if cap.value >= highest:
        whose = "the start-up maximum" if cap.maximum is not None and highest >= cap.maximum else "the hardware's limit"
        return f"the cap of {cap.value:.0f} is {whose}"
    kv = view.kv_cache_usage_ratio
    if kv is not None and kv >= settings.kv_room_ratio:
        return f"the KV cache is {kv:.0%} used"
    still_s = state.cap.still_s(view.now_s)
    if _cap_full(settings, view) and still_s >= settings.still_s:
        return f"the cap of {cap.value:.0f} is full and was not raised for {still_s:.0f} s"
    still_s = state.budget.still_s(view.now_s)
    if _steps_full(settings, view) and still_s >= settings.still_s:
        return f"steps are full at {state.budget.value or 0:.0f} tokens, which was not raised for {still_s:.0f} s"
    return None


def full(settings: LoadShedSettings, view: View) -> bool | None:
    """Something is used up, so that those who wait do not wait for the next step alone; None: not known."""
    kv, used = view.kv_cache_usage_ratio, view.batch_utilization_ratio
    if _cap_full(settings, view) or _steps_full(settings, view) or (kv is not None and kv >= settings.kv_room_ratio):
        return True
    return None if kv is None or used is None else False


def _cap_full(settings: LoadShedSettings, view: View) -> bool:
    cap = view.knob(MAX_NUM_SEQS)
    if view.runtime is None or cap is None or cap.value is None:
        return False
    return max((core.running for core in view.runtime.cores), default=0) >= settings.binding_ratio * cap.value


def _steps_full(settings: LoadShedSettings, view: View) -> bool:
    used = view.batch_utilization_ratio
    return used is not None and used >= settings.binding_ratio and view.knob(MAX_NUM_BATCHED_TOKENS) is not None
