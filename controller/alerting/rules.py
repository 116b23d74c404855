"""The rules over the ticks: where each stands, said in the log, as JSON for the next start.

Belongs here: carrying the rules' state on. Never: a rule, incidents, telling anybody.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from controller.alerting.kept import Later
from controller.alerting.turns import others_turn
from controller.metrics.observed import Standing
from domain.alert import AlertState, Rule, Transition
from domain.view import View
from policies.alert_thresholds import AlertsState, AlertThresholdsSettings, evaluate, pack, unpack
from policies.alert_thresholds.evaluate import RuleState
from policies.hysteresis import Held

logger = logging.getLogger(__name__)

T = TypeVar("T")
AT_ONCE = 50
"""So many rules are evaluated before others get their turn: a few milliseconds where all of them fire."""
MOST_SAID = 20
FIRING, RESOLVED, INACTIVE = AlertState.FIRING, AlertState.RESOLVED, AlertState.INACTIVE


class Rules:
    """Those in force, and where each stands."""

    def __init__(self, settings: AlertThresholdsSettings) -> None:
        self.in_force: tuple[Rule, ...] = settings.in_force
        self._states: dict[str, RuleState] = {}

    def configure(self, settings: AlertThresholdsSettings) -> None:
        """Take other rules; those that stay go on from where they stand."""
        self.in_force = settings.in_force
        names = {rule.name for rule in self.in_force}
        self._states = {name: state for name, state in self._states.items() if name in names}

    async def evaluate(self, view: View, told: Mapping[str, float]) -> AsyncIterator[tuple[Transition, ...]]:
        """One view further, some rules at a time: what each of these steps brings about."""
        for several in _slices(self.in_force):
            before = AlertsState(tuple(self._states[one.name] for one in several if one.name in self._states))
            after, changed = evaluate(before, view, several, told)
            self._states.update((state.name, state) for state in after.rules)
            yield changed
            if len(several) == AT_ONCE:
                await others_turn()

    def standing(self) -> list[Standing]:
        """Every rule in force with its state."""
        known = self._states
        states = (known[rule.name].state if rule.name in known else INACTIVE for rule in self.in_force)
        return [Standing(rule, state) for rule, state in zip(self.in_force, states, strict=True)]

    @property
    def firing(self) -> frozenset[str]:
        """The names of those that fire."""
        return frozenset(name for name, state in self._states.items() if state.state is FIRING)

    def packed(self, now_s: float, at: datetime) -> Mapping[str, Any]:
        """Plain JSON."""
        states = [AlertsState(tuple(several)) for several in _slices(tuple(self._states.values()))]
        return Later(lambda: {"at": at.timestamp(), "states": [pack(one, now_s) for one in states]})

    def restore(self, kept: Mapping[str, Any] | None, opened: Collection[str], now_s: float, at: datetime) -> None:
        """From what `packed` gave, in an earlier run, and the names of the rules whose incident is still open.

        The incidents are written at once and this now and then, so they say which rules fire.
        """
        found: dict[str, RuleState] = {}
        if kept is not None:
            try:
                down_s = at.timestamp() - kept["at"]
                states = [unpack(one, now_s, down_s) for one in kept["states"]]
                found = {one.name: one for state in states for one in state.rules}
            except (KeyError, TypeError, ValueError) as error:
                logger.warning(
                    "alerts: cannot tell where the rules stood, those that do not fire begin anew: %s", error
                )
        names = {rule.name for rule in self.in_force}
        self._states = {
            name: _told_by_incident(found.get(name, RuleState(name)), fires=name in opened)
            for name in names & {*found, *opened}
        }


def _slices(several: Sequence[T]) -> Iterator[Sequence[T]]:
    return (several[start : start + AT_ONCE] for start in range(0, len(several), AT_ONCE))


def _told_by_incident(state: RuleState, *, fires: bool) -> RuleState:
    if fires == (state.state is FIRING):
        return state
    return replace(state, state=FIRING if fires else INACTIVE, held=Held(on=fires))


def say(transitions: Collection[Transition]) -> None:
    """Firing and resolved are news for the log; a burst is not told one by one."""
    news = [one for one in transitions if one.after in (FIRING, RESOLVED)]
    if len(news) > MOST_SAID:
        logger.warning("alerts: %d more fire or are over", len(news) - MOST_SAID)
    for one in news[:MOST_SAID]:
        if one.after is FIRING:
            logger.warning("alert %s firing: %s %s", one.rule.name, one.rule.summary, one.sentence)
        else:
            logger.info("alert %s resolved: %s", one.rule.name, one.sentence)
