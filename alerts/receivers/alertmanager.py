"""A Prometheus Alertmanager, told over its API v2.

Belongs here: its request and its answers. Never: when it is told again (alerts/dispatch.py), its JSON (payload.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlsplit

from alerts import payload
from alerts.receivers.base import JSON, Answer, Receiver, Request
from alerts.settings import Kind
from domain.incident import Notification

PATH = "/api/v2/alerts"
_MISSED = 4
"""An alert lasts for so many of the intervals in which it is told again, as Prometheus has it: three may be missed."""


class Alertmanager(Receiver):
    """`url` is where it listens, with its route prefix if it has one; the API's path is added."""

    kind = Kind.ALERTMANAGER

    def request(self, notification: Notification, now: datetime) -> Request:
        lasts_s = _MISSED * self._settings.resend_s
        body = json.dumps(payload.postable(notification, now, lasts_s, self._external_url)).encode()
        return Request(_posted(self._address()), body, {"Content-Type": JSON, **self._bearer()})

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        return self._of_http(status, headers, body)


def _posted(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(PATH) else path + PATH).geturl()
