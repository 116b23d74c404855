"""The loop records what the policies saw and what came of its changes."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

from typer.testing import CliRunner

from controller.__main__ import app
from controller.deciding.circumstances import read
from controller.history.recording import recorded
from domain.decision import Mode, Status
from domain.outcome import Verdict
from tests.loop_rig import GROWS, Rig, ticks
from tests.writers import written


async def test_what_the_policies_saw_is_recorded_tick_by_tick_and_written_at_the_end(rig: Rig) -> None:
    await ticks(rig, 4)
    await rig.loop.close()
    await written(rig.writer)
    seen = [frame async for _, frame in recorded(rig.history)]
    assert len(seen) == 4
    assert {later.view.now_s - earlier.view.now_s for earlier, later in pairwise(seen)} == {1.5}
    assert seen[-1].view == rig.loop.observed.view
    assert {read(frame.context).mode for frame in seen} == {Mode.AUTO}
    rig.build(store={"recording_hours": 0})
    await ticks(rig, 2)
    await rig.loop.close()
    await written(rig.writer)
    assert len([frame async for _, frame in recorded(rig.history)]) == 4


async def test_a_change_gets_its_verdict_in_the_history(rig: Rig) -> None:
    """The first one has nothing before it to compare with, which is said."""
    await ticks(rig, GROWS)
    rig.engine.waiting = 0  # nothing more is wanted
    await ticks(rig, 30)
    outcomes = [row.decision.outcome for row in await rig.decisions() if row.decision.status is Status.APPLIED]
    assert outcomes
    assert all(outcome is not None for outcome in outcomes)
    assert {outcome.verdict for outcome in outcomes if outcome is not None} <= {Verdict.UNCLEAR, Verdict.SUPERSEDED}


async def test_a_report_reads_what_the_loop_wrote_in_mode_observe(rig: Rig) -> None:
    rig.build(mode="observe")
    await ticks(rig, 40)
    await rig.loop.close()
    await written(rig.writer)
    made = await _reported(rig)
    wish = next(one for one in made["wishes"] if one["knob"] == "max_num_seqs")
    assert (wish["applied"], wish["lowest"]) == (0, 16)
    assert any("observe" in guard for guard in wish["withheld"])
    assert made["watched"]["seconds"] == 58.5
    assert made["gains"]["max_num_seqs"]["known_s"] == 0
    assert made["gains"]["max_num_seqs"]["unknown_s"]


async def _reported(rig: Rig) -> dict[str, Any]:
    options = ["report", "--db", str(rig.path), "--since", "1970-01-01", "--json"]
    done = await asyncio.to_thread(CliRunner().invoke, app, options)
    assert done.exit_code == 0, done.output
    made: dict[str, Any] = json.loads(done.output)
    return made
