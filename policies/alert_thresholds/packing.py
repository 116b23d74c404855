"""The rules' state as JSON and back, so that it outlives the process.

Belongs here: that, with moments as ages, since a monotonic clock begins anew with its machine. Never: where it is kept.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domain.alert import AlertState
from policies.alert_thresholds.evaluate import AlertsState, RuleState
from policies.hysteresis import Held


class _Low(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    age_s: float = Field(ge=0.0)
    value: float


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    name: str
    state: AlertState
    lasted_s: float = Field(default=0.0, ge=0.0)
    lowest: tuple[_Low, ...] = ()
    condition: str = ""


class _Packed(BaseModel):
    model_config = ConfigDict(frozen=True)

    rules: tuple[_Rule, ...]


def pack(state: AlertsState, now_s: float) -> dict[str, Any]:
    """Plain JSON. Rules that nothing is known of are left out."""
    rules = tuple(_packed(one, now_s) for one in state.rules if one != RuleState(one.name, condition=one.condition))
    return _Packed(rules=rules).model_dump(mode="json", exclude_defaults=True)


def unpack(packed: dict[str, Any], now_s: float, downtime_s: float) -> AlertsState:
    """What `pack` gave, `downtime_s` later. Nobody saw that time, so it counts neither for firing nor for resolving.

    Raises ValueError for what `pack` cannot have given.
    """
    try:
        rules = _Packed.model_validate(packed).rules
    except ValidationError as error:
        raise ValueError(
            f"cannot take up the alerts' state: {error.error_count()} values of it are wrong; the rules begin anew"
        ) from error
    return AlertsState(tuple(_unpacked(one, now_s - max(0.0, downtime_s)) for one in rules))


def _packed(one: RuleState, now_s: float) -> _Rule:
    lowest = tuple(_Low(age_s=max(0.0, now_s - when_s), value=value) for when_s, value in one.lowest)
    return _Rule(name=one.name, state=one.state, lasted_s=one.held.lasted_s, lowest=lowest, condition=one.condition)


def _unpacked(one: _Rule, stopped_s: float) -> RuleState:
    # Without `seen_s` the time since the last view is not counted.
    held = Held(on=one.state is AlertState.FIRING, lasted_s=one.lasted_s)
    lowest = tuple((stopped_s - low.age_s, low.value) for low in one.lowest)
    return RuleState(one.name, one.state, held, lowest, one.condition)
