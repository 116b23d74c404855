"""The alerts' part of a settings file, checked by itself.

Belongs here: reading those two tables, what is wrong in them. Never: the rest of the settings, how it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from alerts.receivers import build
from alerts.settings import AlertsSettings
from controller.settings import read_toml, refusal
from domain.alert import Rule
from domain.errors import SettingsError
from policies.alert_thresholds import AlertThresholdsSettings

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Checked:
    """What would count."""

    rules: tuple[Rule, ...]
    receivers: Mapping[str, str]
    """Name to kind."""


def read(file: Path) -> Checked:
    """Raises SettingsError with one line for each fault."""
    tables = read_toml(file, "settings")
    policies = tables.get("policies", {})
    thresholds = policies.get("alert_thresholds", {}) if isinstance(policies, Mapping) else policies
    faults: list[str] = []
    rules = _table(AlertThresholdsSettings, thresholds, file, "policies.alert_thresholds", faults)
    alerts = _table(AlertsSettings, tables.get("alerts", {}), file, "alerts", faults)
    for name, one in alerts.receivers.items() if alerts is not None else ():
        try:
            build(name, one, alerts.external_url if alerts is not None else None)
        except SettingsError as error:
            faults.append(str(error))
    if faults or rules is None or alerts is None:
        raise SettingsError("\n".join(faults))
    return Checked(rules.in_force, {name: one.kind.value for name, one in alerts.receivers.items()})


def _table(kind: type[M], values: Any, file: Path, name: str, faults: list[str]) -> M | None:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults.append(str(refusal(error, str(file), kind, name)))
        return None


def to_json(checked: Checked) -> dict[str, Any]:
    """All of it."""
    return {
        "rules": [
            {
                "name": rule.name,
                "severity": rule.severity.value,
                "signal": rule.condition.signal,
                "comparison": rule.condition.comparison.value,
                "threshold": rule.condition.threshold,
                "clear": rule.clear,
                "for_s": rule.for_s,
                "keep_firing_for_s": rule.keep_firing_for_s,
                "rise_over_s": rule.rise_over_s,
                "summary": rule.summary,
                "labels": dict(rule.labels),
            }
            for rule in checked.rules
        ],
        "receivers": dict(checked.receivers),
    }
