"""The engine as it was met last: which boot, and the values of its knobs.

Belongs here: noticing another boot or another value, opening a run for a boot. Never: what is done about either.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from controller.history.recorder import Recorder
from domain.runtime import EngineRuntime

logger = logging.getLogger(__name__)


class Boots:
    """One for the daemon's life."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.runtime: EngineRuntime | None = None
        """The last one that answered."""
        self.values: Mapping[str, float | None] = {}

    def meet(self, at: datetime, runtime: EngineRuntime, url: str, *, steers: bool) -> bool:
        """Answers whether anybody has moved a knob, or the engine is another than at the meeting before."""
        values = {name: (knob.value if (knob := runtime.knob(name)) else None) for name in runtime.envelope}
        another = self.runtime is None or runtime.boot_id != self.runtime.boot_id
        moved, self.values, self.runtime = another or values != self.values, values, runtime
        if another:
            self._recorder.begin_run(at, url, runtime)
            logger.info(
                "engine: %s vLLM %s at %s, boot %s, envelope %s",
                "steering" if steers else "watching",
                runtime.vllm_version,
                url,
                runtime.boot_id,
                ", ".join(f"{name}={value:g}" for name, value in runtime.envelope.items()),
            )
        return moved
