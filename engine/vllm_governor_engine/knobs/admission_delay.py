"""The knob `admission_delay_ms`: how long arrivals are held, while others run, so as to be admitted together.

Here: the knob, and what limits it. Never here: how it is done; that is the admission window's (window.py).
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine.window import PART, AdmissionWindow

from .base import NATIVE, Bounds, Engine, Support, Value, Values, check_number

NAME = PART
HIGHEST_MS = 100.0


class AdmissionDelay:
    """The admission delay, ms; see the module. The start-up value is vLLM's behaviour: 0, nobody is held."""

    name = NAME
    part = PART

    def __init__(self, engine: Engine) -> None:
        self._window = engine.share(AdmissionWindow)
        self.support = _support(engine, self._window)
        self.startup: Value = 0.0
        self._value = 0.0

    def read(self) -> Value:
        """The delay in force, ms."""
        return self._value

    def check_type(self, value: object) -> Value:
        """A number."""
        return check_number(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """0 .. 100 ms: longer waits than that are a queue's business."""
        return Bounds(0.0, HIGHEST_MS)

    def apply(self, value: Value) -> None:
        """Hold arrivals so long from the next step on; at 0 everybody who is held goes then."""
        self._window.set_delay(value / 1000)
        self._value = float(value)

    def release(self) -> None:
        """Nobody is held, and nothing hangs in the hook."""
        self._value = 0.0
        self._window.stop()


def _support(engine: Engine, window: AdmissionWindow) -> Support:
    if window.support.off:
        return window.support
    if why := _lacks(engine.scheduler):
        return Support("off", why)
    limits = []
    if getattr(engine.scheduler, "connector", None) is not None:
        limits.append("nobody is held while a waiting request has KV blocks, and a load begins when its window ends")
    parallel = getattr(engine.vllm_config, "parallel_config", None)
    if int(getattr(parallel, "pipeline_parallel_size", 1) or 1) > 1:
        limits.append("with pipeline parallelism a held arrival leaves a stage idle until its window ends")
    scheduling = getattr(engine.vllm_config, "scheduler_config", None)
    if int(getattr(scheduling, "prefill_schedule_interval", 1) or 1) > 1:
        limits.append("vLLM's balancing of prefills over ranks takes a window for a full engine and pauses")
    return Support("limited", "; ".join(limits)) if limits else NATIVE


def _lacks(scheduler: Any) -> str | None:
    """What of the live scheduler the window needs and does not find."""
    requests, running = getattr(scheduler, "requests", None), getattr(scheduler, "running", None)
    if not isinstance(requests, dict) or not isinstance(running, list):
        return f"{type(scheduler).__name__} does not keep its requests where this plugin knows them"
    return None
