"""Which incidents nobody is told of now: those that are silenced, and those that another makes needless.

Belongs here: that question, asked of one incident. Never: when a group is told, or where silences are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from alerts.matching import in_force, matches
from alerts.settings import InhibitSettings
from domain.incident import Incident
from domain.silence import Silence


def is_source(labels: Mapping[str, str], rules: Sequence[InhibitSettings]) -> bool:
    """Whether an alert with these labels may make others needless."""
    return any(matches(rule.source_matchers, labels) for rule in rules)


class Muting:
    """At one moment. Inhibition as in Alertmanager: only what fires inhibits, silenced or not, and of alerts that a
    rule names as source and as target at once none inhibits another.
    """

    def __init__(
        self,
        silences: Iterable[Silence],
        rules: Sequence[InhibitSettings],
        sources: Iterable[Incident],
        now: datetime,
    ) -> None:
        """`sources`: the firing incidents that `is_source` says yes to."""
        self._silences = in_force(silences, now)
        firing = [one.labels for one in sources]
        causes = [(rule, _causes(rule, firing)) for rule in rules]
        self._causes = [(rule, found) for rule, found in causes if found]

    def mutes(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert with these labels is left out."""
        if not (self._silences or self._causes):  # as a rule, and thousands are asked about
            return False
        return any(matches(silence.matchers, labels) for silence in self._silences) or any(
            _inhibited(rule, found, labels) for rule, found in self._causes
        )


_Causes = Mapping[tuple[str, ...], bool]
"""Of one rule: the values of `equal` to whether a source with them is no target itself."""


def _causes(rule: InhibitSettings, firing: Iterable[Mapping[str, str]]) -> _Causes:
    found: dict[tuple[str, ...], bool] = {}
    for labels in firing:
        if matches(rule.source_matchers, labels):
            agreed = _agreed(rule, labels)
            found[agreed] = found.get(agreed, False) or not matches(rule.target_matchers, labels)
    return found


def _inhibited(rule: InhibitSettings, causes: _Causes, labels: Mapping[str, str]) -> bool:
    source_alone = causes.get(_agreed(rule, labels))
    if source_alone is None or not matches(rule.target_matchers, labels):
        return False
    return source_alone or not matches(rule.source_matchers, labels)


def _agreed(rule: InhibitSettings, labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in rule.equal)
