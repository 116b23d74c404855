"""Taking a change back that other engine cores did not make.

Here: the second half of all-or-none over several engine cores. Payload: `change_id`, and `undo`: by boot_id the knobs
as they were before. Never here: the decision to undo; that is the API
process's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def undo(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Put the knobs back if this core made the change and nobody changed anything since; otherwise do nothing.

    A freeze since then is such a change.
    """
    before = payload["undo"].get(governor.boot_id)
    if before is not None and governor.last_change == (payload["change_id"], governor.generation):
        governor.change(governor.knobs.check(before), "undo")
