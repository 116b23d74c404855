"""Several daemons and one history: each has its own rows, and one question is answered over all of them."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from tests.contract.conftest import Opened
from tests.contract.store.samples import AT, ENGINE, chunk, decision, entry
from tests.views import runtime

ROOT = Path(__file__).parents[3]
WRITES = 60
ALWAYS = (AT - timedelta(days=1), AT + timedelta(days=1))


async def acknowledged_by(url: str, node: str) -> list[str]:
    """What a second daemon's process was told is on disk."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.contract.store.node_process", url, node, str(WRITES),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(process.communicate(), 120)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-2000:]
    return out.decode().split()


async def test_two_daemons_that_write_at_once_keep_apart_and_one_query_sees_both(
    database_at: str, opened: Opened
) -> None:
    """The database is empty: whichever comes first makes the schema."""
    nodes = ("gpu1", "gpu2")
    async with asyncio.TaskGroup() as together:
        tasks = {node: together.create_task(acknowledged_by(database_at, node)) for node in nodes}
    written = {node: task.result() for node, task in tasks.items()}
    fleet = await opened("watcher")
    everything = await fleet.decisions.select()
    assert len(everything) == 2 * WRITES
    assert {row.decision.node for row in everything} == set(nodes)
    assert await fleet.readings.nodes() == list(nodes)
    assert {one.node for one in await fleet.ledger.entries(*ALWAYS)} == set(nodes)
    assert await fleet.kept.get("rollback") is None
    for node in nodes:
        own = await fleet.decisions.select(node=node)
        assert [row.decision.uid for row in own] == written[node]
        assert {row.decision.boot_id for row in own} == {f"boot-{node}"}
        assert len(await fleet.readings.span(*ALWAYS, node=node)) == WRITES
        assert len(await fleet.ledger.entries(*ALWAYS, node=node)) == WRITES
        history = await opened(node)
        assert await history.kept.get("rollback") == {"node": node, "number": WRITES - 1}


async def test_the_same_boot_seen_by_two_nodes_is_two_runs(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    assert await one.runs.start(AT, ENGINE, runtime()) != await other.runs.start(AT, ENGINE, runtime())


async def test_what_one_node_keeps_and_forgets_is_its_own(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    await one.kept.put("rollback", AT, {"a": 1})
    await other.kept.put("rollback", AT, {"a": 2})
    await one.kept.put("rollback", AT, None)
    assert await one.kept.get("rollback") is None
    assert await other.kept.get("rollback") == {"a": 2}


async def test_a_node_drops_its_own_old_recordings_alone(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    await other.recordings.add(None, chunk(0), keep=1)
    for minute in (1, 2, 3):
        await one.recordings.add(None, chunk(minute), keep=2)
    assert [row.chunk for row in await one.recordings.select()] == [chunk(minute) for minute in (0, 2, 3)]


async def test_recordings_and_decisions_tell_whose_they_are(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    for minute in range(3):
        await one.recordings.add(None, chunk(minute), keep=9)
    await other.recordings.add(None, chunk(3), keep=9)
    await other.decisions.add(None, [decision(60)])
    assert [row.chunk for row in await other.recordings.select(node="gpu1", limit=2)] == [chunk(0), chunk(1)]
    assert [row.chunk for row in await one.recordings.select(node="gpu2")] == [chunk(3)]
    assert await one.recordings.nodes() == ["gpu1", "gpu2"]
    assert await one.recordings.nodes(chunk(3).from_at) == ["gpu2"]
    assert (await one.decisions.nodes(), await one.decisions.nodes(AT + timedelta(seconds=61))) == (["gpu2"], [])


async def test_a_minute_of_two_nodes_is_two_entries_and_rolls_up_apart(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    for history in (one, other):
        await history.ledger.add(None, [entry(0), entry(1)])
        await history.decisions.add(None, [decision()])
    assert await one.ledger.roll_up(AT + timedelta(days=1)) == 2
    lengths = [(entry.node, entry.resolution_s) for entry in await other.ledger.entries(*ALWAYS)]
    assert sorted(lengths) == [("gpu1", 3600), ("gpu2", 60), ("gpu2", 60)]
