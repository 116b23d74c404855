"""Both load tests, run as a person runs them: against a live vLLM, and against a server whose knee is planted."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.server import VllmServer
from bench.setup import places
from tests.capacity_server import CapacityServer
from tests.e2e.rig import Rig
from tests.programs import without

FOLDER = places.ROOT / "loadtest"
LIMIT_S = 240.0
TRIES, TOO_BUSY = 3, 4


async def locust(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since gevent changes what others stand on; from its folder, as the seeds say."""
    command = [sys.executable, "-m", "locust", "-f", name, "--headless", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=FOLDER, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return subprocess.CompletedProcess(command, process.returncode, out.decode(), errors.decode())


async def stepped(report: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """A run and its report. Where it says itself that this machine was too busy to send, it is asked again."""
    for _ in range(TRIES):
        done = await locust("stepped.py", *arguments, "--report", str(report))
        if done.returncode != TOO_BUSY:
            break
    else:
        without(f"this machine was too busy to send, {TRIES} times: end what else runs on it")
    return done, json.loads(await asyncio.to_thread(report.read_text))


def entries(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """locust's own figures by type and name, from its --json."""
    text = done.stdout[done.stdout.index("[\n") :]
    found, _ = json.JSONDecoder().raw_decode(text)
    return {(one["method"], one["name"]): one for one in found}


async def test_the_seeds_command_line_loads_a_live_vllm_hot_and_cold(rig: Rig) -> None:
    few = ("-t", "8", "--think-s", "4", "--max-tokens", "8", "--json")
    done = await locust("mixed_workload.py", "-u", "100", "-r", "50", *few, "--host", rig.server.url)
    assert done.returncode == 0, done.stderr
    found = entries(done)
    requests = {name: one["num_requests"] for (method, name), one in found.items() if method == "POST"}
    asked = sum(requests.values())
    assert asked > 100
    assert 0.2 < requests["hot"] / asked < 0.5
    for name, count in requests.items():
        assert found["POST", name]["num_failures"] == 0
        assert found["TTFT", name]["num_requests"] == count
        assert count < found["ITL", name]["num_requests"] <= 7 * count  # a busy vLLM sends several tokens at once
        assert found["TTFT", name]["total_response_time"] < found["POST", name]["total_response_time"]


async def test_the_stepped_load_measures_a_live_vllm(server: VllmServer, tmp_path: Path) -> None:
    if not server.alive:
        await server.start()
    steps = ("--stages", "4,8,12", "--stage-s", "4", "--step-qps", "4", "--step-s", "4", "--max-qps", "16")
    patient = ("--max-tokens", "8", "--max-p99-s", "30")
    done, made = await stepped(tmp_path / "report.json", *steps, *patient, "--host", server.url)
    assert done.returncode == made["exit_code"] == 3, done.stdout + done.stderr
    assert [step["qps"] for step in made["steps"]] == [4, 8, 12, 16]
    for step in made["steps"]:
        assert step["ok"] == step["offered"] > 0, done.stdout
        assert 0 < step["p99_ttft_s"] <= step["p99_s"]
        assert step["memory_peak_ratio"] is not None
    assert made["slope"]["p99_ms_per_qps"] is not None
    assert "Slope: P99 rises by" in done.stdout


async def test_the_stepped_load_finds_a_planted_knee(tmp_path: Path) -> None:
    step_qps, knee_qps = 10.0, 16 / 0.5
    steps = ("--stages", "6,12,18", "--stage-s", "5", "--step-qps", f"{step_qps:g}", "--step-s", "7")
    limits = ("--max-p99-s", "1.5", "--memory", "none")
    async with CapacityServer(places=16, service_s=0.5) as server:
        done, made = await stepped(tmp_path / "report.json", *steps, *limits, "--host", server.url)
    assert done.returncode == made["exit_code"] == 0, done.stdout + done.stderr
    assert made["knee"]["held_qps"] <= knee_qps <= made["knee"]["left_qps"], done.stdout
    assert abs(made["knee"]["held_qps"] - knee_qps) <= step_qps, done.stdout
    assert made["ended"].startswith("P99 latency")
    assert [step["memory_peak_ratio"] for step in made["steps"]] == [None] * len(made["steps"])


async def test_memory_that_cannot_be_watched_stops_the_test_before_it_begins() -> None:
    async with CapacityServer(places=1, service_s=0.1) as server:
        done = await locust("stepped.py", "--host", server.url)
        assert server.asked == 0
    assert done.returncode == 1
    assert "cannot watch the memory of" in done.stderr
    assert "--memory none" in done.stderr


async def test_a_server_that_is_not_there_is_named_with_the_remedy() -> None:
    for name in ("mixed_workload.py", "stepped.py"):
        done = await locust(name, "--host", "http://127.0.0.1:9")
        assert done.returncode == 1
        assert "cannot load http://127.0.0.1:9" in done.stderr
        assert "--host" in done.stderr
