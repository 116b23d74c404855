"""Reading.

Here: the operation that changes nothing. Never here: what the runtime looks like; that is the governor's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def read(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Nothing to do: the runtime is every operation's answer."""
