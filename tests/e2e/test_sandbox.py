"""The daemon does its work in the sandbox that its unit describes: the engine, NVML, Prometheus, a webhook, SQLite or
PostgreSQL, its port and its Unix socket.

Belongs here: what is reachable from within, and that the sandbox holds. Never: making it (tests/sandbox.py).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from bench import process_group
from bench.demo.daemon import to_toml
from bench.emulated_nvml import build, cards, script
from bench.ports import free_port
from tests import sandbox
from tests.fake_engine import FakeEngine
from tests.fake_prometheus import FakePrometheus
from tests.listener import listening
from tests.manager import Manager
from tests.postgres import PostgresServer
from tests.programs import without
from tests.systemd_tools import analyze
from tests.unit_file import ROOT, SHIPPED, UnitFile
from tests.virtual_time import VirtualClock
from tests.waiting import PATIENCE_S, until

UNIT = SHIPPED / "vllm-governor.service"
TOKEN = uuid4().hex
PROBE = """
import ctypes, json, mmap, os, socket, sys
def tried(act):
    try:
        act()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return "done"
def write(path):
    with open(path, "w") as file:
        file.write("x")
print(json.dumps({
    "state": tried(lambda: write("/var/lib/vllm-governor/probe")),
    "runtime": tried(lambda: write("/run/vllm-governor/probe")),
    "tmp": tried(lambda: write("/tmp/probe")),
    "etc": tried(lambda: write("/etc/vllm-governor/probe")),
    "usr": tried(lambda: write("/usr/probe")),
    "home": tried(lambda: os.listdir("/home")),
    "packets": tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "netlink": tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "inet6": tried(lambda: socket.socket(socket.AF_INET6)),
    "code": tried(lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)),
    "chroot": tried(lambda: os.chroot("/tmp")),
    "nice": tried(lambda: os.sched_setaffinity(0, {0})),
    "memory": tried(lambda: open("/dev/mem", "rb")),
}))
"""
HELD = {
    **dict.fromkeys(("state", "runtime", "tmp", "inet6"), "done"),
    **dict.fromkeys(("etc", "usr"), "Read-only file system"),
    **dict.fromkeys(("packets", "netlink"), "Address family not supported by protocol"),
    **dict.fromkeys(("code", "chroot", "nice"), "Operation not permitted"),
    "home": "Permission denied",
    "memory": "No such file or directory",
}


def system_calls(unit: UnitFile) -> list[str]:
    """The names that a unit's SystemCallFilter lines allow, the sets written out as this machine's systemd has them."""
    allowed = _members("@default")
    for line in unit.all("SystemCallFilter"):
        names = {name for word in line.lstrip("~").split() for name in _members(word)}
        allowed = allowed - names if line.startswith("~") else allowed | names
    return sorted(allowed)


def _members(name: str) -> set[str]:
    if not name.startswith("@"):
        return {name}
    lines = analyze("syscall-filter", name).stdout.splitlines()
    words = [line.strip() for line in lines if line.startswith(" ") and not line.strip().startswith("#")]
    return {member for word in words for member in _members(word)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The unit's directories as systemd makes them."""
    if os.geteuid() != 0:
        without("a sandbox is made by root alone")
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        without("there is no libseccomp.so.2 here (Debian: apt-get install libseccomp2)")
    for name in ("etc", "state", "runtime", "notify", "nvml"):
        (tmp_path / name).mkdir()
    for name in ("state", "runtime"):
        os.chown(tmp_path / name, sandbox.UID, sandbox.UID)
    return tmp_path


def start(folder: Path, program: list[str], **environment: str) -> subprocess.Popen[bytes]:
    """The unit's ExecStart, or another program, in the sandbox; its output is in `log`."""
    spec = sandbox.Spec(
        unit=str(UNIT),
        program=program,
        system_calls=system_calls(UnitFile(UNIT)),
        etc=str(folder / "etc"),
        state=str(folder / "state"),
        runtime=str(folder / "runtime"),
        notify=str(folder / "notify"),
        credentials={"engine-token": TOKEN, "api-token": TOKEN},
        visible=[str(path) for path in _hidden(folder)],
        environment=environment,
    )
    command = [sys.executable, "-m", "tests.sandbox", str(spec.write(folder / "spec.json"))]
    return process_group.start(command, environment=os.environ, log=folder / "log", folder=ROOT)


