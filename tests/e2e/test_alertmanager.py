"""The Alertmanager receiver against a real Alertmanager: one alert however often it is told, and for as long as it is
told; and what Alertmanager makes of it for a webhook, beside what we tell one ourselves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from alerts import payload
from alerts.receivers import Answer, Delivered
from domain.incident import Incident, IncidentState
from tests.e2e.alertmanager_server import AlertmanagerServer
from tests.told import OtherEnd, incident, notification, receiver
from tests.waiting import until

RESEND_S = 60
LASTS = timedelta(seconds=4 * RESEND_S)
"""For how long Alertmanager holds an alert that it was told of once."""
SHORT = timedelta(seconds=2)
URL = "http://gpu1:9178"


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    end = OtherEnd()
    await end.start()
    yield end
    await end.server.close()


def now() -> datetime:
    return datetime.now(UTC)


def over(one: Incident) -> Incident:
    """The same, over by now."""
    return replace(one, state=IncidentState.RESOLVED, ends_at=now(), updated_at=now())


async def tell(server: AlertmanagerServer, *incidents: Incident, at: datetime | None = None) -> Answer:
    """As the daemon does; `at` is what the daemon takes for now."""
    by = receiver("alertmanager", URL, url=server.url, resend_s=RESEND_S)
    request = by.request(notification(*incidents), at or now())
    async with (
        aiohttp.ClientSession() as session,
        session.request(request.method, request.url, data=request.body, headers=request.headers) as answer,
    ):
        return by.judge(answer.status, answer.headers, await answer.read())


async def names(server: AlertmanagerServer) -> list[str]:
    return [alert["labels"]["alertname"] for alert in await server.alerts()]


async def test_an_alert_is_there_once_however_often_it_is_told_under_our_labels_and_fingerprint(tmp_path: Path) -> None:
    odd = {"http.status_code": "503", "empty": "", "words": 'KV 缓存 "full"\n{a="b"}', "subject": "memory"}
    told = incident("kv_cache_full", labels=odd, starts_at=now()), incident("blind", starts_at=now())
    async with AlertmanagerServer(tmp_path / "am") as server:
        for _ in range(3):
            assert await tell(server, *told) == Delivered()
        found = await server.amtool("alert", "query")
        assert {alert["fingerprint"]: alert["labels"] for alert in found} == {
            alert["fingerprint"]: alert["labels"] for alert in payload.webhook(notification(*told), URL)["alerts"]
        }
        assert told[1].fingerprint in {alert["fingerprint"] for alert in found}
        assert {alert["startsAt"] for alert in found} == {payload.rfc3339(one.starts_at) for one in told}
        assert {alert["generatorURL"] for alert in found} == {URL}
        assert [alert["labels"]["words"] for alert in await server.alerts() if "words" in alert["labels"]] == [
            odd["words"]
        ]
        picked = await server.amtool("alert", "query", 'severity="critical"', 'alertname=~"kv_.*"')
        assert [alert["annotations"] for alert in picked] == [told[0].annotations]


async def test_told_again_it_stays_and_not_told_again_it_is_over_by_itself(tmp_path: Path) -> None:
    """Field case A2: an alert posted once ends by itself while it is still true."""
    began = now() - timedelta(minutes=5)
    told = incident("again", starts_at=began), incident("once", starts_at=began)
    async with AlertmanagerServer(tmp_path / "am") as server:
        # A clock that is late by nearly all of the time that it lasts: the rest of it passes in a moment.
        await tell(server, *told, at=now() + SHORT - LASTS)
        await tell(server, told[0])

        async def one_is_over() -> bool:
            return len(await server.alerts()) < 2

        await until("one is over by itself", one_is_over)
        assert await names(server) == ["again"]


async def test_what_is_over_goes_and_the_rest_stays(tmp_path: Path) -> None:
    told = incident("kv_cache_full", starts_at=now()), incident("blind", starts_at=now())
    async with AlertmanagerServer(tmp_path / "am") as server:
        await tell(server, *told)
        assert await names(server) == ["blind", "kv_cache_full"]
        assert await tell(server, over(told[0])) == Delivered()
        assert await names(server) == ["blind"]


async def test_one_bad_alert_spoils_no_batch(tmp_path: Path) -> None:
    """Field case A4, judged by Alertmanager itself: a label name with a dot, a start at the year 1."""
    told = (
        incident("first", starts_at=now()),
        incident("second", starts_at=now(), labels={"http.status_code": "503", "half": "\ud800"}),
        incident("third", starts_at=datetime(1, 1, 1, tzinfo=UTC)),
    )
    async with AlertmanagerServer(tmp_path / "am") as server:
        assert await tell(server, *told) == Delivered()
        assert await names(server) == ["first", "second", "third"]


FROM_THEM = ("externalURL", "generatorURL")
"""Whose addresses these are differs."""


def compared(body: dict[str, Any]) -> dict[str, Any]:
    alerts = [
        {key: _value(key, value) for key, value in alert.items() if key not in FROM_THEM} for alert in body["alerts"]
    ]
    return {key: value for key, value in body.items() if key not in FROM_THEM} | {"alerts": alerts}


def _value(key: str, value: Any) -> Any:
    """A moment as such: Go leaves out zeros at the end of a fraction."""
    return datetime.fromisoformat(value) if key in ("startsAt", "endsAt") else value


async def test_our_webhook_tells_what_alertmanager_tells_of_the_same_alert(tmp_path: Path, end: OtherEnd) -> None:
    """Alertmanager's own body for its webhook, and ours: the same keys, the same values."""
    told = incident(starts_at=now(), labels={"subject": "memory"})
    async with AlertmanagerServer(tmp_path / "am", {"url": f"{end.url}/theirs"}) as server:
        await tell(server, told)

        async def heard() -> bool:
            return bool(end.got)

        await until("Alertmanager told its webhook", heard)
        theirs = end.latest
        await end.told(receiver("webhook", URL, url=f"{end.url}/ours"), notification(told), now())
        assert compared(end.latest) == compared(theirs)
        assert end.latest.keys() == theirs.keys()
        assert end.latest["alerts"][0].keys() == theirs["alerts"][0].keys()

        ended = over(told)
        await tell(server, ended)

        async def heard_the_end() -> bool:
            return bool(end.latest["status"] == "resolved")

        await until("Alertmanager told that it is over", heard_the_end)
        theirs = end.latest
        await end.told(receiver("webhook", URL, url=f"{end.url}/ours"), notification(ended), now())
        assert compared(end.latest) == compared(theirs)
