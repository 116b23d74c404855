"""What the REST API answers, as the values that the commands show whether they ask the daemon or read a history.

Belongs here: documents to values. Never: calling, showing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from controller.operations.cost import Column
from controller.operations.plain import NO_LIMIT_WORD
from domain.cost import Figure, Figures, Tariff
from domain.decision import Decision, Mode, Reason, Status
from domain.errors import DaemonRefused
from domain.outcome import Outcome, Verdict
from store.history import StoredDecision, StoredRun

Doc = Mapping[str, Any]


def decision(found: Doc) -> StoredDecision:
    """One decision of the history. Raises DaemonRefused where the daemon is of another version."""
    try:
        outcome = found["outcome"]
        made = Decision(
            at=datetime.fromisoformat(found["at"]),
            mode=Mode(found["mode"]),
            policy=found["policy"],
            knob=found["knob"],
            old=_value(found["old"]),
            wanted=_value(found["wanted"]),
            requested=_value(found["requested"]),
            observed=_value(found["observed"]),
            status=Status(found["status"]),
            reason=Reason(found["reason"]),
            sentence=found["sentence"],
            evidence=_evidence(found["evidence"]),
            guards=tuple(found["guards"]),
            error=found["error"],
            boot_id=found["boot_id"],
            diagnoses=tuple(found["diagnoses"]),
            outcome=None if outcome is None else _outcome(outcome),
            uid=found["uid"],
            node=found["node"],
        )
        return StoredDecision(int(found["id"]), made, found["run_id"])
    except (KeyError, TypeError, ValueError) as error:
        raise _another_version(error) from error


def run(found: Doc | None) -> StoredRun | None:
    """One boot of an engine. Raises DaemonRefused."""
    if found is None:
        return None
    try:
        return StoredRun(**{**found, "started_at": datetime.fromisoformat(found["started_at"])})
    except (KeyError, TypeError, ValueError) as error:
        raise _another_version(error) from error


def column(found: Doc) -> Column:
    """One column of the ledger. Raises DaemonRefused."""
    try:
        setting = found["setting"]
        return Column(
            since=datetime.fromisoformat(found["since"]),
            until=datetime.fromisoformat(found["until"]),
            setting=None if setting is None else {name: _setting(one) for name, one in setting.items()},
            figures=Figures(**{field.name: _figure(found["figures"][field.name]) for field in fields(Figures)}),
            resolution_s=int(found["resolution_s"]),
            notes=tuple(found["notes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _another_version(error) from error


def tariff(found: Doc) -> Tariff:
    """The prices in the settings that are in force. Raises DaemonRefused."""
    try:
        prices = found["settings"]["tariff"]
        return Tariff(prices["currency"], prices["per_kwh"], prices["per_gpu_hour"], prices["per_network_gb"])
    except (KeyError, TypeError) as error:
        raise _another_version(error) from error


def _outcome(found: Doc) -> Outcome:
    return Outcome(Verdict(found["verdict"]), found["sentence"], _evidence(found["numbers"]), bool(found["undo"]))


def _evidence(found: Doc) -> dict[str, float | str | None]:
    return {name: math.inf if one == NO_LIMIT_WORD else one for name, one in found.items()}


def _value(one: Any) -> float | None:
    return None if one is None else math.inf if one == NO_LIMIT_WORD else float(one)


def _setting(one: Any) -> float | None:
    """In a setting None is no limit."""
    return None if one is None or one == NO_LIMIT_WORD else float(one)


def _figure(found: Any) -> Any:
    return Figure(found["value"], found["why"]) if isinstance(found, Mapping) else found


def _another_version(error: Exception) -> DaemonRefused:
    return DaemonRefused(
        f"cannot understand the daemon's answer ({error!r}): it is of another version; restart it, or use its own "
        "`vllm-governor`"
    )
