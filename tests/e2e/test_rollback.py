"""The rollback on a real vLLM under load: one call in, the daemon's death, a restart, one call out."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.load import Load
from bench.ports import free_port
from domain.errors import RecoverableError
from domain.knobs import CONNECTION_CLOSE, MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from tests.e2e.conftest import LEASE_S
from tests.e2e.rig import LOAD, Rig
from tests.waiting import until

BEFORE = {MAX_NUM_SEQS: 24, MAX_NUM_BATCHED_TOKENS: 2048, MAX_NUM_QUEUED_REQS: NO_LIMIT, CONNECTION_CLOSE: 0}
ROLLED_BACK = {MAX_NUM_SEQS: 8, MAX_NUM_BATCHED_TOKENS: 1024, MAX_NUM_QUEUED_REQS: 100, CONNECTION_CLOSE: 1}
TOKEN = "token-of-the-daemon"


def settings(rig: Rig, folder: Path) -> dict[str, Any]:
    """A daemon that changes nothing by itself, with a listener; the server's budget is under the seeds' 4096."""
    token_file = folder / "daemon.token"
    token_file.write_text(TOKEN)
    api = {"port": free_port(), "token_file": str(token_file)}
    return {"mode": "manual", "api": api, "policies": {"static": {"rollback_tokens": 1024}}}


async def in_force(rig: Rig) -> dict[str, float | None]:
    try:
        runtime = await rig.client.runtime()
    except RecoverableError:
        return {}
    return {name: knob.value if (knob := runtime.knob(name)) else None for name in BEFORE}


async def command(rig: Rig, name: str) -> str:
    arguments = [sys.executable, "-m", "controller", name, "--config", str(rig.daemon.config)]
    done = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def steered(rig: Rig) -> bool:
    runtime = await rig.client.runtime()
    ours = f"process {rig.daemon.pid} on "  # the lease of a daemon before may not have run out yet
    return all(ours in (core.lease_holder or "") for core in runtime.cores)


async def test_it_is_one_call_away_outlives_the_daemon_and_is_undone_by_one_call(rig: Rig, tmp_path: Path) -> None:
    chosen = settings(rig, tmp_path)

    async def offered() -> bool:
        return None not in (await in_force(rig)).values()  # the API process reports its knobs once a second

    await until("all four knobs are there", offered)
    rig.daemon.start(**chosen)
    await until("the daemon holds the lease", lambda: steered(rig))
    runtime = await rig.client.runtime()
    await rig.client.set_knobs(runtime, {MAX_NUM_SEQS: 24}, LEASE_S)
    await asyncio.sleep(1.0)
    assert await in_force(rig) == BEFORE

    async with Load(rig.server.url, "tiny", LOAD) as load:
        said = await command(rig, "rollback")
        assert "Rolled back since" in said
        assert "max_num_seqs = 8" in said
        assert await in_force(rig) == ROLLED_BACK
        os.kill(rig.daemon.pid, signal.SIGKILL)
        runtime = await rig.client.runtime()
        assert {n: v for n, v in runtime.cores[0].fallback.items() if n in ROLLED_BACK} == ROLLED_BACK
        await rig.client.set_knobs(runtime, {MAX_NUM_SEQS: 40, MAX_NUM_BATCHED_TOKENS: 2048}, LEASE_S)

        async def fallen_back() -> bool:
            return await in_force(rig) == ROLLED_BACK

        await until("the lease ran out and the rollback's values are back", fallen_back, LEASE_S + 5)

        await rig.daemon.stop()
        rig.daemon.start(**chosen)
        await until("the new daemon holds the lease", lambda: steered(rig))
        assert await in_force(rig) == ROLLED_BACK
        assert "rollback: in force since" in rig.log()

        said = await command(rig, "undo")
        assert said.startswith("No rollback is in force. Mode: manual.")
        assert await in_force(rig) == BEFORE
    assert load.failed_total == 0, load.causes
    assert load.ok_total > 0

    told = [d for d in rig.decisions() if d["status"] == "applied"]
    assert {d["knob"] for d in told if d["reason"] == "rollback_values"} == set(ROLLED_BACK)
    assert {d["knob"] for d in told if d["reason"] == "rollback_undone"} == set(BEFORE)

    async def start_up() -> bool:
        runtime = await rig.client.runtime()
        return all(core.fallback == core_envelope(core.knobs) for core in runtime.cores)

    await until("the lease falls back to the start-up values again", start_up, 10)


def core_envelope(knobs: Any) -> dict[str, float]:
    return {name: knob.startup for name, knob in knobs.items() if knob.startup is not None}
