"""Preempting running requests between two steps, the way vLLM's own scheduler does it inside one.

Here: whether that is safe on the scheduler at hand, and doing it. Never here: the admission cap, without which the next
step would take them in again.

A preempted request keeps its tokens, goes to the front of the waiting queue and is computed anew; none is lost. What
makes it safe while batches are in flight (async scheduling, pipeline parallelism) is the scheduler's own bookkeeping
of output that is stale by the time it comes back (vLLM 0.27 on at the latest): it is delivered, and until then the
request is not resumed. Without that, output on its way would be counted twice, so there it is refused.
"""

from __future__ import annotations

import inspect
import time
from typing import Any

from . import probe
from .knobs.base import NATIVE, Support

_PREEMPT = "_preempt_request"
_STALE = "num_stale_output_tokens"
_DROP = "drop_stale_output"


def preempt_support(scheduler: Any, vllm_config: Any) -> Support:
    """Whether requests may be preempted between two steps: native, or off and why."""
    kind = type(scheduler)
    parameters = _parameters(getattr(scheduler, _PREEMPT, None))
    if parameters[:2] != ["request", "timestamp"]:
        return Support("off", f"{kind.__name__} preempts in a way this plugin does not know")
    if not isinstance(getattr(scheduler, "running", None), list) or not hasattr(scheduler.waiting, "prepend_request"):
        return Support("off", f"{kind.__name__} does not keep its requests where this plugin knows them")
    if _DROP in parameters and all(probe.reads(kind, method, _STALE) for method in ("schedule", "update_from_output")):
        return NATIVE
    if _batches_in_flight(vllm_config):
        return Support("off", f"batches are in flight and {kind.__name__} does not tell stale output from fresh")
    return NATIVE


def preempt_newest(scheduler: Any, count: int) -> int:
    """Preempt the newest `count` running requests, those vLLM would choose; how many they were.

    A request is never between two queues: if vLLM's method raises, it is put where its state says.
    """
    extra = {}
    if _DROP in _parameters(getattr(scheduler, _PREEMPT)):
        # As inside a step: dropped only where a connector needs the blocks that the output belongs to.
        extra[_DROP] = bool(getattr(scheduler, "requires_kv_delivery", False))
    now = time.monotonic()
    preempted: list[str] = []
    for _ in range(count):
        if not scheduler.running:
            break
        preempted.append(_preempt(scheduler, _next_victim(scheduler), now, extra))
    # Should one be resumed in the very next step, the runner has to be told all of its tokens, as after a pause.
    sent_last = getattr(scheduler, "prev_step_scheduled_req_ids", None)
    if sent_last is not None:
        sent_last.difference_update(preempted)
    return len(preempted)


def _preempt(scheduler: Any, request: Any, now: float, extra: dict[str, bool]) -> str:
    place = scheduler.running.index(request)
    del scheduler.running[place]
    try:
        getattr(scheduler, _PREEMPT)(request, now, **extra)  # puts it at the front of the waiting queue
    except Exception:
        if request.status.name == "RUNNING":
            scheduler.running.insert(place, request)
        elif request not in list(scheduler.waiting):
            scheduler.waiting.prepend_request(request)
        raise
    return str(request.request_id)


def _next_victim(scheduler: Any) -> Any:
    if getattr(getattr(scheduler, "policy", None), "value", None) == "priority":
        return max(scheduler.running, key=lambda request: (request.priority, request.arrival_time))
    return scheduler.running[-1]


def _parameters(method: Any) -> list[str]:
    try:
        return list(inspect.signature(method).parameters)
    except (TypeError, ValueError):
        return []


def _batches_in_flight(vllm_config: Any) -> bool:
    """Whether there may be output on its way between two steps."""
    scheduling = getattr(vllm_config, "scheduler_config", None)
    parallel = getattr(vllm_config, "parallel_config", None)
    return bool(getattr(scheduling, "async_scheduling", True)) or getattr(parallel, "pipeline_parallel_size", 1) != 1
