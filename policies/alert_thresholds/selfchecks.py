"""What the daemon tells of itself to the alerts, since no picture of the engine shows it; and the rules on that.

Belongs here: names with their meanings, and rules as data. Never: how a value comes about (the daemon's loop tells them
at every tick, failed ones included).
"""

from __future__ import annotations

from collections.abc import Mapping

from domain.alert import Condition, Rule, Severity
from domain.snapshot import Source
from policies.alert_thresholds.making import ABOVE, BELOW, FIVE_MINUTES_S, Subject, about, row

CHECKS: Mapping[str, str] = {
    "emergency": "1 while emergency_purge acts, else 0.",
    "not_relieved": "1 while an emergency goes on after what was done against it, else 0.",
    "engine_down_s": "Seconds since vLLM or its plugin last answered anything; 0 while one does.",
    "blind": "1 while vLLM answers and nothing is known of its load: metrics stale, empty or without series; else 0.",
    "stale_s": "Seconds that vLLM's metrics have been the same although requests run or wait; 0 while they move.",
    "lease_lost": "1 while somebody else holds the engine's lease, and for a minute after it had run out; else 0.",
    "rolled_back": "1 for ten minutes after a change was undone because it made an objective worse, else 0.",
    "gpu_unresponsive_s": "Seconds since NVML last gave a reading, whether its calls hang or fail; 0 while it does.",
    "ticks_failed": "Ticks that failed in a row; 0 after one that did not.",
    "history_failing_s": "Seconds that the history cannot be written; 0 while it can.",
    "history_dropped": "Writes of the history given up since the start.",
    "history_set_aside": "1 for 24 hours after a damaged history was set aside, else 0.",
    "disk_free_ratio": "Free share of the file system that holds the history.",
    "deliveries_failing_s": "Seconds that the receiver that fails longest has taken nothing; 0 while none fails.",
    "checks_worse": "Checks of `vllm-governor check` that were good at an earlier run and are bad at the last.",
    "external": "Alerts taken in by POST /api/v1/alerts that fire.",
}
"""Every self-check by name. One that is not told is unknown, so its rule keeps its state."""

SOURCES: Mapping[str, tuple[Source, ...]] = {
    "engine_down_s": (Source.METRICS, Source.RUNTIME),
    "blind": (Source.METRICS,),
    "gpu_unresponsive_s": (Source.GPU,),
}
"""The sources that say in their own words why."""

RULES: tuple[Rule, ...] = (
    *about(
        Subject.ENGINE,
        row(
            "engine_down",
            Condition("engine_down_s", ABOVE, 15.0),
            0.0,
            0.0,
            Severity.CRITICAL,
            "vLLM does not answer.",
        ),
        row(
            "blind",
            Condition("blind", ABOVE, 0.0),
            0.0,
            30.0,
            Severity.WARNING,
            "Nothing is known of vLLM's load: the policies are frozen.",
        ),
        row(
            "stale_gauges",
            Condition("stale_s", ABOVE, 60.0),
            0.0,
            0.0,
            Severity.WARNING,
            "vLLM's metrics stand still although there are requests: what they say may be old.",
        ),
        row(
            "lease_lost",
            Condition("lease_lost", ABOVE, 0.0),
            0.0,
            30.0,
            Severity.WARNING,
            "The engine went back to its fallback values or obeys another governor.",
        ),
    ),
    *about(
        Subject.MEMORY,
        row(
            "emergency_not_relieved",
            Condition("not_relieved", ABOVE, 0.0),
            0.0,
            0.0,
            Severity.CRITICAL,
            "The emergency measures have not helped.",
        ),
    ),
    *about(
        Subject.LOAD,
        row(
            "rolled_back",
            Condition("rolled_back", ABOVE, 0.0),
            0.0,
            0.0,
            Severity.INFO,
            "A change made an objective worse and was undone.",
        ),
    ),
    *about(
        Subject.GPU,
        row(
            "gpu_unresponsive",
            Condition("gpu_unresponsive_s", ABOVE, 30.0),
            0.0,
            0.0,
            Severity.WARNING,
            "The GPUs' driver does not answer: memory pressure cannot be seen.",
        ),
    ),
    *about(
        Subject.GOVERNOR,
        row(
            "ticks_failing",
            Condition("ticks_failed", ABOVE, 4.0),
            0.0,
            0.0,
            Severity.CRITICAL,
            "The governor has not succeeded for several ticks: nothing is steered.",
        ),
        row(
            "deliveries_failing",
            Condition("deliveries_failing_s", ABOVE, FIVE_MINUTES_S),
            0.0,
            0.0,
            Severity.WARNING,
            "A receiver of alerts takes none.",
        ),
        row(
            "checks_worse",
            Condition("checks_worse", ABOVE, 0.0),
            0.0,
            0.0,
            Severity.WARNING,
            "What this machine or vLLM was set up to has changed for the worse: `vllm-governor check` says what.",
        ),
    ),
    *about(
        Subject.HISTORY,
        row(
            "history_failing",
            Condition("history_failing_s", ABOVE, 60.0),
            0.0,
            0.0,
            Severity.WARNING,
            "The history cannot be written.",
        ),
        row(
            "history_dropped",
            Condition("history_dropped", ABOVE, 0.0),
            0.0,
            0.0,
            Severity.WARNING,
            "Parts of the history were given up within five minutes.",
            rise_over_s=FIVE_MINUTES_S,
        ),
        row(
            "history_set_aside",
            Condition("history_set_aside", ABOVE, 0.0),
            0.0,
            0.0,
            Severity.WARNING,
            "The history was damaged: it was set aside and begun anew.",
        ),
        row(
            "disk_low",
            Condition("disk_free_ratio", BELOW, 0.05),
            0.08,
            60.0,
            Severity.WARNING,
            "The file system that holds the history is nearly full.",
        ),
    ),
)
