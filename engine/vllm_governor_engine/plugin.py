"""The entry point of `vllm.general_plugins`.

Here: giving EngineCore and the workers one extra method each. vLLM runs this unguarded in every process, so it never
raises, and doing it twice does no harm. Never here: anything the method does.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

from .stats import allocator

METHOD = "governor_call"
"""The name under which the API process calls into an engine core."""


def register() -> None:
    """Add `EngineCore.governor_call(op, payload_json)` and `WorkerBase.governor_allocator()`; touches nothing else."""
    _add("vllm.v1.engine.core", "EngineCore", METHOD, governor_call)
    _add("vllm.v1.worker.worker_base", "WorkerBase", allocator.METHOD, allocator.worker_method)


def _add(module: str, owner: str, name: str, method: Callable[..., Any]) -> None:
    try:
        cls = getattr(importlib.import_module(module), owner)
        if name not in vars(cls):
            setattr(cls, name, method)
    except Exception:
        logger = logging.getLogger("vllm_governor_engine")
        logger.exception("cannot add %s to vLLM's %s; vLLM goes on without", name, owner)


def governor_call(self: Any, op: str, payload_json: str) -> str:
    """Run one governor operation in this engine core. `self` is the EngineCore."""
    from .core import call

    return call(self, op, payload_json)
