"""A process of its own that writes as one node: `python -m tests.contract.store.node_process URL NODE COUNT`.

It prints the uid of each decision once that is on disk.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from datetime import timedelta

from store.database import Limits
from store.writer import Writer
from store.writes import AddDecisions, AddLedger, AddReading, Boot, Keep
from tests.contract.store.samples import AT, ENGINE, decision, entry
from tests.views import runtime

PATIENCE_S = 30.0


async def write(url: str, node: str, count: int) -> None:
    """As a daemon does, through its writer, but with patience: the disk may be busy."""
    writer = Writer(url, node, Limits(busy_timeout_s=PATIENCE_S))
    await writer.start()
    boot = Boot(AT, ENGINE, runtime(boot_id=f"boot-{node}"))
    for number in range(count):
        change = decision(number)
        at = AT + timedelta(seconds=number)
        writer.put(Keep("rollback", AT, {"node": node, "number": number}))
        writer.put(AddLedger(boot, [entry(number)]))
        writer.put(AddReading(boot, at, ("running",), array("d", [float(number)]), {"max_num_seqs": 64.0}))
        if await writer.commit(AddDecisions(boot, [change]), PATIENCE_S):
            print(change.uid, flush=True)
    assert await writer.flush(PATIENCE_S), writer.state()
    await writer.stop(PATIENCE_S)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
