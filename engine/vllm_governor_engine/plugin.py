"""The entry point of `vllm.general_plugins`.

Here: giving EngineCore its one extra method. vLLM runs this unguarded in every process, so it never raises, and doing
it twice does no harm. Never here: anything the method does.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

METHOD = "governor_call"
"""The name under which the API process calls into an engine core."""


def register() -> None:
    """Add `EngineCore.governor_call(op, payload_json)`; touches nothing else of vLLM."""
    try:
        engine_core = importlib.import_module("vllm.v1.engine.core").EngineCore
        if METHOD not in vars(engine_core):
            setattr(engine_core, METHOD, governor_call)
    except Exception:
        logging.getLogger("vllm_governor_engine").exception("cannot add the governor to this vLLM; it goes on without")


def governor_call(self: Any, op: str, payload_json: str) -> str:
    """Run one governor operation in this engine core. `self` is the EngineCore."""
    from .core import call

    return call(self, op, payload_json)
