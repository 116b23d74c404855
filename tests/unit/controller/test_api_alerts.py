"""The calls about alerts over real HTTP, beside a loop on a fake engine."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from bench.ports import free_port
from controller.api.alerts import MOST_BYTES, alert_routes
from controller.api.receivers import receiver_routes
from controller.api.server import ApiServer
from controller.api.silences import silence_routes
from controller.loop import Loop
from controller.operations.alerts import Alerts
from controller.operations.audit import Audit
from controller.operations.events import EventKind, Events
from controller.settings import ApiSettings
from domain.audit import Action
from domain.incident import fingerprint
from store.pending import Receipt
from store.writes import AddAction
from tests.alarms import NOWHERE, alarmed, alerts, heard, told_to, watched
from tests.listening import told
from tests.loop_rig import Rig
from tests.told import OtherEnd
from tests.writers import locked, until_failing, written

TOKEN = "a-token"
LABELS = {"alertname": "KvFull", "severity": "page"}
PURGES = {"incoming": {"kv": {"matchers": 'alertname="KvFull"', "action": "emergency_purge"}}}


@dataclass
class Served:
    """A daemon's loop and its listener."""

    loop: Loop
    url: str
    actions: list[Action]
    events: Events

    async def call(
        self, method: str, path: str, body: Any = None, token: str | None = TOKEN
    ) -> tuple[int, dict[str, Any]]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{self.url}/api/v1/{path}", json=body) as answer,
        ):
            return answer.status, await answer.json()

    async def posted(self, *alerts: Mapping[str, Any]) -> dict[str, Any]:
        """An Alertmanager posts these; the loop ticks meanwhile."""
        call = asyncio.ensure_future(self.call("POST", "alerts", webhook(*alerts)))
        while not call.done():
            if self.loop.alerting.wishes.waiting:
                await self.loop.tick()
            await asyncio.sleep(0.002)
        status, said = await call
        assert status == 200
        return said


