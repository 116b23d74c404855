"""The alerts that the seeds ask for are in force, and no laxer.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.result import FAIL, PASS, WARN, Check, Found
from controller.preflight.surroundings import Surroundings
from domain.alert import Comparison, Rule
from policies.alert_thresholds import RULES

WANTED = ("gpu_memory", "gpu_util", "memory_fragmentation", "rejected_requests", "cache_hit_rate")


def _look(around: Surroundings) -> Found:
    in_force = {rule.name: rule for rule in around.settings.policies.alert_thresholds.in_force}
    gone = [name for name in WANTED if name not in in_force]
    if gone:
        return Found(FAIL, f"switched off: {', '.join(gone)}", _cure(gone))
    lax = [rule.name for rule in RULES if rule.name in WANTED and _laxer(in_force[rule.name], rule)]
    if lax:
        return Found(WARN, f"laxer than the seeds ask: {', '.join(lax)}", _cure(lax))
    return Found(PASS, f"in force as the seeds ask: {', '.join(WANTED)}")


def _laxer(ours: Rule, shipped: Rule) -> bool:
    above = shipped.condition.comparison is Comparison.ABOVE
    threshold = ours.condition.threshold - shipped.condition.threshold
    return (threshold > 0 if above else threshold < 0) or ours.for_s > shipped.for_s


def _cure(names: list[str]) -> str:
    keys = " ".join(f"rules.{name}" for name in names)
    return f"vllm-governor policies reset alert_thresholds  # or take {keys} out of the settings file"


CHECK = Check(
    "alert_thresholds",
    "alerts on GPU memory over 90 % and GPU utilisation over 90 % for 5 minutes, fragmentation over 35 %, rejected "
    "requests over 1 %, cache hit rate under 60 %",
    "seed 1, tuning guide 2; seed 2, deployment checklist 11",
    frozenset({PASS, WARN, FAIL}),
    _look,
)
