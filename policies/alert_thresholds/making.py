"""What the shipped rules share.

Belongs here: how a row of a table becomes a rule. Never: a row.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import partial

from domain.alert import Comparison, Rule

ABOVE, BELOW = Comparison.ABOVE, Comparison.BELOW
FIVE_MINUTES_S = 300.0
KEEP_FIRING_FOR_S = 30.0
"""An alert that is over stays for so long: values that jump to and fro give one alert."""
SUBJECT = "subject"
"""The label by which an alert of one thing silences the lesser ones of the same thing."""


class Subject(StrEnum):
    """What an alert speaks of."""

    ENGINE = "engine"
    """Whether vLLM answers, and with what."""
    MEMORY = "memory"
    """GPU memory, the KV cache among it."""
    LOAD = "load"
    """Requests and how the engine's steps carry them."""
    GPU = "gpu"
    GOVERNOR = "governor"
    """The daemon itself."""
    HISTORY = "history"
    """What the daemon keeps."""


row = partial(Rule, keep_firing_for_s=KEEP_FIRING_FOR_S)
"""A row of a table, before it is known what it speaks of."""


def about(subject: Subject, *rules: Rule) -> tuple[Rule, ...]:
    """The rows as they are shipped: labelled by what they speak of, with the place that says what to do."""
    return tuple(
        replace(rule, labels={SUBJECT: subject.value}, annotations={"runbook_url": f"docs/alerts.md#{rule.name}"})
        for rule in rules
    )
