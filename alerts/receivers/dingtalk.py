"""DingTalk's custom robot of a group.

Belongs here: its request and its answers. Never: the words (alerts/templates).

Source: DingTalk's "custom robot" pages and error table. The signature is over the milliseconds, a newline and the
secret, and goes into the address; a message has 20,000 bytes at most; more than 20 messages in a minute are refused for
a while with 130101 (410100 and 90030 on newer robots). Everything is answered with HTTP 200, refusals too; 310000 says
that keyword, signature or IP list did not fit; the wall in front of it says so with `status` and `wait`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode

from alerts.receivers.base import Answer, Request
from alerts.receivers.chat import CHAT_HEADERS, ChatReceiver, Codes, encoded, json_object, json_size
from alerts.sanitise import fit
from alerts.settings import Kind
from alerts.templates import DINGTALK
from domain.incident import Notification

_BYTES = 18_000
"""Of 20,000: the rest is for the title and the frame around it."""
_PUNISHED = 1111
_CODES = Codes(
    code=("errcode",),
    words=("errmsg",),
    passing=frozenset({-1, 90030, 130101, 410100, 660026}),
    pause_s=60.0,
    remedies={
        310000: "check the robot's security settings: a keyword that every message holds (as vllm-governor), the "
        "signature's secret in secret_file and this machine's clock, or the list of addresses",
        300005: "copy the robot's address anew: its access_token is unknown",
        400101: "copy the robot's address anew: its access_token is unknown",
        400102: "switch the robot on again in the group's settings",
    },
)


class Dingtalk(ChatReceiver):
    """Title and body as Markdown. With a `secret_file` it is signed."""

    kind = Kind.DINGTALK
    layout = DINGTALK

    def request(self, notification: Notification, now: datetime) -> Request:
        told, body = self._message(notification, now)
        text = f"#### {self._template.escaped(told.title)}{self.layout.line_end}{body}"
        wire = {"msgtype": "markdown", "markdown": {"title": told.title, "text": fit(text, _BYTES, json_size)}}
        url = self._address()
        if (secret := self._secret()) is not None:
            timestamp = str(int(now.timestamp() * 1000))
            signed = urlencode({"timestamp": timestamp, "sign": signature(secret, timestamp)})
            url += ("&" if "?" in url else "?") + signed
        return Request(url, encoded(wire), CHAT_HEADERS)

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        if (wait_s := _punished_s(body)) is not None:
            return self._retry(f"HTTP {status} that says to wait for {wait_s:g} s", wait_s)
        return self._of_code(_CODES, status, headers, body)


def signature(secret: str, timestamp: str) -> str:
    """The base64 HMAC-SHA256 that DingTalk calls `sign`."""
    signed = hmac.new(secret.encode(), f"{timestamp}\n{secret}".encode(), hashlib.sha256)
    return base64.b64encode(signed.digest()).decode()


def _punished_s(body: bytes) -> float | None:
    told = json_object(body)
    wait_s = told.get("wait")
    if told.get("status") != _PUNISHED or not isinstance(wait_s, int):
        return None
    return float(min(max(wait_s, 0), 3600))
