"""What a rule compares: a signal of the View by its name, one that needs an objective, one that the daemon tells of
itself, or arithmetic over these.

Belongs here: names and their values. Never: thresholds.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

from domain.slo import Slo
from domain.view import SIGNALS, View
from policies.alert_thresholds import expression
from policies.alert_thresholds.selfchecks import CHECKS
from policies.verdict import judge

OBJECTIVE_EXCESS = "objective_excess"
NAMES: Mapping[str, str] = {
    **SIGNALS,
    OBJECTIVE_EXCESS: "Share of samples over the bound of the objective that is missed most, over the share allowed.",
    **CHECKS,
}
"""Every name that a rule may use, with its meaning."""


def check(text: str) -> str:
    """The signal or expression itself. Raises ValueError; for a name that is none it names the nearest one."""
    for name in expression.parse(text).names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.0)
            raise ValueError(
                f"there is no signal {name!r}; the nearest is {near[0]!r} (docs/signals.md and docs/alerts.md have all)"
            )
    return text


def value(text: str, view: View, told: Mapping[str, float]) -> float | None:
    """What a rule compares, now. None: unknown, NaN included. `told` has what no view shows (CHECKS)."""
    return expression.parse(text).value(lambda name: _signal(name, view, told))


def inputs(text: str, view: View, told: Mapping[str, float]) -> Mapping[str, float | None]:
    """The signals that the value of an expression rests on; none where it is one signal, whose value says it all."""
    parsed = expression.parse(text)
    return {} if parsed.plain else {name: _signal(name, view, told) for name in parsed.names}


def _signal(name: str, view: View, told: Mapping[str, float]) -> float | None:
    if name == OBJECTIVE_EXCESS:
        worst = worst_objective(view)
        return None if worst is None else worst[1]
    found: float | None = getattr(view, name) if name in SIGNALS else told.get(name)
    return None if found is None or math.isnan(found) else found


def worst_objective(view: View) -> tuple[Slo, float] | None:
    """The objective that is missed most and by how much; None without an objective that has enough samples.

    What is over the allowed share by no more than sampling noise counts as just kept.
    """
    verdicts = [judge(view, slo) for slo in view.slos]
    known = [v for v in verdicts if v.measured]
    told = [(v.slo, v.excess if v.breached else min(1.0, v.excess)) for v in known]
    return max(told, key=lambda one: one[1], default=None)
