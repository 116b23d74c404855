"""Objectives beside a real vLLM: proposed from a light load, kept over a restart, and bounds that vLLM lacks."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

from bench.load import Load
from bench.sensors.exposition import with_bound
from bench.server_options import VllmOptions
from domain.slo import Latency
from tests.e2e.rig import LOAD, Rig
from tests.waiting import until

QUICKLY = {"warm_up_s": 1, "settle_s": 1, "min_quiet_s": 4, "min_samples": 40}


async def test_a_light_load_gives_a_proposal_that_outlives_the_daemon(rig: Rig) -> None:
    async def proposed() -> bool:
        said = "slo noted: No objective is configured; proposed from" in rig.log()
        return said and bool(rig.decisions("--reason", "slo_proposed"))  # what is not written yet ends with the daemon

    async def taken_up() -> bool:
        return "objectives: those proposed before hold on: " in rig.log()

    rig.daemon.start(mode="observe", slo={"propose": QUICKLY})
    async with Load(rig.server.url, "tiny", replace(LOAD, clients=4)) as load:
        await until("objectives are proposed", proposed)
    os.kill(rig.daemon.pid, signal.SIGKILL)
    await rig.daemon.stop()
    rig.daemon.start(mode="observe", slo={"propose": QUICKLY})
    await until("they are in force again", taken_up)
    await rig.daemon.stop()

    assert load.failed_total == 0
    (noted,) = [row for row in rig.decisions() if row["status"] == "noted"]
    assert (noted["reason"], noted["knob"], noted["requested"]) == ("slo_proposed", "slo", None)
    for latency in ("time_to_first_token", "inter_token_latency", "e2e_request_latency"):
        assert f"{latency} P95 within " in noted["sentence"]
        assert noted["evidence"][f"{latency}_bound_s"] > noted["evidence"][f"{latency}_quiet_s"]
    assert "proposed from" in rig.command("explain", str(noted["id"]))


async def test_the_flag_that_is_recommended_holds_vllms_own_bounds_and_the_objectives(rig: Rig) -> None:
    async def warned() -> bool:
        return "--custom-histogram-buckets" in rig.log()

    slo = {"inter_token_latency": {"bound_s": 0.055}, "e2e_request_latency": {"bound_s": 0.7}}
    rig.daemon.start(mode="observe", slo=slo)
    async with Load(rig.server.url, "tiny", replace(LOAD, clients=4)):
        await until("the daemon warns", warned)
    await rig.daemon.stop()
    buckets = json.loads(rig.log().split("--custom-histogram-buckets '")[1].split("'")[0])
    served = sorted({*VllmOptions().itl_buckets_s, 0.055})
    assert buckets == {"inter_token_latency": served, "request_latency": list(with_bound(Latency.E2E, 0.7))}
