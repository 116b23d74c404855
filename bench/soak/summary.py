"""From what happened to the figures.

Belongs here: putting the accounts together, the keys of the JSON line. Never: measuring, printing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.soak import accounting, reversals
from bench.soak.accounting import Account, Ledger, Span
from bench.soak.reversals import Reversals
from domain.decision import Decision


@dataclass(frozen=True, slots=True)
class Figures:
    """What the history and the load say together."""

    account: Account
    reversals: Reversals


def summarise(
    ledger: Ledger, restarts: Sequence[Span], decisions: Sequence[Decision], offset_s: float, minutes: float
) -> Figures:
    """`decisions` oldest first; `offset_s` is Unix time less monotonic time."""
    limits = accounting.limits_in_force(
        decisions, [begin for begin, _ in restarts], lambda decision: decision.at.timestamp() - offset_s
    )
    return Figures(accounting.account(ledger, restarts, limits), reversals.count(decisions, minutes))


def document(figures: Figures, faults: Sequence[Mapping[str, Any]], started_s: float = 0.0) -> dict[str, Any]:
    """The JSON object. Seconds count from the start, which is `started_s` on the load's clock.

    `recover_s_max` is null when a recovery was not seen.
    """
    recovered = [fault["recovered_s"] for fault in faults]
    seen = [seconds for seconds in recovered if seconds is not None]
    account, turns = figures.account, figures.reversals
    return {
        "failed_requests": account.failed,
        "recover_s_max": _rounded(max(seen)) if seen and len(seen) == len(recovered) else None,
        "reversals_per_min": round(turns.worst_per_min, 3),
        "faults": [
            {
                "what": fault["what"],
                "began": _rounded(fault["began_s"]),
                "ended": _rounded(fault["ended_s"]),
                "recovered_s": _rounded(fault["recovered_s"]),
                "calls": fault["calls"],
            }
            for fault in faults
        ],
        "answered_requests": account.ok,
        "shed_requests": account.shed,
        "restart_requests": account.restart,
        "causes": account.causes,
        "failures": [
            {"began": _rounded(one.start_s - started_s), "ended": _rounded(one.end_s - started_s), "cause": one.cause}
            for one in account.failures
        ],
        "changes": turns.changes,
        "reversals_by_knob": turns.reversals,
        "reversals_in_one_minute_max": max(turns.most_in_a_minute.values(), default=0),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
