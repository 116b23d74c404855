"""The laws of the vLLM child process, as far as they need no vLLM."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bench import process_group, server_log, server_options
from bench.server import ServerError, VllmServer
from bench.server_options import ITL_BUCKETS_S, VllmOptions
from tests.waiting import until

#: Stands in for a server: one child that ignores SIGTERM, as a stuck engine would.
STUBBORN = (
    "import signal,subprocess,sys,time\n"
    "child='import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)'\n"
    "subprocess.Popen([sys.executable, '-c', child])\n"
    "time.sleep(600)\n"
)


def start(folder: Path, code: str) -> subprocess.Popen[bytes]:
    return process_group.start(
        [sys.executable, "-c", code], environment=dict(os.environ), log=folder / "log", folder=folder
    )


def wait_for_output(log: Path) -> None:
    asyncio.run(until("it says something", lambda: log.exists() and bool(log.read_text())))


def fake_vllm(folder: Path, code: str) -> Path:
    """An interpreter that answers what the server asks of vLLM's and runs `code` in place of `vllm serve`."""
    script = folder / "python"
    script.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "if sys.argv[1] == '-c':\n    print('0.32.0+cpu')\n"
        "elif 'bench.tiny_model' not in sys.argv:\n" + "".join(f"    {line}\n" for line in code.splitlines())
    )
    script.chmod(0o755)
    return script


def test_the_whole_group_ends_even_when_a_child_ignores_the_polite_signal(tmp_path: Path) -> None:
    process = start(tmp_path, STUBBORN)
    wait_for_output(tmp_path / "log")
    assert len(process_group.members(process.pid)) == 2
    process_group.end(process, patience_s=0.2)
    assert process_group.members(process.pid) == []
    assert process.returncode == -signal.SIGTERM


def test_kill_ends_every_member_at_once(tmp_path: Path) -> None:
    process = start(tmp_path, STUBBORN)
    wait_for_output(tmp_path / "log")
    process_group.kill(process)
    assert process_group.members(process.pid) == []


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from bench import process_group\n"
        "command = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)']\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        "child = process_group.start(command, environment=dict(os.environ), log=log, folder=Path('.'))\n"
        "print(child.pid, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    wait_for_output(tmp_path / "log")
    assert process_group.members(child) == [child]
    parent.kill()
    parent.wait()
    asyncio.run(until("it has ended", lambda: not process_group.members(child)))


@pytest.mark.parametrize(
    ("log", "returncode", "told"),
    [
        ("OSError: [Errno 98] Address already in use", 1, "port is in use"),
        ("ImportError: libnuma.so.1: cannot open shared object file: No such file", 1, "libnuma.so.1 is missing"),
        ("No module named 'vllm'", 1, "holds no vLLM"),
        ("vllm: error: unrecognized arguments: --custom-histogram-buckets {}", 2, "--custom-histogram-buckets"),
        (
            "(EngineCore pid=1) ERROR ValueError: block size 7 is odd\n"
            "RuntimeError: Engine core initialization failed. See root cause above.",
            1,
            "ValueError: block size 7 is odd",
        ),
        (
            "pydantic_core.ValidationError: 1 validation error\n  Value error, too long [type=value_error]",
            1,
            "'too long'",
        ),
        ("loading", -9, "killed"),
        ("all is well\n", 0, "all is well"),
        ("", 1, "said nothing"),
    ],
)
def test_the_log_tells_why_it_ended(log: str, returncode: int, told: str) -> None:
    assert told in server_log.cause(log, returncode)


def test_the_log_tells_how_far_a_start_is() -> None:
    assert server_log.milestone("") == "importing vLLM"
    assert server_log.milestone("x\n... Initializing a V1 LLM engine (v0.32.0)") == "starting the engine core"


def test_bucket_bounds_are_geometric_from_one_millisecond_to_two_seconds() -> None:
    steps = [later / earlier for earlier, later in pairwise(ITL_BUCKETS_S)]
    assert ITL_BUCKETS_S[0] == 0.001
    assert 1.9 < ITL_BUCKETS_S[-1] < 2.1
    assert all(1.11 < step < 1.13 for step in steps)


def test_buckets_are_asked_for_only_where_vllm_knows_them() -> None:
    def made(version: tuple[int, int]) -> list[str]:
        return server_options.arguments(VllmOptions(), model=Path("m"), port=1, version=version)

    assert "--custom-histogram-buckets" in made((0, 32))
    assert "--custom-histogram-buckets" not in made((0, 31))


def test_the_environment_drops_what_steers_another_vllm_and_keeps_the_rest() -> None:
    made = server_options.environment(
        VllmOptions(extra_env={"VLLM_X": "mine"}),
        token_file=Path("/t"),
        overlay=Path("/o"),
        inherited={"PATH": "/bin", "VLLM_API_KEY": "x", "GOVERNOR_MODE": "auto", "PYTHONPATH": "/p"},
    )
    assert "VLLM_API_KEY" not in made
    assert "GOVERNOR_MODE" not in made
    assert (made["PATH"], made["VLLM_X"], made["PYTHONPATH"]) == ("/bin", "mine", f"/o{os.pathsep}/p")
    assert (made["VLLM_PLUGINS"], made["VLLM_GOVERNOR_TOKEN_FILE"]) == ("governor", "/t")


async def test_a_busy_port_is_one_sentence_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = VllmServer(tmp_path, VllmOptions(port=port, plugin=False))
        with pytest.raises(ServerError, match=rf"cannot start vLLM on port {port}: .*in use"):
            await server.start()
    assert not server.alive


async def test_a_missing_environment_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="does not run"):
        await VllmServer(tmp_path, VllmOptions(plugin=False), python=tmp_path / "bin" / "python").start()


async def test_an_early_death_is_noticed_at_once_with_its_cause(tmp_path: Path) -> None:
    python = fake_vllm(tmp_path, "raise ValueError('the model is not there')")
    with pytest.raises(ServerError, match=r"has ended: it says 'ValueError: the model is not there'"):
        await VllmServer(tmp_path / "run", VllmOptions(plugin=False), python=python).start()


async def test_it_serves_once_health_answers_and_stop_leaves_nothing(tmp_path: Path) -> None:
    python = fake_vllm(
        tmp_path,
        "from http.server import *\n"
        "class H(BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(200); self.end_headers()\n"
        "HTTPServer(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1])), H).serve_forever()",
    )
    said: list[str] = []
    server = VllmServer(
        tmp_path / "run", VllmOptions(plugin=False), python=python, on_progress=lambda _, doing: said.append(doing)
    )
    async with server:
        pid, port, token = server.pid, server.port, server.token
        server.check()
        assert stat.S_IMODE(server.token_file.stat().st_mode) == 0o600
        assert len(token) >= 32
        server.kill()
        with pytest.raises(ServerError, match="has ended"):
            server.check()
        await server.start()
        assert (server.port, server.token) == (port, token)
        assert server.pid != pid
        last = server.pid
    assert said[-1] == "serving"
    assert process_group.members(pid) == process_group.members(last) == []


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    up = asyncio.Event()
    server = VllmServer(
        tmp_path / "run",
        VllmOptions(plugin=False),
        python=fake_vllm(tmp_path, "import time; time.sleep(600)"),
        on_progress=lambda *_: up.set(),
    )
    starting = asyncio.create_task(server.start())
    await up.wait()
    group = server.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert process_group.members(group) == []
