"""A daemon's writes without the daemon, in a process that a test kills at any moment."""

from __future__ import annotations

import asyncio
import os
from array import array
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from uuid import uuid4

from domain.decision import Status
from store.database import database_url
from store.writer import Writer
from store.writes import AddDecisions, AddReading, Boot, Conclude, Keep
from tests.contract.store.samples import DECISION
from tests.views import runtime

NODE = "crashing"
INTENDED, APPLIED = b"i", b"a"


def write(path: str, told: Connection) -> None:
    """Until it is killed. Each uid is told once its writing was acknowledged: as intended, then as applied."""
    asyncio.run(_write(path, told))


async def _write(path: str, told: Connection) -> None:
    writer = Writer(database_url(path), NODE)
    await writer.start()
    boot = Boot(datetime.now(UTC), "http://127.0.0.1:8000", runtime(boot_id=f"boot-{os.getpid()}"))
    while True:
        intended = [replace(DECISION, uid=uuid4().hex, at=datetime.now(UTC)) for _ in range(3)]
        for _ in range(20):
            writer.put(AddReading(boot, datetime.now(UTC), ["running"], array("d", [1.0]), {}))
        writer.put(Keep("latest", datetime.now(UTC), {"uid": intended[0].uid}))
        if await writer.commit(AddDecisions(boot, intended), 10):
            for one in intended:
                told.send_bytes(INTENDED + str(one.uid).encode())
        applied = [replace(one, status=Status.APPLIED, observed=one.requested) for one in intended]
        if await writer.commit(Conclude(applied), 10):
            for one in applied:
                told.send_bytes(APPLIED + str(one.uid).encode())
