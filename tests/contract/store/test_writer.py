"""The writer, on every database: everything that it is handed comes back once, in its order, under its run."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from domain.audit import Action
from domain.decision import Status
from store.history import History
from store.pending import Importance
from store.writer import Writer
from store.writes import AddAction, AddDecisions, AddLedger, AddReading, Boot, Conclude, Judge, Keep, Record
from tests.contract.store.samples import AT, ENGINE, OUTCOME, chunk, decision, entry
from tests.views import runtime
from tests.writers import written

BOOT = Boot(AT, ENGINE, runtime())


@dataclass(frozen=True)
class Fails:
    """Spoils the transaction that it is in, for everybody in it."""

    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: History, session: Any) -> None:
        raise LookupError("a programming error")


async def test_all_that_is_handed_over_comes_back_even_where_one_of_it_cannot_be_written(
    database_at: str,
) -> None:
    writer = Writer(database_at, "gpu1")
    await writer.start()
    made = [decision(second, status=Status.INTENDED) for second in range(20)]
    uids = [str(one.uid) for one in made]
    for second, one in enumerate(made):
        writer.put(AddReading(BOOT, one.at, ["running"], array("d", [float(second)]), {"max_num_seqs": 8.0}))
        writer.put(AddDecisions(BOOT, [one]))
        writer.put(Conclude([replace(one, status=Status.APPLIED, observed=one.requested)]))
        if second == 10:
            writer.put(Fails())
    writer.put(Judge({uids[0]: OUTCOME}))
    writer.put(Keep("rollback", AT, {"values": 1}))
    writer.put(Record(BOOT, chunk(0), 10))
    writer.put(AddLedger(BOOT, [entry(0)]))
    writer.put(AddAction(Action(AT, "me", "rollback", "/api/v1/rollback", "ok", request_id="r1")))
    await written(writer)
    assert (writer.state().dropped, writer.state().problem) == (1, None)
    await writer.stop(5.0)
    history = History(database_at, "gpu1")
    rows = await history.decisions.select()
    assert [row.decision.uid for row in rows] == uids
    assert {(row.decision.status, row.decision.boot_id) for row in rows} == {(Status.APPLIED, "boot-a")}
    assert rows[0].decision.outcome == OUTCOME
    readings = await history.readings.span(AT, AT + timedelta(minutes=1))
    assert [one.means["running"] for one in readings] == list(range(20))
    assert await history.kept.get("rollback") == {"values": 1}
    assert len(await history.recordings.select()) == 1
    assert [one.energy_j for one in await history.ledger.entries(AT - timedelta(hours=1), AT + timedelta(hours=1))] == [
        36000.0
    ]
    assert len(await history.audit.actions()) == 1
    await history.close()
