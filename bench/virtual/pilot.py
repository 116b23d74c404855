"""The daemon's tick on the run's clock: estimate, decide, carry out, read back.

Belongs here: the order of that, with the daemon's own parts. Judging what came of changes is not among them. Never: a
rule, a guard, a figure of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from vllm_governor_engine.errors import GovernorError

from bench.virtual.plugin import Plugin
from controller.deciding.arbiter import Arbiter
from controller.deciding.order import Decided, Deciding
from controller.estimation import Estimator
from domain.decision import Decision, Mode, Status
from domain.knobs import PREEMPT, PURGE
from domain.runtime import EngineRuntime
from domain.slo import Slo
from domain.snapshot import Snapshot
from policies.guards import GuardSettings
from policies.registry import PoliciesSettings

ACTS = (PURGE, PREEMPT)


class Steering(Protocol):
    """Who steers: the daemon, or another whom a bench compares it with. `slos` may be set between two ticks."""

    slos: tuple[Slo, ...]

    def tick(self, snapshot: Snapshot, runtime: EngineRuntime) -> Decided:
        """One turn, at the run's tick."""
        ...


class Pilot:
    """Steers the engine behind `plugin`; without `policies` it only watches."""

    def __init__(
        self,
        plugin: Plugin,
        policies: PoliciesSettings | None,
        guards: GuardSettings,
        slos: tuple[Slo, ...],
        tick_s: float,
    ) -> None:
        self._plugin = plugin
        self.slos = slos
        self._estimator = Estimator(tick_s)
        mode = Mode.AUTO if policies is not None else Mode.MANUAL
        self._deciding = Deciding(policies or PoliciesSettings(), mode, Arbiter(tick_s, guards))
        self._values: dict[str, float | None] = {}

    def tick(self, snapshot: Snapshot, runtime: EngineRuntime) -> Decided:
        """One tick of the daemon; answers its decisions with what became of them."""
        values = {name: (knob.value if (knob := runtime.knob(name)) else None) for name in runtime.envelope}
        if values != self._values:
            self._estimator.restart_window()
        self._values = values
        decided = self._deciding.decide(snapshot.wall, self._estimator.update(snapshot, self.slos))
        changes = [d for d in decided.decisions if d.status is Status.INTENDED]
        if changes:
            done = {d.knob: d for d in _carry_out(self._plugin, runtime, changes)}
            self._estimator.restart_window()
            decided = replace(decided, decisions=[done.get(d.knob, d) for d in decided.decisions])
        if any(core.draining for core in runtime.cores):
            self._estimator.restart_window()
        return decided


def _carry_out(plugin: Plugin, runtime: EngineRuntime, changes: Sequence[Decision]) -> list[Decision]:
    """Knobs in one call, each by itself where that is refused, then the acts in one, as the daemon's actuator does."""
    acts = {d.knob: d.requested or 0.0 for d in changes if d.knob in ACTS}
    wanted = {d.knob: d.requested for d in changes if d.knob not in ACTS}
    done: list[Decision] = []
    if wanted:
        done += _set(plugin, runtime, [d for d in changes if d.knob in wanted])
    if acts:
        ratio, preempt = acts.get(PURGE, 0.0), int(acts.get(PREEMPT, 0.0))
        done += _tried(lambda: plugin.purge(ratio, preempt), [d for d in changes if d.knob in acts])
    return done


def _set(plugin: Plugin, runtime: EngineRuntime, changes: Sequence[Decision]) -> list[Decision]:
    done = _tried(lambda: plugin.set(runtime, {d.knob: d.requested for d in changes}), changes)
    if len(changes) > 1 and all(d.status is Status.FAILED for d in done):
        return [found for d in changes for found in _set(plugin, plugin.renew(), [d])]
    return done


def _tried(call: Callable[[], EngineRuntime], changes: Sequence[Decision]) -> list[Decision]:
    try:
        now = call()
    except GovernorError as error:
        return [replace(d, status=Status.FAILED, observed=d.old, error=str(error)) for d in changes]
    return [_read_back(decision, now) for decision in changes]


def _read_back(decision: Decision, now: EngineRuntime) -> Decision:
    """An act was begun; whether it helped shows in the ticks after it."""
    knob = now.knob(decision.knob)
    observed = decision.requested if decision.knob in ACTS else knob.value if knob is not None else None
    status = Status.APPLIED if observed == decision.requested else Status.DIVERGED
    return replace(decision, status=status, observed=observed)
