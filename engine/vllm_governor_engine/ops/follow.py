"""What an API process asks once a second.

Here: taking its report and answering what it has to put in force. Payload: `process`, its report. Never here: HTTP
clients; this call is made by the plugin itself and has no route.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def follow(governor: Governor, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Take the report; answer the wanted values, and when and to what to fall back if there is no further answer."""
    governor.take_report(payload["process"])
    return governor.describe_wanted()
