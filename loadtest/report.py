"""What a stepped run came to: lines for people, one object for programs, the exit code.

Belongs here: that. Never: measuring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from loadtest.knee import Knee, Line, Point, knee, line
from loadtest.ledger import Account
from loadtest.plan import BASELINE, BLIND, ERRORS, HIGHEST, LATE, MEMORY, P99, STOPPED, Limits, Plan

HEADER = (
    f"{'phase':<9} {'QPS':>6} {'seconds':>8} {'offered':>8} {'ok':>7} {'errors':>7} {'P50 s':>9} {'P99 s':>9} "
    f"{'TTFT P99':>9} {'ITL P99 ms':>11} {'late ms':>9} {'memory':>8}"
)
CODES = {ERRORS: 0, P99: 0, MEMORY: 0, HIGHEST: 3, LATE: 4, BLIND: 4, STOPPED: 130}
"""By why the run ended: at one of the seeds' limits, at the highest rate, without an answer, interrupted."""
SERVERS_LIMITS = (ERRORS, P99, MEMORY)


def row(account: Account) -> str:
    """One step as a line under HEADER."""
    found = account.figures()
    p50, p99, ttft = (_shown(found[name], ".3f") for name in ("p50_s", "p99_s", "p99_ttft_s"))
    return (
        f"{found['phase']:<9} {found['qps']:>6g} {found['seconds']:>8.1f} {found['offered']:>8} {found['ok']:>7} "
        f"{_shown(found['error_ratio'], '.2%'):>7} {p50:>9} {p99:>9} {ttft:>9} "
        f"{_shown(found['p99_itl_s'], '.1f', 1e3):>11} "
        f"{_shown(found['p99_late_s'], '.0f', 1e3):>9} {_shown(found['memory_peak_ratio'], '.0%'):>8}"
    )


def code(ended: str) -> int:
    """The exit code that goes with an end."""
    return next(code for word, code in CODES.items() if ended.startswith(word))


def document(
    host: str, plan: Plan, limits: Limits, watched: str, accounts: Sequence[Account], ended: str
) -> dict[str, Any]:
    """The whole report."""
    points = points_of(accounts, limits, ended)
    return {
        "host": host,
        "plan": asdict(plan),
        "limits": asdict(limits),
        "memory": watched,
        "steps": [account.figures() for account in accounts],
        "ended": ended,
        "exit_code": code(ended),
        "slope": _slope(line([point for point in points if point.baseline and not point.met])),
        "knee": asdict(knee(points)),
    }


def points_of(accounts: Sequence[Account], limits: Limits, ended: str) -> list[Point]:
    """The steps that say something of the server: not one that was cut off for another reason. Once all is answered an
    earlier step may turn out to have met a limit too.
    """
    by_server = ended.startswith(SERVERS_LIMITS)
    kept = accounts if by_server or ended.startswith(HIGHEST) else accounts[:-1]
    return [
        Point(
            one.step.qps,
            one.p99_s(),
            one.step.phase == BASELINE,
            met=(by_server and one is kept[-1]) or (one.met(limits, 0.0, at_end=True) or "").startswith(SERVERS_LIMITS),
        )
        for one in kept
    ]


def summary(accounts: Sequence[Account], limits: Limits, ended: str) -> list[str]:
    """The report's last lines."""
    points = points_of(accounts, limits, ended)
    straight = line([point for point in points if point.baseline and not point.met])
    return [f"Ended: {ended}.", f"Slope: {_slope_words(straight)}", f"Knee: {_knee_words(knee(points))}"]


def _slope(found: Line | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    return {
        "p99_ms_per_qps": round(found.slope_s_per_qps * 1e3, 4),
        "at_zero_ms": round(found.at_zero_s * 1e3, 2),
        "r2": None if found.r2 is None else round(found.r2, 4),
    }


def _slope_words(found: Line | None) -> str:
    if found is None:
        return "not known, it takes two baseline stages with answers."
    straight = "" if found.r2 is None else f"; R2 {found.r2:.2f}, where 1 is a straight line"
    return f"P99 rises by {found.slope_s_per_qps * 1e3:.3g} ms for each QPS more{straight}."


def _knee_words(found: Knee) -> str:
    held = "below the first rate" if found.held_qps is None else f"{found.held_qps:g} QPS"
    if found.left_qps is None:
        return f"not reached, above {held}: {found.why}."
    return f"{held}; at {found.left_qps:g} QPS {found.why}."


def _shown(value: float | None, form: str, times: float = 1.0) -> str:
    return "unknown" if value is None else format(value * times, form)
