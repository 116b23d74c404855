"""`make run`'s own program: a short run to its end, and one that is interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.server import VllmServer
from bench.setup import places
from tests.waiting import PATIENCE_S, until


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench", "demo", *arguments],
        cwd=places.ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.timeout(600)
def test_it_steers_a_real_engine_and_sums_up() -> None:
    """Ratios are `make run`'s to show; what must hold on any machine, however busy, is asserted here."""
    done = start("--duration", "40")
    out, errors = done.communicate(timeout=560)
    assert done.returncode == 0, errors
    result = json.loads(out.splitlines()[-1])
    assert result["applied"] >= 2
    assert result["decisions"] >= result["applied"]
    assert result["failed_requests"] == 0
    assert min(result["after_rps"], result["before_rps"]) > 0
    assert result["before_p99_s"] > 0
    assert set(result["slo_phase"]) == {"itl_over_slo_at_max", "itl_over_slo_ours"}
    history = next(line.split(": ")[1].strip() for line in out.splitlines() if line.startswith("History: "))
    assert Path(history).is_file()
    assert (Path(history).parent / "run.svg").stat().st_size > 1000


@pytest.mark.long
def test_attached_in_observe_mode_it_changes_nothing(server: VllmServer) -> None:
    if not server.alive:
        pytest.fail("the shared server must be up here")
    done = start("--quick", "--engine", server.url, "--token-file", str(server.token_file), "--mode", "observe",
                 "--clients", "16")  # fmt: skip
    out, errors = done.communicate(timeout=280)
    assert done.returncode == 0, errors
    result = json.loads(out.splitlines()[-1])
    assert result["applied"] == 0
    assert result["failed_requests"] == 0
    assert server.alive


def test_interrupted_it_leaves_no_process_behind() -> None:
    done = start("--duration", "0")
    process = psutil.Process(done.pid)
    children: list[psutil.Process] = []

    async def at_work() -> bool:
        children[:] = process.children(recursive=True)
        return len(children) > 1

    asyncio.run(until("it has started others", at_work))
    done.send_signal(signal.SIGINT)
    done.communicate(timeout=PATIENCE_S)
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--duration", "5"], 2, "give 40 to 86400 seconds"),
        (["--mode", "fast"], 2, "observe"),
        (["--engine", "http://127.0.0.1:9"], 1, "cannot go on: cannot learn the model that http://127.0.0.1:9 serves"),
        (["--engine", "127.0.0.1:8000"], 2, "cannot use ENGINE=127.0.0.1:8000"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_a_status(arguments: list[str], code: int, says: str) -> None:
    done = start(*arguments)
    _, errors = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == code
    assert says in errors
    assert "Traceback" not in errors


def test_a_busy_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = start("--port", str(port))
        _, errors = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 1
    assert f"cannot start vLLM on port {port}" in errors
