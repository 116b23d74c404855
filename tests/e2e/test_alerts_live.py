"""The daemon and a real Alertmanager, both ways: its alerts are there, stay while they are true, and go; and an alert
of Alertmanager's own sets off a purge of a real vLLM, once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.demo.daemon import Daemon
from bench.load import Load, LoadOptions
from bench.ports import free_port
from domain.incident import fingerprint
from store.database import database_url
from store.history import History
from tests.e2e.alertmanager_server import AlertmanagerServer
from tests.e2e.rig import Rig
from tests.fake_engine import FakeEngine
from tests.told import OtherEnd
from tests.waiting import PATIENCE_S, until

NODE = "gpu1:8000"
QUEUE = {"signal": "waiting", "comparison": "above", "threshold": 10, "severity": "critical", "labels": {"team": "llm"}}
RULES = {"queue": {**QUEUE, "for_s": 1, "keep_firing_for_s": 1}}
LABELS = {"alertname": "queue", "severity": "critical", "instance": NODE, "team": "llm"}
TOKEN = "token-of-the-daemon"


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine()
    engine.waiting = 0
    await engine.server.start_server()
    yield engine
    await engine.server.close()


@pytest.fixture
async def daemon(engine: FakeEngine, tmp_path: Path) -> AsyncIterator[Daemon]:
    """Beside an engine whose queue is the test's; not started yet."""
    settings = {
        "tick_s": 0.2,
        "mode": "observe",
        "engine": {"url": engine.url},
        "store": {"url": str(tmp_path / "history.db"), "node": NODE},
        "policies": {"alert_thresholds": {"rules": RULES}},
    }
    daemon = Daemon(tmp_path, settings)
    yield daemon
    await daemon.stop()


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    end = OtherEnd()
    await end.start()
    yield end
    await end.server.close()


def api(folder: Path) -> dict[str, Any]:
    """Where a daemon listens, with a token."""
    token_file = folder / "api-token"
    token_file.write_text(TOKEN)
    return {"port": free_port(), "token_file": str(token_file)}


