"""Who is in the engine at this moment, and how long somebody has waited.

Here: running, waiting, the oldest one. Never here: sums over time.
"""

from __future__ import annotations

from typing import Any

_NOT_WAITING = ("RUNNING", "WAITING_FOR_STREAMING_REQ")
"""The second waits for its own client."""


def look(scheduler: Any, wall_s: float) -> dict[str, Any]:
    """Counts, and the age of the oldest request that has no token yet and does not run (None: there is none).

    A stall completes nothing, so no latency tells of it; this age does. `wall_s` is the time of the day.
    """
    counts = getattr(scheduler, "get_request_counts", None)
    running, waiting = counts() if counts is not None else (len(scheduler.running), len(scheduler.waiting))
    return {"running": int(running), "waiting": int(waiting), "oldest_waiting_s": _oldest_s(scheduler, wall_s)}


def _oldest_s(scheduler: Any, wall_s: float) -> float | None:
    # In the order in which they came to the core, so the search ends behind those that run.
    for request in scheduler.requests.values():
        if request.status.name in _NOT_WAITING or request.is_finished() or request.num_output_tokens:
            continue
        return round(max(0.0, wall_s - float(request.arrival_time)), 3)
    return None
