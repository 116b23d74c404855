"""Which policies there are and which run in which mode.

Belongs here: building policies from their settings, the table of settings, third-party policies that were loaded
elsewhere. Never: their rules, loading code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, Field, create_model

from domain.decision import Mode
from policies.alert_thresholds import AlertThresholdsSettings
from policies.base import Policy, PolicySettings
from policies.batch_resize import BatchResize, BatchResizeSettings
from policies.cache_ratio import CacheRatio, CacheRatioSettings
from policies.capacity import CapacitySettings
from policies.diagnosis import DiagnosisSettings
from policies.emergency_purge import EmergencyPurge, EmergencyPurgeSettings
from policies.load_shed import LoadShed, LoadShedSettings
from policies.stability import Stability, StabilitySettings
from policies.static import Static, StaticSettings
from policies.token_budget import TokenBudget, TokenBudgetSettings

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class PoliciesSettings(PolicySettings):
    """One table per policy: `[policies.batch_resize]` and so on."""

    third_party: ClassVar[Mapping[str, type[Any]]] = {}
    """Policies of others by the name of their table; see `with_third_party`."""

    batch_resize: BatchResizeSettings = Field(default_factory=BatchResizeSettings)
    token_budget: TokenBudgetSettings = Field(default_factory=TokenBudgetSettings)
    load_shed: LoadShedSettings = Field(default_factory=LoadShedSettings)
    cache_ratio: CacheRatioSettings = Field(default_factory=CacheRatioSettings)
    stability: StabilitySettings = Field(default_factory=StabilitySettings)
    emergency_purge: EmergencyPurgeSettings = Field(default_factory=EmergencyPurgeSettings)
    capacity: CapacitySettings = Field(default_factory=CapacitySettings)
    diagnosis: DiagnosisSettings = Field(default_factory=DiagnosisSettings)
    alert_thresholds: AlertThresholdsSettings = Field(default_factory=AlertThresholdsSettings)
    static: StaticSettings = Field(default_factory=StaticSettings)


_SHIPPED: tuple[tuple[str, Callable[[PoliciesSettings], Policy]], ...] = (
    ("batch_resize", lambda s: BatchResize(s.batch_resize)),
    ("token_budget", lambda s: TokenBudget(s.token_budget)),
    ("load_shed", lambda s: LoadShed(s.load_shed, s.batch_resize)),
    ("cache_ratio", lambda s: CacheRatio(s.cache_ratio)),
    ("stability", lambda s: Stability(s.stability, s.cache_ratio)),
    ("emergency_purge", lambda s: EmergencyPurge(s.emergency_purge)),
)
"""In the order in which equals are heard."""


def build(settings: PoliciesSettings, mode: Mode) -> tuple[Policy, ...]:
    """The policies of `mode`: the fixed batch alone in `static`, none in `manual` and `paused`, else those enabled."""
    if mode is Mode.STATIC:
        return (Static(settings.static.values),)
    if mode in (Mode.MANUAL, Mode.PAUSED):
        return ()
    return tuple(make(settings) for name, make in _SHIPPED if getattr(settings, name).enabled)


def build_third_party(settings: PoliciesSettings, mode: Mode) -> tuple[tuple[Policy, ...], dict[str, str]]:
    """Those of others that `mode` runs, and which of them could not be built and why."""
    if mode not in (Mode.AUTO, Mode.OBSERVE):
        return (), {}
    built: list[Policy] = []
    broken: dict[str, str] = {}
    for name, kind in type(settings).third_party.items():
        table = getattr(settings, name)
        if not getattr(table, "enabled", True):
            continue
        try:
            policy = kind(table)
            policy.name = name
            built.append(policy)
        except Exception as error:  # somebody else's code
            broken[name] = f"{type(error).__name__}: {error}"
    return tuple(built), broken


def objection(name: str, kind: Any) -> str | None:
    """Why a class cannot serve as the policy `name`, as a clause; None: it can."""
    if not NAME.fullmatch(name):
        return "its name must be lower-case letters, digits and underscores"
    if name in PoliciesSettings.model_fields or name == "third_party":
        return "a policy of that name is shipped"
    if not isinstance(kind, type):
        return "it is not a class"
    table = getattr(kind, "Settings", None)
    if not (isinstance(table, type) and issubclass(table, BaseModel)):
        return "it has no class Settings made from policies.base.PolicySettings"
    if any(field.is_required() for field in table.model_fields.values()):
        return "every key of its Settings needs a default"
    missing = [part for part in ("initial_state", "decide") if not callable(getattr(kind, part, None))]
    return f"it has no {' and no '.join(missing)}" if missing else None


def with_third_party(kinds: Mapping[str, type[Any]], broken: Mapping[str, str]) -> type[PoliciesSettings]:
    """The table of settings with a further table for each of `kinds`.

    The table of a policy that is broken is let be: an upgrade that breaks it must not stop the daemon.
    """
    if not kinds and not broken:
        return PoliciesSettings
    known: dict[str, Any] = {name: (k.Settings, Field(default_factory=k.Settings)) for name, k in kinds.items()}
    unread: dict[str, Any] = {
        name: (Any, None) for name in broken if NAME.fullmatch(name) and name not in PoliciesSettings.model_fields
    }
    made = create_model("PoliciesSettings", __base__=PoliciesSettings, **unread, **known)
    made.third_party = dict(kinds)
    return made
