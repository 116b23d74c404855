"""What came of the changes: the judges of policies/outcomes.py fed by the loop, their verdicts written down.

Belongs here: which changes are on trial, keeping what was refuted over a restart. Never: judging.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controller.clock import Now
from controller.history.dataclass_json import decode, encode
from controller.history.memory import Memory
from controller.history.recorder import Recorder
from domain.decision import Decision, Mode, Proposal, Reason
from domain.errors import HistoryUnavailable
from domain.knobs import PURGE
from domain.outcome import Outcome, Refuted
from domain.view import View
from policies import outcomes
from policies.judgement import JudgementSettings
from policies.outcomes import OutcomesState
from policies.regimes import Regime
from policies.trial import Change

logger = logging.getLogger(__name__)

KEPT_AS = "refuted"
FINAL = frozenset(
    {
        Reason.STATIC_BATCH,
        Reason.ROLLBACK_VALUES,
        Reason.ROLLBACK_UNDONE,
        Reason.OPERATOR_OVERRIDE,
        Reason.UNDO_WORSE,
    }
)
"""What an operator or an undo set is judged like any change, and stays."""
FINAL_POLICIES = frozenset({"emergency_purge"})
"""Its own recovery takes its measures back."""


class Outcomes:
    """One for the daemon's life: a reload changes how is judged, not what is on trial."""

    def __init__(self, settings: JudgementSettings, memory: Memory) -> None:
        self.settings = settings
        self._memory = memory
        self.state = OutcomesState()
        self._verdicts: dict[str, Outcome] = {}

    def see(self, view: View, mode: Mode) -> tuple[frozenset[Refuted], tuple[Proposal, ...]]:
        """Take a view in; the settings that proved bad at the load there is now, and the values that are wanted back.

        Outside mode `auto` nothing is wanted back: the knobs are an operator's.
        """
        if not self.settings.enabled:
            return frozenset(), ()
        self.state, verdicts = outcomes.observe(self.state, view, self.settings)
        self._verdicts |= verdicts
        return outcomes.refuted(self.state, view), outcomes.proposals(self.state) if mode is Mode.AUTO else ()

    def end_tick(self, view: View, at: datetime, recorder: Recorder) -> None:
        """Put the changes that took effect on trial, and write the verdicts."""
        applied = recorder.take_applied()
        if self.settings.enabled:
            changes = [change for decision in applied if (change := change_of(decision)) is not None]
            self.state, verdicts = outcomes.changed(self.state, view, changes, self.settings)
            self._verdicts |= verdicts
        if not self._verdicts:
            return
        due, self._verdicts = self._verdicts, {}
        recorder.judged(due)
        if any(outcome.undo for outcome in due.values()):
            self._keep(view.now_s, at)

    async def restore(self, now: Now) -> None:
        """Remember what was refuted before the daemon's restart."""
        try:
            kept = await self._memory.get(KEPT_AS)
            if kept is not None:
                self.state = OutcomesState(regimes=_regimes(kept, now))
        except (HistoryUnavailable, KeyError, TypeError, ValueError) as error:
            logger.warning("cannot tell what was refuted before the start: %s", error)

    def _keep(self, now_s: float, at: datetime) -> None:
        regimes = [encode(Regime, one) | {"until_s": one.until_s - now_s} for one in self.state.regimes]
        self._memory.put(KEPT_AS, at, {"at": at.timestamp(), "regimes": json.dumps(regimes)})


def change_of(decision: Decision) -> Change | None:
    """A decision that took effect, as a change on trial; None where nothing moved."""
    old, new, uid = decision.old, decision.requested, decision.uid
    if uid is None or new is None:
        return None
    if decision.knob == PURGE:
        return Change(uid, PURGE, 0.0, new, reversible=False)
    if old is None or old == new:
        return None
    reversible = decision.reason not in FINAL and decision.policy not in FINAL_POLICIES
    return Change(uid, decision.knob, old, new, reversible)


def _regimes(kept: Mapping[str, Any], now: Now) -> tuple[Regime, ...]:
    """Kept with the seconds that were left, since the monotonic clock may have begun anew."""
    gone_s = max(0.0, now.wall.timestamp() - kept["at"])
    return tuple(
        decode(Regime, one | {"until_s": now.monotonic_s + one["until_s"] - gone_s})
        for one in json.loads(kept["regimes"])
    )
