"""From ticks to events: what is worth telling whoever listens.

Belongs here: what is news beside the tick before, as JSON values. Never: the listeners (events.py), HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from controller.alerting.ticked import Ticked
from controller.engine import holder
from controller.loop import Loop
from controller.operations.changes import RunTime
from controller.operations.events import EventKind, Events
from controller.operations.plain import plain
from controller.operations.problems import Problem
from domain.decision import Decision
from domain.view import View

PERCENTILES = (50, 95, 99)
Data = dict[str, Any]


class Publisher:
    """A listener of the loop. One for the daemon's life."""

    def __init__(
        self, loop: Loop, run_time: RunTime, events: Events, problems: Callable[[], tuple[Problem, ...]]
    ) -> None:
        self._loop = loop
        self._run_time = run_time
        self._events = events
        self._problems = problems
        self._said: dict[EventKind, Any] = {}
        self._firing: dict[str, Data] = {}

    def __call__(self, ticked: Ticked) -> None:
        """One tick is over."""
        problems = [{"what": p.what, "reason": p.reason, "remedy": p.remedy} for p in self._problems()]
        for decision in ticked.news:
            self._events.publish(EventKind.DECISION, of_decision(decision))
        for uid, outcome in ticked.verdicts.items():
            told = {"uid": uid, "verdict": outcome.verdict.value, "sentence": outcome.sentence, "undo": outcome.undo}
            self._events.publish(EventKind.OUTCOME, told)
        self._alerts()
        self._changed(EventKind.ENGINE, self._engine())
        self._changed(EventKind.MODE, self._mode())
        self._changed(EventKind.ROLLBACK, self._rollback())
        self._changed(EventKind.OVERRIDE, self._overrides())
        self._changed(EventKind.POLICY, {"changed": list(self._run_time.changes.names())})
        self._changed(EventKind.SOURCE, self._sources(ticked))
        self._changed(EventKind.PROBLEM, {"problems": problems})
        self._events.publish(EventKind.TICK, self._tick(ticked, len(problems)))

    def _changed(self, kind: EventKind, now: Data) -> None:
        """Told when it is another than at the tick before; what was at the first is no news."""
        before = self._said.setdefault(kind, now)
        if before != now:
            self._said[kind] = now
            self._events.publish(kind, now)

    def _tick(self, ticked: Ticked, problems: int) -> Data:
        observed, view = self._loop.observed, ticked.view
        runtime = None if view is None else view.runtime
        names = [] if runtime is None else list(runtime.envelope)
        return {
            "at": ticked.wall.isoformat(),
            "number": observed.ticks,
            "failed": ticked.failed,
            "mode": observed.mode.value,
            "signals": {} if view is None else {name: _finite(value) for name, value in view.signals()},
            "latencies": {} if view is None else _latencies(view),
            "objectives": [] if view is None else _objectives(view),
            "knobs": {name: plain(knob.value) for name in names if runtime and (knob := runtime.knob(name))},
            "running": None if runtime is None else runtime.running,
            "waiting": None if runtime is None else runtime.waiting,
            "alerts": len(self._firing),
            "problems": problems,
        }

    def _engine(self) -> Data:
        runtime, held_by = self._loop.observed.runtime, self._loop.held_by
        return {
            "answers": runtime is not None,
            "boot_id": None if runtime is None else runtime.boot_id,
            "held_by": None if held_by is None else holder.shown(held_by),
        }

    def _mode(self) -> Data:
        observed = self._loop.observed
        window = None if observed.maintenance is None else observed.maintenance.name
        return {
            "in_force": observed.mode.value,
            "configured": self._loop.settings.mode.value,
            "maintenance": window,
        }

    def _rollback(self) -> Data:
        current = self._loop.rollback[0]
        if current is None:
            return {"since": None, "undoing": False, "values": {}}
        values = {name: plain(value) for name, value in current.values.items()}
        return {"since": current.at.isoformat(), "undoing": current.leaving, "values": values}

    def _overrides(self) -> Data:
        held = self._loop.overrides.standing.items()
        return {
            "overrides": [
                {"knob": k, "value": plain(one.override.value), "until": one.until.isoformat(), "actor": one.actor}
                for k, one in held
            ]
        }

    def _sources(self, ticked: Ticked) -> Data:
        if ticked.snapshot is None:
            return dict(self._said.get(EventKind.SOURCE, {"problems": {}}))
        return {"problems": {source.value: why for source, why in ticked.snapshot.problems.items()}}

    def _alerts(self) -> None:
        now = {
            one.fingerprint: {
                "name": one.rule,
                "severity": one.severity.value,
                "starts_at": one.starts_at.isoformat(),
                "fingerprint": one.fingerprint,
                "annotations": dict(one.annotations),
            }
            for one in self._loop.alerting.opened.values()
        }
        for fingerprint, alert in now.items():
            if fingerprint not in self._firing:
                self._events.publish(EventKind.ALERT, {**alert, "state": "firing"})
        for fingerprint, alert in self._firing.items():
            if fingerprint not in now:
                self._events.publish(EventKind.ALERT, {**alert, "state": "resolved"})
        self._firing = now


def of_decision(decision: Decision) -> Data:
    """A decision as JSON says it; it is found by its uid once the history has it."""
    return {
        "uid": decision.uid,
        "at": decision.at.isoformat(),
        "mode": decision.mode.value,
        "policy": decision.policy,
        "knob": decision.knob,
        "old": plain(decision.old),
        "wanted": plain(decision.wanted),
        "requested": plain(decision.requested),
        "observed": plain(decision.observed),
        "status": decision.status.value,
        "reason": decision.reason.value,
        "sentence": decision.sentence,
        "guards": list(decision.guards),
        "error": decision.error,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _latencies(view: View) -> Mapping[str, Any]:
    return {
        latency.value: {"samples": one.samples, **{f"p{p}_s": one.quantile(p / 100) for p in PERCENTILES}}
        for latency, one in view.latencies.items()
    }


def _objectives(view: View) -> list[Data]:
    return [
        {
            "latency": slo.latency.value,
            "percentile": slo.percentile,
            "bound_s": slo.bound_s,
            "over_ratio": view.over_ratio(slo),
            "allowed_ratio": slo.allowed_ratio,
        }
        for slo in view.slos
    ]