async def command(daemon: Daemon, *arguments: str) -> str:
    """What `vllm-governor alerts ...` prints."""
    whole = [sys.executable, "-m", "controller", "alerts", *arguments, "--config", str(daemon.config)]
    done = await asyncio.to_thread(
        subprocess.run, whole, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def queued(server: AlertmanagerServer) -> list[dict[str, Any]]:
    return [alert for alert in await server.alerts() if alert["labels"]["alertname"] == "queue"]


def ends(alert: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(alert["endsAt"])


async def test_an_alert_of_the_daemon_is_there_stays_while_it_is_true_and_goes(
    engine: FakeEngine, daemon: Daemon, tmp_path: Path
) -> None:
    async with AlertmanagerServer(tmp_path / "am") as server:
        receiver = {"kind": "alertmanager", "url": server.url}
        daemon.start(api=api(tmp_path), alerts={"receivers": {"am": receiver | {"resend_s": 5}}})
        engine.waiting = 30

        async def told() -> bool:
            return bool(await queued(server))

        async def gone() -> bool:
            return not await told()

        await until("the alert is there", told)
        (first,) = await queued(server)
        assert first["fingerprint"] == fingerprint(LABELS)
        (shown,) = await server.amtool("alert", "query", "alertname=queue")
        assert shown["labels"] == LABELS
        assert shown["annotations"]["description"].startswith("Waiting is 30, over 10")

        os.kill(daemon.pid, signal.SIGKILL)
        await daemon.stop()
        longer = receiver | {"resend_s": 60}
        daemon.start(api=api(tmp_path), alerts={"receivers": {"am": longer}})

        async def told_for_longer() -> bool:
            return any(ends(one) > datetime.now(UTC) + timedelta(seconds=4 * 5) for one in await queued(server))

        await until("the next daemon tells it", told_for_longer)
        (later,) = await queued(server)
        same = ("labels", "fingerprint", "startsAt")
        assert {key: later[key] for key in same} == {key: first[key] for key in same}

        assert await command(daemon, "test", "am") == "am took it.\n"
        assert "test" in {alert["labels"]["alertname"] for alert in await server.alerts()}

        engine.waiting = 0
        await until("it is gone, long before it would be by itself", gone)


async def test_a_webhook_is_told_once_of_each_and_of_nothing_that_is_silenced(
    engine: FakeEngine, daemon: Daemon, end: OtherEnd, tmp_path: Path
) -> None:
    receiver = {"kind": "webhook", "url": end.url}
    daemon.start(api=api(tmp_path), alerts={"group_wait_s": 0, "group_interval_s": 1, "receivers": {"ops": receiver}})
    engine.waiting = 30

    def heard(count: int) -> bool:
        return len(end.got) >= count

    await until("it is told", lambda: heard(1))
    assert (end.latest["status"], end.latest["commonLabels"]) == ("firing", LABELS)
    first = end.latest["alerts"][0]
    await asyncio.sleep(2)  # nothing more comes
    engine.waiting = 0
    await until("it is told that it is over", lambda: heard(2))
    last = end.latest["alerts"][0]
    assert last["status"] == "resolved"
    same = ("labels", "fingerprint", "startsAt")
    assert {key: last[key] for key in same} == {key: first[key] for key in same}
    await asyncio.sleep(2)
    assert len(end.got) == 2

    said = await command(daemon, "silence", 'team="llm"', 'severity=~"critical|warning"', "--for", "1h")
    assert said.startswith("Silence 1 until ")
    engine.waiting = 30

    async def muted() -> bool:
        shown = json.loads(await command(daemon, "list", "--json"))
        return [one["muted"] for one in shown["alerts"] if one["state"] == "firing"] == [True]

    await until("it fires and is muted", muted)
    await asyncio.sleep(2)
    assert len(end.got) == 2
    await command(daemon, "unsilence", "1")
    await until("it is told once the silence has ended", lambda: heard(3))
    assert end.latest["alerts"][0]["startsAt"] > first["startsAt"]


async def test_an_alert_of_alertmanager_sets_off_one_purge_however_often_it_is_repeated(
    rig: Rig, tmp_path: Path
) -> None:
    listens = api(tmp_path)
    url = f"http://127.0.0.1:{listens['port']}/api/v1/alerts"
    bearer = {"authorization": {"type": "Bearer", "credentials_file": listens["token_file"]}}
    incoming = {"purge": {"matchers": 'alertname="GpuMemoryTight"', "action": "emergency_purge"}}

    async def purges() -> int:
        _, runtime = await rig.raw("GET", "/governor/v1/runtime", headers=rig.authorized)
        last = runtime["engines"][0]["purge"]["last"]
        return 0 if last is None else int(last["number"])

    async def purged() -> bool:
        return await purges() > before

    tells = {"url": url, "http_config": bearer}
    load = Load(rig.server.url, "tiny", LoadOptions(clients=4, max_tokens=16, limit_s=280))
    async with AlertmanagerServer(tmp_path / "am", tells, repeats="1s") as server, load:
        rig.daemon.start(api=listens, alerts={"incoming": incoming})
        await until("the daemon steers", lambda: "steering vLLM" in rig.log())
        await until("the pause after meeting the engine is over", lambda: " applied: " in rig.log())
        before = await purges()
        labels = {"alertname": "GpuMemoryTight", "severity": "critical"}
        await server.post({"labels": labels}, {"labels": {"alertname": "Other"}})
        await until("the cache is purged", purged)
        await asyncio.sleep(3)  # repeated several times meanwhile
        assert await purges() == before + 1
    await rig.daemon.stop()
    (purge,) = [one for one in rig.decisions() if one["knob"] == "purge" and one["status"] == "applied"]
    assert purge["reason"] == "emergency_asked"
    assert "alert GpuMemoryTight from outside (alerts.incoming.purge) asks for it" in purge["sentence"]
    history = History(database_url(str(rig.history)))
    (action,) = await history.audit.actions(action="alerts.emergency_purge")
    await history.close()
    assert (action.target, action.detail["labels"]) == ("GpuMemoryTight", labels)
    assert action.result.startswith("purged: ")


async def test_whoever_has_no_token_sets_off_nothing(engine: FakeEngine, daemon: Daemon, tmp_path: Path) -> None:
    listens = api(tmp_path)
    daemon.start(api=listens, alerts={"incoming": {"purge": {"matchers": "a=b", "action": "emergency_purge"}}})
    url = f"http://127.0.0.1:{listens['port']}/api/v1/alerts"

    async with aiohttp.ClientSession() as session:

        async def up() -> bool:
            try:
                async with session.get(url) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await until("the daemon serves", up)
        async with session.post(url, json={"version": "4", "alerts": []}) as answer:
            assert answer.status == 401
    assert not engine.purges
