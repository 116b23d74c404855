"""Carrying decisions out: intent on disk, the calls to the engine, read back, result on disk.

Belongs here: that order. Never: deciding, or repeating a call whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from controller.engine.client import EngineClient
from controller.history.recorder import Recorder
from domain.decision import Decision, Status
from domain.errors import EngineRefused, RecoverableError, StaleGeneration
from domain.knobs import PREEMPT, PURGE
from domain.runtime import EngineRuntime, Purged

ACTS = (PURGE, PREEMPT)


class Actuator:
    """One attempt per decision. A decision is applied only when every engine core reads the requested value back."""

    def __init__(self, client: EngineClient, recorder: Recorder, lease_s: float) -> None:
        self._client = client
        self._recorder = recorder
        self._lease_s = lease_s

    async def carry_out(self, runtime: EngineRuntime, intended: Sequence[Decision]) -> list[Decision]:
        """Answers the decisions with their outcome, in their order.

        The knobs go first, in one call: a purge that preempts moves the cap, and what was decided on it is then stale.
        """
        intended = await self._recorder.intend(intended)
        settings = [decision for decision in intended if decision.knob not in ACTS]
        acts = [decision for decision in intended if decision.knob in ACTS]
        done = await self._set(runtime, settings) if settings else []
        done += await self._purge(runtime, acts) if acts else []
        by_knob = {decision.knob: decision for decision in done}
        concluded = [by_knob[decision.knob] for decision in intended]
        self._recorder.conclude(concluded)
        return concluded

    async def _set(self, runtime: EngineRuntime, intended: Sequence[Decision]) -> list[Decision]:
        try:
            now = await self._call(runtime, intended)
        except RecoverableError as error:
            if not isinstance(error, EngineRefused) or len(runtime.cores) > 1:
                return await self._look(intended, error)
            if len(intended) == 1 or isinstance(error, StaleGeneration):
                return [_refused(decision, error) for decision in intended]
            return await self._set_each(runtime, intended)
        return [_read_back(decision, now) for decision in intended]

    async def _set_each(self, runtime: EngineRuntime, intended: Sequence[Decision]) -> list[Decision]:
        """The engine refuses a call as a whole and has then changed nothing: one that is out of bounds must not hold
        back the others, a cut least of all. The more urgent go first.
        """
        done: list[Decision] = []
        for decision in intended:
            try:
                runtime = await self._call(runtime, [decision])
            except EngineRefused as error:
                done.append(_refused(decision, error))
            except RecoverableError as error:
                return [*done, *await self._look(intended[len(done) :], error)]
            else:
                done.append(_read_back(decision, runtime))
        return done

    async def _call(self, runtime: EngineRuntime, intended: Sequence[Decision]) -> EngineRuntime:
        wanted = {d.knob: d.requested for d in intended if d.requested is not None}
        return await self._client.set_knobs(runtime, wanted, self._lease_s)

    async def _look(self, intended: Sequence[Decision], error: RecoverableError) -> list[Decision]:
        """The call may have been carried out, by all engine cores or some: look, never repeat."""
        try:
            now = await self._client.runtime()
        except RecoverableError:
            return [replace(d, status=Status.FAILED, observed=None, error=str(error)) for d in intended]
        return [_after(error, _read_back(decision, now)) for decision in intended]

    async def _purge(self, runtime: EngineRuntime, intended: Sequence[Decision]) -> list[Decision]:
        """Both acts in one call. A lost answer is not looked up: whether a purge helped is judged by its effect."""
        wanted = {d.knob: d.requested or 0.0 for d in intended}
        try:
            purged = await self._client.purge(runtime.boot_id, wanted.get(PURGE, 0.0), int(wanted.get(PREEMPT, 0.0)))
        except RecoverableError as error:
            refused = isinstance(error, EngineRefused)
            observed = 0.0 if refused else None
            why = f"not purged: {error}" if refused else str(error)
            return [replace(d, status=Status.FAILED, observed=observed, error=why) for d in intended]
        return [_acted(decision, purged) for decision in intended]


def _refused(decision: Decision, error: RecoverableError) -> Decision:
    return replace(decision, status=Status.FAILED, observed=decision.old, error=str(error))


def _acted(decision: Decision, purged: Sequence[Purged]) -> Decision:
    """A purge is observed as the share that was evicted: none where not one block was, whatever the engine answered."""
    of_core: Callable[[Purged], float] = _evicted if decision.knob == PURGE else _preempted
    did = {one.core: of_core(one) for one in purged}
    observed = min(did.values(), default=0.0)
    if observed > 0:
        return replace(decision, status=Status.APPLIED, observed=observed)
    status = Status.PARTIAL if any(did.values()) else Status.DIVERGED
    what = "purged" if decision.knob == PURGE else "preempted"
    each = "; ".join(f"engine {one.core}: {_why_not(one, what)}" for one in purged if not of_core(one))
    return replace(decision, status=status, observed=observed, error=f"not {what}: {each or 'no engine core answered'}")


def _evicted(one: Purged) -> float:
    return one.ratio if one.blocks > 0 and one.failed is None else 0.0


def _preempted(one: Purged) -> float:
    return float(one.preempted)


def _why_not(one: Purged, what: str) -> str:
    if one.failed is not None:
        return one.failed
    if what == "preempted":
        return "no request could be put back"
    return "no block was evicted" if one.done else "it is still under way"


def _after(error: RecoverableError, read: Decision) -> Decision:
    """What a call that answered an error did after all."""
    if read.status is Status.APPLIED:
        return read
    if read.status is Status.PARTIAL:
        return replace(read, error=f"{read.error}: {error}")
    return replace(read, status=Status.FAILED, error=str(error))


def _read_back(decision: Decision, now: EngineRuntime) -> Decision:
    """Every engine core acknowledges for itself, by the value that it reads."""
    knob = now.knob(decision.knob)
    observed = knob.value if knob else None
    read = {core.index: one.value if (one := core.knobs.get(decision.knob)) else None for core in now.cores}
    agreeing = sum(value == decision.requested for value in read.values())
    if read and agreeing == len(read):
        return replace(decision, status=Status.APPLIED, observed=observed)
    status = Status.PARTIAL if agreeing else Status.DIVERGED
    return replace(decision, status=status, observed=observed, error=_reads(read, decision.requested))


def _reads(read: Mapping[int, float | None], requested: float | None) -> str:
    if len(set(read.values())) == 1:
        return f"the engine reads {next(iter(read.values()))} after {requested} was requested"
    each = ", ".join(f"engine {index} reads {value}" for index, value in read.items())
    return f"{each} after {requested} was requested"
