"""The daemon beside a real vLLM under load: it steers, it dies, the engine dies, the engine is not there yet."""

from __future__ import annotations

import os
import re
import signal
from itertools import pairwise

import psutil

from bench.load import Load
from domain.knobs import MAX_NUM_SEQS
from tests.e2e.conftest import LEASE_S
from tests.e2e.rig import LOAD, Rig
from tests.waiting import until

START_UP = 64


async def steered_from_static(rig: Rig) -> None:
    """A daemon in mode `auto` that took over from the static batch of 8 and has grown it."""
    rig.daemon.start(mode="static")

    async def static() -> bool:
        return await rig.cap() == 8

    async def grown() -> bool:
        return (await rig.cap() or 0) >= 16

    await until("the static batch is in force", static)
    rig.daemon.configure(mode="auto")
    await until("the governor has grown the cap", grown)


async def test_it_grows_under_load_and_the_history_tells_the_whole_story(rig: Rig) -> None:
    async with Load(rig.server.url, "tiny", LOAD) as load:
        await steered_from_static(rig)
    await rig.daemon.stop()
    assert load.failed_total == 0

    applied = [d for d in rig.decisions("--knob", MAX_NUM_SEQS) if d["status"] == "applied"]
    first, second = applied[0], applied[1]
    assert (first["mode"], first["old"], first["wanted"], first["observed"]) == ("static", START_UP, 8, 8)
    assert (second["mode"], second["knob"], second["old"], second["reason"]) == (
        "auto",
        MAX_NUM_SEQS,
        8,
        "grow_demand",
    )
    assert second["requested"] == second["observed"] == 16
    assert second["evidence"]["waiting"] > 0
    assert second["sentence"].startswith("Growing 8 -> 16: ")
    assert {"at", "boot_id", "guards", "error"} <= second.keys()

    table = rig.command("decisions", "--changes")
    assert "grow_demand" in table
    assert "Growing 8 -> 16" in " ".join(table.split())


async def test_killed_under_load_the_engine_returns_to_its_start_up_values_and_no_request_fails(rig: Rig) -> None:
    async with Load(rig.server.url, "tiny", LOAD) as load:
        await steered_from_static(rig)
        before = (await rig.client.runtime()).lease_expirations
        os.kill(rig.daemon.pid, signal.SIGKILL)

        async def back() -> bool:
            runtime = await rig.client.runtime()
            return runtime.lease_expirations > before and await rig.cap() == START_UP

        await until("the lease ran out and the start-up cap is back", back, LEASE_S + 20)
    assert load.failed_total == 0
    assert load.ok_total > 0


async def test_stopped_it_leaves_at_once_and_the_lease_does_the_rest(rig: Rig) -> None:
    rig.daemon.start(mode="static")

    async def static() -> bool:
        return await rig.cap() == 8

    await until("the static batch is in force", static)
    os.kill(rig.daemon.pid, signal.SIGTERM)

    async def gone() -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    async def back() -> bool:
        return await rig.cap() == 8 and (await rig.client.runtime()).cores[0].lease_remaining_s is None

    pid = rig.daemon.pid
    await until("it is gone", gone)
    assert "stopping:" in rig.log()
    await until("the lease ran out and the static fallback stays", back, LEASE_S + 20)


async def test_a_bad_reload_keeps_the_old_settings(rig: Rig) -> None:
    rig.daemon.start(mode="static")

    async def static() -> bool:
        return await rig.cap() == 8

    await until("the static batch is in force", static)
    rig.daemon.configure(mode="fast")

    await until("the daemon refuses", lambda: "the old settings stay" in rig.log())
    assert await rig.cap() == 8
    rig.daemon.check()


async def test_a_restarted_engine_is_noticed_once_and_steered_on(rig: Rig) -> None:
    rig.daemon.start(mode="static")

    async def static() -> bool:
        return await rig.cap() == 8

    await until("the static batch is in force", static)
    before = await rig.client.runtime()
    rig.server.kill()
    await rig.server.stop()

    await until("the daemon says that the engine is gone", lambda: "cannot reach vLLM" in rig.log())
    await rig.server.start()
    await until("the static batch is in force again", static)
    assert (await rig.client.runtime()).boot_id != before.boot_id
    log = rig.log()
    assert log.count("steering vLLM") == 2
    # Refused, perhaps a reset connection or a server half up: each is said once, not at each tick.
    waits = re.findall(r"engine: waiting for it.*", log)
    assert all(one != other for one, other in pairwise(waits))
    assert {d["boot_id"] for d in rig.decisions()} >= {before.boot_id, (await rig.client.runtime()).boot_id}


async def test_started_before_the_engine_it_is_up_and_says_what_it_waits_for(rig: Rig) -> None:
    rig.daemon.start(engine={"url": "http://127.0.0.1:9", "lease_s": LEASE_S})

    async def said() -> bool:
        return "engine: waiting for it: cannot reach vLLM at http://127.0.0.1:9" in rig.log()

    await until("the daemon says what it waits for", said)
    rig.daemon.configure(mode="static")  # the server's own address again

    async def static() -> bool:
        return await rig.cap() == 8

    await until("it found the engine", static)
    assert rig.log().count("waiting for it: cannot reach vLLM at http://127.0.0.1:9") == 1