def webhook(*alerts: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": "4", "status": "firing", "receiver": "governor", "externalURL": "", "alerts": list(alerts)}


def alert(minute: int = 0, status: str = "firing", **labels: str) -> dict[str, Any]:
    """As Alertmanager writes it; `minute` is when it began."""
    told = LABELS | labels
    return {
        "status": status,
        "labels": told,
        "annotations": {"summary": "full"},
        "startsAt": f"2026-07-30T12:{minute:02}:00.000Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example",
        "fingerprint": fingerprint(told),
    }


@asynccontextmanager
async def serving(rig: Rig, tmp_path: Path, at_s: float | None = None, **settings: Any) -> AsyncIterator[Served]:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    actions: list[Action] = []

    def keep(action: Action) -> Receipt:
        actions.append(action)
        return rig.writer.put(AddAction(action))

    async with alarmed(rig, at_s, **settings) as loop:
        events = Events()
        subject = Alerts(loop.alerting, Audit(keep, loop.memory.settled, events, loop.clock), rig.history)
        loop.listeners.append(subject.listen)
        operations: Any = SimpleNamespace(alerts=subject)
        routes = [*alert_routes(operations), *silence_routes(operations), *receiver_routes(operations)]
        api = ApiServer(ApiSettings(port=free_port(), token_file=token_file, requests_per_s=10_000), routes)
        await api.start()
        yield Served(loop, f"http://127.0.0.1:{api.port}", actions, events)
        await api.stop()


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    made = OtherEnd()
    await made.start()
    yield made
    await made.server.close()


async def kept_of(rig: Rig) -> list[Action]:
    """What the history's audit holds of alerts from outside."""
    await written(rig.writer)
    return await rig.history.audit.actions(action="alerts.emergency_purge")


async def test_an_alert_from_outside_has_the_cache_purged_once_however_often_it_is_posted(
    rig: Rig, tmp_path: Path
) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        await served.loop.tick()
        said = await served.posted(alert())
        assert said["received"] == 1
        assert (said["picked"][0]["rule"], said["picked"][0]["action"]) == ("kv", "emergency_purge")
        assert said["picked"][0]["result"].startswith("purged: Purging 50% of the free cached blocks: alert KvFull")
        for _ in range(3):
            again = await served.posted(alert())
            assert again["picked"][0]["result"].startswith("done before: purged")
        event = await anext(told(served.events, f"{served.events.life}-0"))
    assert [purge["ratio"] for purge in rig.engine.purges] == [0.5]
    (entry,) = await kept_of(rig)
    assert (event.kind, event.data["action"], event.data["result"]) == (EventKind.ACTION, entry.action, entry.result)
    assert (entry.target, entry.detail["rule"], entry.detail["labels"]) == ("KvFull", "kv", LABELS)
    assert "127.0.0.1" in entry.actor
    assert entry.result.startswith("purged")


async def test_what_was_done_for_an_alert_is_not_done_again_after_a_restart(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        await served.loop.tick()
        await served.posted(alert())
    async with serving(rig, tmp_path, rig.clock.s + 7200, alerts=PURGES) as served:
        await served.loop.tick()
        assert (await served.posted(alert()))["picked"][0]["result"].startswith("done before")
        assert (await served.posted(alert(minute=30)))["picked"][0]["result"].startswith("purged")
    assert len(rig.engine.purges) == 2


async def test_nothing_is_purged_on_stale_data_and_the_same_alert_is_heard_again(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        await served.loop.tick()
        rig.engine.metrics_status = 500
        for _ in range(3):
            await served.loop.tick()
        said = await served.posted(alert())
        assert said["picked"][0]["result"].startswith("not purged: No emergency can be declared: metrics is in trouble")
        assert rig.engine.purges == []
        rig.engine.metrics_status = None
        await served.loop.tick()
        assert (await served.posted(alert()))["picked"][0]["result"].startswith("purged")
    assert [one.result.split(":")[0] for one in await kept_of(rig)] == ["not purged", "purged"]


async def test_the_policys_rate_limit_holds_for_alerts_from_outside(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        await served.loop.tick()
        await served.posted(alert())
        await served.loop.tick()
        said = await served.posted(alert(minute=1))
        assert "the last purge is 3 s old" in said["picked"][0]["result"]
        for minute in range(2, 7):
            rig.clock.s += 600
            await served.loop.tick()
            said = await served.posted(alert(minute=minute))
        assert said["picked"][0]["result"].startswith("not purged")
    assert len(rig.engine.purges) == 3


@pytest.mark.parametrize("mode", ["paused", "observe", "static"])
async def test_a_mode_that_changes_nothing_purges_nothing(rig: Rig, tmp_path: Path, mode: str) -> None:
    async with serving(rig, tmp_path, alerts=PURGES, mode=mode) as served:
        await served.loop.tick()
        assert (await served.posted(alert()))["picked"][0]["result"].startswith("not purged")
    assert rig.engine.purges == []


async def test_an_alert_that_no_rule_picks_is_counted_until_it_is_over(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        other = alert(alertname="Other")
        assert (await served.call("POST", "alerts", webhook(other)))[1] == {"received": 1, "picked": []}
        await served.loop.tick()
        assert served.loop.observed.checks["external"] == 1.0
        await served.call("POST", "alerts", webhook(alert(alertname="Other", status="resolved")))
        await served.loop.tick()
        assert served.loop.observed.checks["external"] == 0.0
        assert served.actions == []


async def test_without_the_token_nothing_is_taken_in(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        for token in (None, "wrong"):
            status, _ = await served.call("POST", "alerts", webhook(alert()), token)
            assert status == 401
        await served.loop.tick()
    assert rig.engine.purges == []


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"version": "3", "alerts": []}, 400, "version"),
        (
            {"version": "4", "alerts": [{"status": "firing", "labels": {}, "startsAt": "2026-07-30T12:00:00Z"}]},
            400,
            "labels",
        ),
        ({"version": "4", "alerts": [{"status": "firing", "labels": {"a": "b"}}]}, 400, "startsAt"),
        ({"version": "4", "alerts": [], "x": "x" * MOST_BYTES}, 413, "longer than"),
    ],
)
async def test_a_body_that_is_no_webhook_is_refused_with_what_is_wrong(
    rig: Rig, tmp_path: Path, body: Any, status: int, said: str
) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        answered, document = await served.call("POST", "alerts", body)
    assert answered == status
    assert said in document["detail"]


async def test_ten_thousand_alerts_from_outside_cost_one_purge_and_a_bounded_memory(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts=PURGES) as served:
        await served.loop.tick()
        wishes = served.loop.alerting.wishes
        for start in range(0, 12_000, 2000):
            several = [alert(pod=f"p{number}") for number in range(start, start + 2000)]
            await served.posted(*several)
        assert wishes.firing == 10_000
        assert len(wishes._done) <= 1000
        assert not wishes.waiting
    assert len(rig.engine.purges) == 1


async def test_what_fires_is_shown_and_what_is_pending(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path, alerts={}, engine={"url": NOWHERE}) as served:
        await watched(rig, 30, served.loop)
        status, said = await served.call("GET", "alerts", token=None)
        assert status == 200
        (shown,) = said["alerts"]
        assert (shown["alertname"], shown["state"], shown["muted"]) == ("engine_down", "firing", False)
        assert shown["fingerprint"] == fingerprint(shown["labels"])
        assert shown["starts_at"] is not None


async def test_a_silence_is_made_listed_and_ended(rig: Rig, tmp_path: Path, end: OtherEnd) -> None:
    async with serving(rig, tmp_path, alerts=told_to(end), engine={"url": NOWHERE}) as served:
        wanted = {"matchers": ['alertname="engine_down"'], "seconds": 7200, "comment": "moving"}
        status, made = await served.call("POST", "silences", wanted)
        assert status == 200
        assert made["matchers"] == ['alertname="engine_down"']
        assert served.actions[-1].detail["matchers"] == wanted["matchers"]
        await watched(rig, 30, served.loop)
        assert heard(end) == []
        assert (await served.call("GET", "silences", token=None))[1]["silences"] == [made]
        assert (await served.call("DELETE", f"silences/{made['id']}"))[0] == 200
        assert (await served.call("GET", "silences", token=None))[1]["silences"] == []
        rig.clock.s += 1
        assert (await served.call("DELETE", f"silences/{made['id']}"))[0] == 404
        await watched(rig, 90, served.loop)
        assert heard(end) == [("engine_down", "firing")]


async def test_a_silence_outlives_the_daemon(rig: Rig, tmp_path: Path, end: OtherEnd) -> None:
    settings: dict[str, Any] = {"alerts": told_to(end), "engine": {"url": NOWHERE}}
    async with serving(rig, tmp_path, **settings) as served:
        await served.call("POST", "silences", {"matchers": ['alertname="engine_down"'], "seconds": 7200})
    async with serving(rig, tmp_path, rig.clock.s + 10, **settings) as served:
        await watched(rig, 60, served.loop)
    assert heard(end) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {"matchers": ['alertname=~".*"'], "seconds": 60},
        {"matchers": ["nonsense"], "seconds": 60},
        {"matchers": [], "seconds": 60},
        {"matchers": ['a="b"'], "seconds": 0},
        {"matchers": ['a="b"']},
    ],
)
async def test_a_silence_of_everything_or_of_no_length_is_refused(
    rig: Rig, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    async with serving(rig, tmp_path) as served:
        assert (await served.call("POST", "silences", wanted))[0] in (400, 422)


async def test_a_silence_that_cannot_be_kept_is_refused(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path) as served:
        with locked(rig.path):
            await served.loop.tick()
            await until_failing(rig.writer)
            status, said = await served.call("POST", "silences", {"matchers": ['a="b"'], "seconds": 60})
            assert status == 503
            assert said["detail"].startswith("cannot ")


async def test_what_was_given_up_is_shown_with_the_receivers_words(rig: Rig, tmp_path: Path, end: OtherEnd) -> None:
    end.status, end.body = 403, "who are you?"
    settings: dict[str, Any] = {"alerts": told_to(end), "engine": {"url": NOWHERE}}
    async with serving(rig, tmp_path, **settings) as served:
        assert (await served.call("GET", "receivers", token=None))[1]["not_delivered"] == []
        await watched(rig, 30, served.loop)
    await written(rig.writer)
    async with serving(rig, tmp_path, rig.clock.s + 60, **settings) as served:
        (one,) = (await served.call("GET", "receivers", token=None))[1]["not_delivered"]
    assert (one["receiver"], one["alertnames"], one["attempts"]) == ("ops", ["engine_down"], 1)
    assert one["error"].startswith("cannot deliver to ops: HTTP 403")
    assert "who are you?" in one["error"]


async def test_what_was_given_up_is_not_known_without_a_history(rig: Rig, tmp_path: Path, end: OtherEnd) -> None:
    async with serving(rig, tmp_path, alerts=told_to(end)) as served:
        await written(rig.writer)
        with closing(sqlite3.connect(rig.path)) as other:
            other.execute("ALTER TABLE deliveries RENAME TO lost")
        said = (await served.call("GET", "receivers", token=None))[1]
    assert said["not_delivered"] is None
    assert [one["name"] for one in said["receivers"]] == ["ops"]


async def test_a_receiver_is_tried_out_past_all_that_waits(rig: Rig, tmp_path: Path, end: OtherEnd) -> None:
    async with serving(rig, tmp_path, alerts=told_to(end)) as served:
        assert (await served.call("POST", "receivers/ops/test"))[0] == 200
        (told,) = alerts(end)
        assert told["labels"]["alertname"] == "test"
        (fares,) = (await served.call("GET", "receivers", token=None))[1]["receivers"]
        assert (fares["name"], fares["kind"], fares["attempts"]) == ("ops", "webhook", 1)
        assert fares["last_success_at"] is not None
        end.status = 500
        status, said = await served.call("POST", "receivers/ops/test")
        assert status == 503
        assert "cannot deliver to ops: HTTP 500" in said["detail"]
        assert (await served.call("POST", "receivers/nobody/test"))[0] == 404