def _hidden(folder: Path) -> list[Path]:
    """Where Python, the checkout and the scripted driver lie, if the unit would hide it: on a host they are in /opt."""
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT.resolve(), folder / "nvml"}
    return sorted(path for path in needed if path.parts[1] in ("root", "home", "tmp"))


def test_the_sandbox_holds_and_lets_through_what_is_needed(folder: Path) -> None:
    process = start(folder, [sys.executable, "-c", PROBE])
    assert process.wait(PATIENCE_S) == 0, (folder / "log").read_text()
    assert json.loads((folder / "log").read_text().splitlines()[-1]) == HELD


@asynccontextmanager
async def supervised(folder: Path, settings: dict[str, Any]) -> AsyncIterator[Manager]:
    """The daemon in its sandbox, with a GPU; ready."""
    (folder / "etc" / "config.toml").write_text(to_toml(settings))
    script.Machine([cards.a100_80g()]).write(folder / "nvml" / "script")
    library = build.build().parent
    gpu = {"LD_LIBRARY_PATH": str(library), script.VARIABLE: str(folder / "nvml" / "script")}
    with Manager(folder / "notify" / "notify") as manager:
        (folder / "notify" / "notify").chmod(0o777)
        given = {"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "60000000"}
        program = str(Path(sys.executable).with_name("vllm-governor"))
        process = start(folder, [program], **gpu, **given)
        try:
            yield manager
        finally:
            process_group.end(process, patience_s=12.0)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    """The history's address."""
    if request.param == "sqlite":
        return "/var/lib/vllm-governor/vllm-governor.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.network_url(server.new_database())


async def test_the_daemon_does_all_its_work_in_it(folder: Path, database: str) -> None:
    engine, prometheus, port = FakeEngine(), FakePrometheus(), free_port()
    await engine.server.start_server()
    await prometheus.start()
    async with listening(VirtualClock()) as webhook, aiohttp.ClientSession() as session:
        settings = {
            "tick_s": 0.5,
            "guards": {"warm_up_s": 0},
            "engine": {"url": engine.url},
            "prometheus": {"url": prometheus.url, "interval_s": 5},
            "api": {"port": port, "unix_socket": "/run/vllm-governor/api.sock"},
            "store": {"url": database},
            "alerts": {"receivers": {"ops": {"kind": "webhook", "url": webhook.url}}},
        }
        async with supervised(folder, settings) as manager:
            await manager.word("READY")
            base, signed = f"http://127.0.0.1:{port}/api/v1", {"Authorization": f"Bearer {TOKEN}"}
            await until("a change reaches the engine", lambda: bool(engine.patches))
            async with session.post(f"{base}/receivers/ops/test", headers=signed) as answer:
                assert (answer.status, bool(webhook.got)) == (200, True), await answer.text()
            async with session.get(f"{base}/status") as answer:
                status = await answer.json()

            async def recorded() -> bool:
                async with session.get(f"{base}/decisions?status=applied") as answer:
                    return bool((await answer.json())["decisions"])

            await until("the change is in the history", recorded)
            await until("Prometheus is asked", lambda: bool(prometheus.queries))
            async with session.get(f"{base}/signals") as answer:
                signals = {one["name"]: one["value"] for one in (await answer.json())["signals"]}
            connector = aiohttp.UnixConnector(str(folder / "runtime" / "api.sock"))
            async with (
                aiohttp.ClientSession(connector=connector) as local,
                local.put("http://localhost/api/v1/mode", json={"mode": "observe"}) as answer,
            ):
                assert answer.status == 200, await answer.text()
        assert signals["gpu_power_w"] == 300.0, "NVML is read"
        assert status["problems"] == []
    log = (folder / "log").read_text()
    assert not re.search(r"Operation not permitted|Permission denied|Traceback", log), log
    await prometheus.server.close()
    await engine.server.close()
