"""The life of proposed objectives: watched for, made, remembered over restarts, dropped when the engine is another.

Belongs here: which engine a proposal is of, keeping it. Never: what is quiet and which bound follows
(policies/objectives.py), whether the proposal is what holds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from controller.watch import Condition
from domain.errors import HistoryUnavailable
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo
from domain.view import View
from policies.objectives import ProposalSettings, Proposed, Watch, propose, watch_on

logger = logging.getLogger(__name__)

KEPT_NAME = "proposed_objectives"


class Memory(Protocol):
    """What outlives the daemon (controller.history.memory.Memory)."""

    def put(self, name: str, at: datetime, value: Mapping[str, Any] | None) -> None:
        """Remember a value under a name; what cannot be written now is written when it can be."""

    async def get(self, name: str) -> Mapping[str, Any] | None:
        """The value remembered under it. Raises HistoryUnavailable while that is not known."""


class Proposing:
    """One engine's proposal. An engine is the same as long as its address and its start-up values are, over boots."""

    def __init__(self, memory: Memory, settings: ProposalSettings, engine_url: str) -> None:
        self._memory = memory
        self._condition = Condition("objectives")
        self._watch = Watch()
        self._owed = False
        self._identity: Mapping[str, Any] | None = None
        self.current: Proposed | None = None
        self.configure(settings, engine_url)

    def configure(self, settings: ProposalSettings, engine_url: str) -> None:
        """Take other settings. A proposal that was made with other ones is made anew."""
        self._settings, self._engine_url = settings, engine_url
        self._boot_id: str | None = None

    async def meet(self, runtime: EngineRuntime) -> None:
        """Take up what is remembered of this engine. Raises nothing; what cannot be read is asked for again."""
        if runtime.boot_id == self._boot_id:
            return
        identity = self._identity_of(runtime)
        if identity != self._identity:
            self.current = None  # of another engine
            try:
                kept = await self._memory.get(KEPT_NAME)
            except HistoryUnavailable as error:
                self._condition.report(f"none is proposed before it is known what was: {error}")
                return
            self._condition.report(None)
            self._identity, self._watch, self._owed = identity, Watch(), False
            self.current = _restored(kept, identity)
            if self.current is not None:
                logger.info("objectives: those proposed before hold on: %s", listed(self.current.slos))
        self._boot_id = runtime.boot_id

    def look_on(self, view: View) -> Proposed | None:
        """Take one view in; answers a proposal in the moment in which it is made."""
        final = self.current is not None and not self.current.provisional
        if final or view.runtime is None or view.runtime.boot_id != self._boot_id:
            return None
        self._watch = watch_on(self._watch, view, self._settings)
        made = propose(self._watch, self._settings)
        if made is None or (made.provisional and self.current is not None):
            return None
        self.current, self._owed = made, True
        return made

    def save(self, at: datetime) -> None:
        """Remember what was made."""
        if self._owed and self.current is not None:
            self._memory.put(KEPT_NAME, at, {"of": self._identity, **_stored(self.current)})
            self._owed = False

    def _identity_of(self, runtime: EngineRuntime) -> dict[str, Any]:
        envelope = {name: value if math.isfinite(value) else None for name, value in runtime.envelope.items()}
        settings = self._settings.model_dump(exclude={"enabled"})
        return {"engine_url": self._engine_url, "envelope": envelope, "settings": settings}


def listed(slos: tuple[Slo, ...]) -> str:
    """For people: each latency with its percentile and bound."""
    return ", ".join(f"{slo.latency} P{slo.percentile:g} within {slo.bound_s:g} s" for slo in slos) or "none"


def _stored(made: Proposed) -> dict[str, Any]:
    slos = [{"latency": slo.latency.value, "percentile": slo.percentile, "bound_s": slo.bound_s} for slo in made.slos]
    return {
        "slos": slos,
        "sentence": made.sentence,
        "evidence": dict(made.evidence),
        "provisional": made.provisional,
    }


def _restored(kept: Mapping[str, Any] | None, identity: Mapping[str, Any]) -> Proposed | None:
    """What was kept, if it is of this engine."""
    if kept is None or kept.get("of") != identity:
        return None
    try:
        slos = [Slo(Latency(o["latency"]), float(o["percentile"]), float(o["bound_s"]), True) for o in kept["slos"]]
        return Proposed(tuple(slos), str(kept["sentence"]), dict(kept["evidence"]), bool(kept["provisional"]))
    except (KeyError, TypeError, ValueError) as error:
        logger.warning("objectives: cannot use those kept in the history: %r; they are proposed anew", error)
        return None
