"""Setting knobs.

Here: what PATCH does in one engine core. Payload: `expect` (generation by boot_id), `knobs`, `lease_s`,
`change_id`, `holder` (null: not said). Never here: bounds; the knobs know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm_governor_engine.knobs.base import Value

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def check(governor: Governor, payload: Mapping[str, Any]) -> dict[str, Value]:
    """Raise what `apply` would raise, and change nothing."""
    governor.require_not_frozen()
    governor.require_open(payload.get("holder"))
    governor.require_current(payload["expect"])
    return governor.knobs.check(payload["knobs"])


def apply(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Set the knobs, all or none, and take the lease."""
    governor.change(check(governor, payload), "patch", payload.get("change_id"))
    governor.hold_lease(payload["lease_s"], payload.get("holder"))
