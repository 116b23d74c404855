"""A replay of what a history holds, and its document.

Belongs here: the tables to try, reading the recording, the comparison as plain values. Never: deciding (replaying.py),
comparing (comparing.py), how it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from controller.deciding import circumstances
from controller.deciding.circumstances import Circumstances
from controller.history.comparing import Comparing, Comparison, Effect, KnobReport, Side, Span
from controller.history.recording import recorded
from controller.history.replaying import Replay
from controller.history.view_codec import Frame
from controller.settings import refusal
from domain.errors import BadReading, HistoryUnavailable, SettingsError
from policies.guards import GuardSettings
from policies.registry import PoliciesSettings
from store.history import History


def checked(tables: Mapping[str, Any], kind: type[PoliciesSettings], source: str) -> dict[str, Any]:
    """The tables to try, checked on their own; `source` is where they are from. Raises SettingsError."""
    unknown = sorted(set(tables) - {"policies", "guards"})
    if unknown:
        raise SettingsError(
            f"cannot use {source}: it has {', '.join(unknown)}, and only [policies.NAME] and [guards] can be tried"
        )
    for name, settings in (("policies", kind), ("guards", GuardSettings)):
        try:
            settings.model_validate(tables.get(name, {}))
        except ValidationError as error:
            raise refusal(error, source, settings, name) from error
    return dict(tables)


async def replayed(
    history: History,
    kind: type[PoliciesSettings],
    tables: Mapping[str, Any] | None,
    since: datetime | None,
    node: str | None,
) -> Comparison:
    """`tables` None: none are tried. Raises HistoryUnavailable and BadReading."""
    tried = None if tables is None else Replay(kind, tables.get("policies", {}), tables.get("guards", {}))
    rows = await history.decisions.select(since=since, node=node)
    comparing = Comparing(rows, Replay(kind), tried, since)
    async for _, frame in recorded(history, node=node):
        comparing.take(frame, _then(frame))
    found = comparing.found
    if not found.ticks:
        why = f"none of its {found.warm_up} recorded ticks can be compared" if found.warm_up else "nothing is recorded"
        raise HistoryUnavailable(f"cannot replay: {why}; store.recording_hours must not be 0, and --since not too late")
    return found


def _then(frame: Frame) -> Circumstances:
    try:
        return circumstances.read(frame.context)
    except (KeyError, TypeError, ValueError) as error:
        raise BadReading(
            f"cannot replay the recording: the tick of {frame.at.isoformat()} does not say what was decided on "
            f"({error!r}); another version of vllm-governor wrote it"
        ) from error


def document(found: Comparison) -> dict[str, Any]:
    """The comparison as plain values; null is unknown."""
    return {
        "begin": _moment(found.begin),
        "end": _moment(found.end),
        "ticks": found.ticks,
        "warm_up_ticks": found.warm_up,
        "versions": sorted(found.versions),
        "recorded_decisions": found.reproduced + len(found.missed),
        "reproduced": found.reproduced,
        "not_reproduced": sorted(found.missed),
        "knobs": {knob: _knob(report) for knob, report in sorted(found.knobs.items())},
    }


def _knob(report: KnobReport) -> dict[str, Any]:
    return {
        "ticks": report.ticks,
        "changes": {"recorded": report.changes_recorded, "replayed": report.changes_replayed},
        "differing_ticks": report.differing,
        "timeline": [_span(span) for span in report.spans],
        "effect": _effect(report.effect),
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "from": _moment(span.begin),
        "to": _moment(span.end),
        "ticks": span.ticks,
        "in_force": span.in_force,
        "recorded": _side(span.recorded),
        "replayed": _side(span.replayed),
    }


def _side(one: Side | None) -> dict[str, Any] | None:
    return None if one is None else asdict(one)


def _effect(effect: Effect) -> dict[str, Any]:
    known, rated = effect.ticks, effect.rated
    return {
        "predicted_ticks": known,
        "step_s": {
            "recorded": effect.step_s / known if known else None,
            "replayed": effect.step_s_replayed / known if known else None,
        },
        "tokens_per_s": {
            "recorded": effect.tokens_per_s / rated if rated else None,
            "replayed": effect.tokens_per_s_replayed / rated if rated else None,
        },
        "unknown_ticks": dict(sorted(effect.unknown.items())),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
