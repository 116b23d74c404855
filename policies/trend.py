"""Values of late, as plain values that a policy's state can hold: the lowest of minutes, and all of a few seconds.

Belongs here: that. Never: which value, or how much of a rise is too much.
"""

from __future__ import annotations

SPAN_S = 10.0
LEAST_SPANS = 12
"""A short window has shorter spans, so that it does not lose much of itself where its oldest one is dropped."""

Spans = tuple[tuple[float, float], ...]
"""(when a span began, the lowest value in it), oldest first."""
Points = tuple[tuple[float, float], ...]
"""(when, the value), oldest first."""
MOST_POINTS = 120


def take(spans: Spans, now_s: float, value: float | None, window_s: float) -> Spans:
    """A value now; None adds nothing. What is older than the window is dropped."""
    kept = tuple(span for span in spans if now_s - span[0] <= window_s)
    if value is None:
        return kept
    if kept and now_s - kept[-1][0] < min(SPAN_S, window_s / LEAST_SPANS):
        return (*kept[:-1], (kept[-1][0], min(kept[-1][1], value)))
    return (*kept, (now_s, value))


def rise(spans: Spans, value: float | None) -> float | None:
    """How far `value` lies over the lowest; None when either is unknown."""
    return None if value is None or not spans else value - min(low for _, low in spans)


def recent(points: Points, now_s: float, value: float, window_s: float) -> Points:
    """A value now. What is older than the window is dropped."""
    kept = tuple(point for point in points if now_s - point[0] <= window_s)
    return (*kept, (now_s, value))[-MOST_POINTS:]
