"""A daemon's writes without the daemon, in a process that a test kills at any moment."""

from __future__ import annotations

import asyncio
import os
from array import array
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from uuid import uuid4

from controller.operations.audit import Audit, Caller
from controller.operations.events import Events
from domain.decision import Status
from store.database import database_url
from store.pending import Receipt
from store.writer import Writer
from store.writes import AddAction, AddDecisions, AddReading, Boot, Conclude, Keep
from tests.contract.store.samples import DECISION
from tests.views import runtime

NODE = "crashing"
INTENDED, APPLIED, ANSWERED = b"i", b"a", b"o"
ENOUGH_S = 10.0


def write(path: str, told: Connection) -> None:
    """Until it is killed. Each change is told once its intent is on disk, as applied once the operator who asked for it
    was answered, and then the operator's request.
    """
    asyncio.run(_write(path, told))


async def _write(path: str, told: Connection) -> None:
    writer = Writer(database_url(path), NODE)
    await writer.start()
    on_disk: list[bool] = []

    async def settled(receipt: Receipt) -> None:
        on_disk.append(await writer.settled(receipt, ENOUGH_S))

    audit = Audit(lambda action: writer.put(AddAction(action)), settled, Events())
    boot = Boot(datetime.now(UTC), "http://127.0.0.1:8000", runtime(boot_id=f"boot-{os.getpid()}"))
    while True:
        intended = [replace(DECISION, uid=uuid4().hex, at=datetime.now(UTC)) for _ in range(3)]
        for _ in range(20):
            writer.put(AddReading(boot, datetime.now(UTC), ["running"], array("d", [1.0]), {}))
        writer.put(Keep("latest", datetime.now(UTC), {"uid": intended[0].uid}))
        if await writer.commit(AddDecisions(boot, intended), ENOUGH_S):
            for one in intended:
                told.send_bytes(INTENDED + str(one.uid).encode())
        operator = Caller("ada")
        async with audit.entry(operator, "knobs.set", "max_num_seqs"):
            applied = [replace(one, status=Status.APPLIED, observed=one.requested) for one in intended]
            writer.put(Conclude(applied))
        if on_disk.pop():
            for one in applied:
                told.send_bytes(APPLIED + str(one.uid).encode())
            told.send_bytes(ANSWERED + operator.request_id.encode())
