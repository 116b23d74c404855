"""The hot tier's share is inside the seeds' range.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import knob
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, Found
from controller.preflight.surroundings import Surroundings
from domain.knobs import HOT_CACHE_RATIO

LOW, HIGH = 0.3, 0.4
CURE = f"vllm-governor set {HOT_CACHE_RATIO}=0.3"


def _look(around: Surroundings) -> Found:
    value = knob(around, HOT_CACHE_RATIO).value
    if value == 0:
        return Found(WARN, "there is no hot tier now: hot prompts are evicted as cold ones are", CURE)
    if value is None or not LOW <= value <= HIGH:
        return Found(WARN, f"hot_cache_ratio is {value or 0:.0%}, outside {LOW:.0%} to {HIGH:.0%}", CURE)
    return Found(PASS, f"hot_cache_ratio is {value:.0%}, inside {LOW:.0%} to {HIGH:.0%}")


CHECK = Check(
    "hot_ratio",
    "hot_cache_ratio is between 30 and 40 %",
    "seed 1, fault tree 3",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
