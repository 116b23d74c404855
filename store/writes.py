"""What the daemon hands to the writer: one class for each kind of row, each a `store.pending.Write`.

Belongs here: what each kind needs and how important it is. Never: SQL (the module of its table), when it is written.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, ClassVar

from sqlalchemy.ext.asyncio import AsyncSession

from domain.audit import Action
from domain.decision import Decision
from domain.incident import Delivery, Incident, Notification
from domain.ledger import LedgerEntry
from domain.outcome import Outcome
from domain.runtime import EngineRuntime
from domain.silence import Silence
from domain.stretch import Reading, reading
from store import alerts, audit, decisions, kept, ledger, readings, recordings, runs
from store.history import Chunk, History
from store.pending import Importance, Write


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot of the engine as this daemon met it: the run that rows belong to. Its number is the database's own, and
    another one in a database that was begun anew, so each write asks for it.
    """

    at: datetime
    engine_url: str
    runtime: EngineRuntime

    async def number(self, history: History, session: AsyncSession) -> int:
        """The run's number; its row is made where it is not there."""
        known: dict[Any, int] = session.info.setdefault("boots", {})
        key = (self.at, self.runtime.boot_id)
        if key not in known:
            known[key] = await runs.start(session, history.node, self.at, self.engine_url, self.runtime)
        return known[key]


async def _number(boot: Boot | None, history: History, session: AsyncSession) -> int | None:
    return None if boot is None else await boot.number(history, session)


@dataclass(frozen=True, slots=True)
class BeginRun:
    """A boot of the engine, before anything is known of it but itself."""

    boot: Boot
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await self.boot.number(history, session)


@dataclass(frozen=True, slots=True)
class AddDecisions:
    """Each with its `uid`. `numbers` are theirs by uid, once they are written."""

    boot: Boot | None
    decisions: Sequence[Decision]
    numbers: dict[str, int] = field(default_factory=dict)
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await self.together([self], history, session)

    @staticmethod
    async def together(several: Sequence[AddDecisions], history: History, session: AsyncSession) -> None:
        """Several at once, which takes hardly longer than one."""
        for _, of_boot in groupby(several, key=lambda one: id(one.boot)):
            writes = list(of_boot)
            run_id = await _number(writes[0].boot, history, session)
            wanted = [decision for write in writes for decision in write.decisions]
            numbers = iter(await decisions.add(session, history.node, run_id, wanted))
            for write in writes:
                write.numbers.update(
                    {str(one.uid): number for one, number in zip(write.decisions, numbers, strict=False)}
                )


@dataclass(frozen=True, slots=True)
class Conclude:
    """What became of changes that were intended, by uid."""

    decisions: Sequence[Decision]
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        for one in self.decisions:
            if one.uid is not None:
                await decisions.conclude(session, one.uid, one.status, one.observed, one.error)


@dataclass(frozen=True, slots=True)
class Judge:
    """What came of changes, by uid."""

    outcomes: Mapping[str, Outcome]
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        for uid, outcome in self.outcomes.items():
            await decisions.judge(session, uid, outcome)


@dataclass(frozen=True, slots=True)
class Keep:
    """A value by name that outlives the daemon; None forgets it."""

    name: str
    at: datetime
    value: Mapping[str, Any] | None
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await kept.put(session, history.node, self.name, self.at, self.value)


@dataclass(frozen=True, slots=True)
class AddAction:
    """What an operator asked for."""

    action: Action
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await audit.add(session, history.node, self.action)


@dataclass(frozen=True, slots=True)
class SaveAlerts:
    """Incidents that began or changed, the notifications that are due for it, and the state after it; None leaves that
    as it was. All of it or nothing. `over` holds, once it is written, the uids of notifications that are over already.
    """

    at: datetime
    incidents: Sequence[Incident] = ()
    notifications: Sequence[Notification] = ()
    state: Mapping[str, Any] | None = None
    over: set[str] = field(default_factory=set)
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        self.over.update(await alerts.over(session, self.notifications))
        await alerts.save(session, history.node, self.at, self.incidents, self.notifications, self.state)


@dataclass(frozen=True, slots=True)
class MarkDelivery:
    """How far the telling of these notifications got."""

    deliveries: Sequence[Delivery]
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await alerts.mark(session, history.node, self.deliveries)


@dataclass(frozen=True, slots=True)
class PutSilence:
    """A silence. `numbers` holds its number once it is written."""

    silence: Silence
    numbers: list[int] = field(default_factory=list)
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: AsyncSession) -> None:
        self.numbers[:] = [await alerts.put_silence(session, history.node, self.silence)]


@dataclass(frozen=True, slots=True)
class AddLedger:
    """Entries of the ledger; one that is there is replaced."""

    boot: Boot | None
    entries: Sequence[LedgerEntry]
    importance: ClassVar[Importance] = Importance.LEDGER

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await ledger.add(session, history.node, await _number(self.boot, history, session), self.entries)


@dataclass(frozen=True, slots=True)
class Record:
    """What the policies saw in a stretch of ticks; `keep` chunks stay."""

    boot: Boot | None
    chunk: Chunk
    keep: int
    importance: ClassVar[Importance] = Importance.RECORDING

    async def __call__(self, history: History, session: AsyncSession) -> None:
        number = await _number(self.boot, history, session)
        await recordings.add(session, history.node, number, self.chunk, self.keep)


@dataclass(frozen=True, slots=True)
class AddReading:
    """The signals of one tick."""

    boot: Boot | None
    at: datetime
    names: Sequence[str]
    values: array[float]
    """NaN: not known. Hours of these wait in memory when the database is broken, so they are held small."""
    knobs: Mapping[str, float | None]
    importance: ClassVar[Importance] = Importance.READING

    async def __call__(self, history: History, session: AsyncSession) -> None:
        await self.together([self], history, session)

    @staticmethod
    async def together(several: Sequence[AddReading], history: History, session: AsyncSession) -> None:
        """Several at once, which takes hardly longer than one."""
        made: list[Reading] = []
        for _, of_boot in groupby(several, key=lambda one: id(one.boot)):
            ticks = list(of_boot)
            run_id = await _number(ticks[0].boot, history, session)
            made += [reading(one.at, zip(one.names, one.values, strict=True), one.knobs, run_id) for one in ticks]
        await readings.add(session, history.node, made)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Nothing: written when all that was handed over before it is."""

    importance: ClassVar[Importance] = Importance.READING

    async def __call__(self, history: History, session: AsyncSession) -> None:
        return


async def do_all(writes: Sequence[Write], history: History, session: AsyncSession) -> None:
    """All in one transaction: decisions first, since what became of them may be among the rest; else in their order."""
    in_order = sorted(writes, key=lambda one: (one.importance, not isinstance(one, AddDecisions)))
    for kind, of_kind in groupby(in_order, key=type):
        several: list[Any] = list(of_kind)
        if issubclass(kind, (AddDecisions, AddReading)):
            await kind.together(several, history, session)
        else:
            for one in several:
                await one(history, session)
