"""Feishu's (Lark's) custom bot of a group.

Belongs here: its request and its answers. Never: the words (alerts/templates).

Source: Feishu's "custom bot usage guide" and card JSON 1.0. The key of the signature is the seconds, a newline and the
secret, its text is empty, and it goes into the body; a request has 20 KB at most; more than 5 messages in a second or
100 in a minute are refused with 11232. A refusal has HTTP 200 and a `code`; older bots say `StatusCode`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from alerts.receivers.base import Answer, Request
from alerts.receivers.chat import CHAT_HEADERS, ChatReceiver, Codes, encoded, json_size
from alerts.sanitise import fit
from alerts.settings import Kind
from alerts.templates import FEISHU, Message
from domain.incident import IncidentState, Notification

_BYTES = 18_000
"""Of 20,000: the rest is for the card around it."""
_COLOURS = {"critical": "red", "warning": "orange", "info": "blue"}
_CODES = Codes(
    code=("code", "StatusCode"),
    words=("msg", "StatusMessage"),
    # 9499 is a bad request, or too many of them: its words tell.
    passing=frozenset({11232, 99991400}),
    remedies={
        19001: "copy the bot's address anew: its token is unknown",
        19021: "check the signature's secret in secret_file and this machine's clock",
        19022: "put this machine's address on the bot's list, or take the list off",
        19024: "give the bot a keyword that every message holds, as vllm-governor",
    },
)


class Feishu(ChatReceiver):
    """A card: the title in the severity's colour, the body as Markdown. With a `secret_file` it is signed."""

    kind = Kind.FEISHU
    layout = FEISHU

    def request(self, notification: Notification, now: datetime) -> Request:
        told, body = self._message(notification, now)
        wire: dict[str, Any] = {
            "msg_type": "interactive",
            "card": {
                "config": {"wide_screen_mode": True},
                "header": {"title": {"tag": "plain_text", "content": told.title}, "template": _colour(told)},
                "elements": [{"tag": "markdown", "content": fit(body, _BYTES, json_size)}],
            },
        }
        url = self._address()
        if (secret := self._secret()) is not None:
            timestamp = str(int(now.timestamp()))
            wire |= {"timestamp": timestamp, "sign": signature(secret, timestamp)}
        return Request(url, encoded(wire), CHAT_HEADERS)

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        return self._of_code(_CODES, status, headers, body)


def signature(secret: str, timestamp: str) -> str:
    """The base64 HMAC-SHA256 that Feishu calls `sign`: over nothing, under timestamp and secret."""
    signed = hmac.new(f"{timestamp}\n{secret}".encode(), b"", hashlib.sha256)
    return base64.b64encode(signed.digest()).decode()


def _colour(told: Message) -> str:
    return "green" if told.state == IncidentState.RESOLVED else _COLOURS[told.severity]
