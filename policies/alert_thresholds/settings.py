"""What an operator may change: any number of a shipped rule, whether it counts, and rules of their own.

Belongs here: merging that with the table, and errors that name the rule. Never: evaluation.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from domain.alert import Comparison, Condition, Rule, Severity
from policies.alert_thresholds.making import row
from policies.alert_thresholds.measure import check
from policies.alert_thresholds.table import RULES
from policies.base import PolicySettings

SHIPPED = {rule.name: rule for rule in RULES}
NAME = "[a-zA-Z_][a-zA-Z0-9_]*"
"""What Prometheus and Alertmanager take as the name of a label."""
RuleName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,128}$")]
"""What stands in the label alertname: one line that people read."""
GIVEN = {
    "alertname": "the rule's name",
    "severity": "the rule's key severity",
    "instance": "the node's name",
    "summary": "the rule's key summary",
    "description": "the sentence with the numbers",
}


class ConditionSettings(PolicySettings):
    """One of `only_while`."""

    signal: str
    comparison: Comparison
    threshold: float = Field(allow_inf_nan=False)

    @field_validator("signal")
    @classmethod
    def _known(cls, signal: str) -> str:
        return check(signal)

    @property
    def value(self) -> Condition:
        """As the rules know it."""
        return Condition(self.signal, self.comparison, self.threshold)


class AlertRuleSettings(PolicySettings):
    """`[policies.alert_thresholds.rules.NAME]`. What is left out is as in the shipped rule of that name; a rule of
    another name is the operator's own and needs signal, comparison and threshold.
    """

    enabled: bool = True
    signal: str | None = None
    comparison: Comparison | None = None
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    clear: float | None = Field(
        default=None, allow_inf_nan=False, description="without it as far from the threshold as in the shipped rule"
    )
    for_s: float | None = Field(default=None, ge=0.0, le=86400.0)
    keep_firing_for_s: float | None = Field(default=None, ge=0.0, le=86400.0)
    severity: Severity | None = None
    summary: str | None = Field(default=None, min_length=1)
    only_while: tuple[ConditionSettings, ...] | None = None
    rise_over_s: float | None = Field(default=None, ge=10.0, le=3600.0)
    labels: dict[str, str] = Field(
        default_factory=dict, description="added to those of the shipped rule; an empty one takes that of its name out"
    )
    annotations: dict[str, str] = Field(default_factory=dict, description="added to those of the shipped rule")

    @field_validator("signal")
    @classmethod
    def _known(cls, signal: str | None) -> str | None:
        return None if signal is None else check(signal)

    @field_validator("labels", "annotations")
    @classmethod
    def _named(cls, told: dict[str, str]) -> dict[str, str]:
        for name in told:
            if re.fullmatch(NAME, name) is None:
                raise ValueError(f"{name!r} is no name for it: letters, digits and _ only, no digit first")
            if name in GIVEN:
                raise ValueError(f"{name!r} cannot be set here: it is {GIVEN[name]}")
        return told


class AlertThresholdsSettings(PolicySettings):
    """The rules that alerts fire by: `[policies.alert_thresholds]`."""

    enabled: bool = True
    rules: dict[RuleName, AlertRuleSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> AlertThresholdsSettings:
        for name, changes in self.rules.items():
            merge(name, changes)
        return self

    @cached_property
    def in_force(self) -> tuple[Rule, ...]:
        """The rules that count: shipped ones first, in the table's order."""
        if not self.enabled:
            return ()
        names = dict.fromkeys((*SHIPPED, *self.rules))
        changed = {name: self.rules.get(name, AlertRuleSettings()) for name in names}
        return tuple(merge(name, changes) for name, changes in changed.items() if changes.enabled)


def merge(name: str, changes: AlertRuleSettings) -> Rule:
    """The rule with an operator's changes. Raises ValueError that names the rule, what is wrong and the remedy."""
    base = SHIPPED.get(name) or _own(name, changes)
    was = base.condition
    condition = Condition(
        changes.signal or was.signal,
        changes.comparison or was.comparison,
        was.threshold if changes.threshold is None else changes.threshold,
    )
    rule = replace(
        base,
        condition=condition,
        clear=_clear(base, condition) if changes.clear is None else changes.clear,
        for_s=base.for_s if changes.for_s is None else changes.for_s,
        keep_firing_for_s=base.keep_firing_for_s if changes.keep_firing_for_s is None else changes.keep_firing_for_s,
        severity=changes.severity or base.severity,
        summary=changes.summary or base.summary,
        only_while=base.only_while if changes.only_while is None else tuple(one.value for one in changes.only_while),
        rise_over_s=changes.rise_over_s or base.rise_over_s,
        # To Prometheus an empty label is none, and the fingerprint is made of those that are told.
        labels={label: value for label, value in {**base.labels, **changes.labels}.items() if value},
        annotations={**base.annotations, **changes.annotations},
    )
    if rule.condition.holds(rule.clear):
        raise ValueError(
            f"cannot use rule {name!r}: clear = {rule.clear:g} is {condition.comparison} the threshold "
            f"{condition.threshold:g}, so it would fire and resolve at once; move clear to the other side"
        )
    return rule


def _own(name: str, changes: AlertRuleSettings) -> Rule:
    """What an operator's own rule is where it says nothing else."""
    signal, comparison, threshold = changes.signal, changes.comparison, changes.threshold
    if signal is None or comparison is None or threshold is None:
        raise ValueError(
            f"cannot use rule {name!r}: it is not a shipped one, so it needs signal, comparison and threshold"
        )
    summary = f"{signal} is {comparison} {threshold:g}."
    return row(name, Condition(signal, comparison, threshold), threshold, 0.0, Severity.WARNING, summary)


def _clear(base: Rule, condition: Condition) -> float:
    """As far from the threshold, in proportion, as before: towards 0 or, for shares that are to be high, towards 1."""
    was = base.condition
    if condition == was:
        return base.clear
    if (was.signal, was.comparison) != (condition.signal, condition.comparison) or base.clear == was.threshold:
        return condition.threshold
    if condition.comparison is Comparison.ABOVE:
        return condition.threshold * base.clear / was.threshold
    return 1.0 - (1.0 - condition.threshold) * (1.0 - base.clear) / (1.0 - was.threshold)
