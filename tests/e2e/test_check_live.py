"""`vllm-governor check` of real vLLM servers: one that is set up well, one that is not."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.demo.daemon import to_toml
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import places
from tests.e2e.rig import Rig
from tests.waiting import PATIENCE_S

REQUESTS = 120
"""More than the checks on lengths want."""


async def checked(folder: Path, server: VllmServer, **more: Any) -> tuple[int, dict[str, Any]]:
    """Exit status and results by name, from the console script's own process."""
    config = folder / "check.toml"
    engine = {"url": server.url, "token_file": str(server.token_file)}
    config.write_text(to_toml({"engine": engine, "store": {"url": str(folder / "history.db")}, **more}))
    command = [sys.executable, "-m", "controller", "check", "--json", "--config", str(config)]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=places.ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr == ""
    return done.returncode, {one["name"]: one for one in json.loads(done.stdout)["results"]}


def states(found: dict[str, Any], *names: str) -> dict[str, str]:
    return {name: found[name]["state"] for name in names}


async def test_a_real_server_is_seen_as_it_was_started_and_not_touched(rig: Rig, tmp_path: Path) -> None:
    answers = await asyncio.gather(*(rig.complete() for _ in range(REQUESTS)))
    assert set(answers) == {200}
    before = (await rig.client.runtime()).generation
    slo = {"inter_token_latency": {"bound_s": 0.055}, "time_to_first_token": {"bound_s": 2.5}}
    _, found = await checked(tmp_path, rig.server, slo=slo)
    assert states(
        found, "metrics", "vllm_version", "chunked_prefill", "prefix_caching", "envelope_kv"
    ) == dict.fromkeys(("metrics", "vllm_version", "chunked_prefill", "prefix_caching", "envelope_kv"), "pass")
    assert "live: max_num_seqs" in found["plugin"]["why"]
    assert found["plugin"]["state"] in ("pass", "warn")
    assert "131072 tokens" in found["envelope_kv"]["why"], "4096 blocks of 32"
    assert "--max-num-seqs is 64" in found["envelope_kv"]["why"]
    assert found["hot_ratio"]["why"].startswith("there is no hot tier now")
    assert "inter_token_latency 0.055 s (between" in found["histogram_bounds"]["why"]
    assert "time_to_first_token" not in found["histogram_bounds"]["why"]
    assert found["open_files"]["state"] != "unknown", "the PID that the plugin tells is one of this machine's"
    if found["open_files"]["state"] == "warn":
        assert f"--pid {rig.server.pid} " in found["open_files"]["cure"]
    assert states(found, "driver", "envelope_budget", "nvlink") == dict.fromkeys(
        ("driver", "envelope_budget", "nvlink"), "not_applicable"
    )
    assert (await rig.client.runtime()).generation == before


@pytest.mark.long
async def test_a_real_server_with_a_narrow_envelope_and_its_caches_off_fails_by_name(tmp_path: Path) -> None:
    flags = ("--no-enable-prefix-caching", "--no-enable-chunked-prefill", "--disable-log-stats")
    options = VllmOptions(max_num_seqs=8, extra_args=flags)
    server = VllmServer(tmp_path / "vllm", options)
    await server.start()
    try:
        status, found = await checked(tmp_path, server)
    finally:
        await server.stop()
    assert status == 2
    assert states(found, "envelope_cap", "chunked_prefill", "metrics") == {
        "envelope_cap": "fail",
        "chunked_prefill": "fail",
        "metrics": "fail",
    }
    assert "nowhere to grow" in found["envelope_cap"]["why"]
    assert found["hot_ratio"]["state"] == "not_applicable"
