"""No objective promises what batching cannot keep.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.result import NOT_APPLICABLE, PASS, WARN, Check, DoesNotApply, Found
from controller.preflight.surroundings import Surroundings
from domain.slo import Latency

LEAST_S = 0.05
WHOLE = (Latency.TTFT, Latency.E2E)
"""Between two tokens 50 ms is no hard real time."""


def _look(around: Surroundings) -> Found:
    found = [slo for slo in around.settings.slo.every() if slo.latency in WHOLE]
    if not found:
        raise DoesNotApply("no objective on a first token or a whole answer is set ([slo])")
    least = min(found, key=lambda slo: slo.bound_s)
    told = f"the tightest is {least.latency} within {least.bound_s * 1000:g} ms"
    if least.bound_s < LEAST_S:
        return Found(WARN, f"{told}, under 50 ms: hard real time wants a model and a server of its own")
    return Found(PASS, told)


CHECK = Check(
    "real_time",
    "no objective under 50 ms on a first token or a whole answer",
    "seed 1, applicability 4",
    frozenset({PASS, WARN, NOT_APPLICABLE}),
    _look,
)
