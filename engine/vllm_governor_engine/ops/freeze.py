"""An operator's stop.

Here: what POST freeze does in one engine core. Payload: `expect` (its keys are the boot_ids), `frozen`. Never here:
what is refused meanwhile; the operations that change something ask the governor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def freeze(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Put the knobs at their fallback values and keep them there, or let go. Doing it twice does no more."""
    governor.require_current(payload["expect"], with_generation=False)
    governor.set_frozen(payload["frozen"])
