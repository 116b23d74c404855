"""Incidents, notifications, and a receiver's other end over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from alerts.receivers import Answer, Receiver, build
from alerts.settings import ReceiverSettings
from domain.alert import Severity
from domain.incident import Incident, IncidentState, Notification

CHATS = ("slack", "dingtalk", "feishu", "wecom")
KINDS = ("webhook", "alertmanager", *CHATS)
TAKEN = {"dingtalk": '{"errcode":0,"errmsg":"ok"}', "wecom": '{"errcode":0,"errmsg":"ok"}', "feishu": '{"code":0}'}
"""What a service answers to what it takes, where that is not `ok`."""
NOON = datetime(2026, 7, 30, 12, 0, tzinfo=UTC)


def receiver(kind: str, external_url: str | None = None, **settings: Any) -> Receiver:
    """One named `ops`."""
    return build("ops", ReceiverSettings.model_validate({"kind": kind, **settings}), external_url)


def incident(
    name: str = "kv_cache_full", severity: Severity = Severity.CRITICAL, over_after_s: float | None = None, **more: Any
) -> Incident:
    """Began at noon; `over_after_s` later it was over. `labels` and `annotations` come on top of the usual ones."""
    labels = {"alertname": name, "severity": severity.value, "instance": "gpu1:8000", **more.get("labels", {})}
    words = {"summary": "KV cache is nearly full", "description": "0.97 is above 0.95 for 60 s"}
    ends_at = None if over_after_s is None else NOON + timedelta(seconds=over_after_s)
    return Incident(
        rule=name,
        severity=severity,
        labels=labels,
        state=IncidentState.FIRING if ends_at is None else IncidentState.RESOLVED,
        starts_at=more.get("starts_at", NOON),
        updated_at=ends_at or NOON,
        ends_at=ends_at,
        value=0.97,
        annotations=more.get("annotations", words),
    )


def notification(*incidents: Incident, truncated: int = 0) -> Notification:
    """To `ops`, of one group."""
    told = incidents or (incident(),)
    group = {"alertname": told[0].rule}
    return Notification("n-1", "ops", f'{{}}:{{alertname="{told[0].rule}"}}', group, told, NOON, truncated)


@dataclass
class OtherEnd:
    """A service that answers `status`, `headers` and `body`, and keeps what it got."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "ok"
    echo: bool = False
    """Answer with all that came: address, headers and body."""
    got: list[bytes] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    got_headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self.server = TestServer(app)
        await self.server.start_server()
        self.url = str(self.server.make_url("")).rstrip("/")

    @property
    def latest(self) -> Any:
        """The JSON of the latest request."""
        return json.loads(self.got[-1])

    async def told(self, by: Receiver, what: Notification | None = None, now: datetime = NOON) -> Answer:
        """Have a request made, send it, and have the answer judged."""
        request = by.request(what or notification(), now)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, request.url, data=request.body, headers=request.headers, allow_redirects=False
            ) as answer,
        ):
            return by.judge(answer.status, answer.headers, await answer.read())

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.got.append(body)
        self.paths.append(request.path)
        self.queries.append(dict(request.query))
        self.got_headers.append(request.headers)
        text = f"{request.raw_path} {dict(request.headers)} {body.decode()}" if self.echo else self.body
        return web.Response(status=self.status, headers=self.headers, text=text)
