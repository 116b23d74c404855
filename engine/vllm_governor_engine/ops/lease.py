"""Renewing the lease.

Here: what POST lease does in one engine core. Payload: `expect` (its keys are the boot_ids), `lease_s`, `fallback`
(null: stays as it is), `holder` and `instead_of` (null: not said). Never here: the deadline's arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor
    from vllm_governor_engine.knobs.base import Value


def check(governor: Governor, payload: Mapping[str, Any]) -> dict[str, Value] | None:
    """The checked fallback, null when none is named; raises what `renew` would raise, and changes nothing."""
    governor.require_current(payload["expect"], with_generation=False)
    governor.require_open(payload.get("holder"), payload.get("instead_of"))
    named = payload.get("fallback")
    return None if named is None else governor.knobs.check_fallback(named)


def renew(governor: Governor, payload: Mapping[str, Any]) -> None:
    """Renew the lease; name the fallback if the payload does."""
    fallback = check(governor, payload)
    if fallback is not None:
        governor.lease.name_fallback(fallback)
    governor.hold_lease(payload["lease_s"], payload.get("holder"))
