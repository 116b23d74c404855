"""What the chat receivers share: a message for people, and services that answer HTTP 200 to what they refuse.

Belongs here: that. Never: one service's wire format, codes or limits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from alerts.receivers.base import JSON, Answer, Delivered, Receiver, Retry, retry_after_s
from alerts.sanitise import text
from alerts.settings import ReceiverSettings
from alerts.templates import ChatTemplate, Format, Message, message
from domain.incident import Notification

CHAT_HEADERS: Mapping[str, str] = {"Content-Type": f"{JSON}; charset=utf-8"}
_TOO_OFTEN = ("too fast", "too many", "frequency", "freq out of limit", "rate limit", "busy", "频率", "限流", "繁忙")
"""The codes are many and change; the words for it hardly do."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Where a service's JSON answer holds its code, and which codes pass by themselves. 0 is success."""

    code: tuple[str, ...]
    words: tuple[str, ...]
    passing: frozenset[int]
    """Too many messages, or the service is busy: the same message is taken later."""
    pause_s: float | None = None
    """How long too many messages are refused for."""
    remedies: Mapping[int, str] = field(default_factory=dict)
    remedy: str = "correct the receiver's settings"


class ChatReceiver(Receiver):
    """A receiver whose message people read."""

    layout: ClassVar[Format]

    def __init__(self, name: str, settings: ReceiverSettings, external_url: str | None = None) -> None:
        super().__init__(name, settings, external_url)
        self._template = ChatTemplate(self.layout, settings.template)

    def _message(self, notification: Notification, now: datetime) -> tuple[Message, str]:
        """The values and the rendered body; the body is never empty, for services refuse that."""
        told = message(notification, self._external_url, now)
        return told, text(self._template.render(told)) or self._template.heading(told)

    def _of_code(self, codes: Codes, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        """What the JSON of the answer says, before what its status says."""
        by_status = self._of_http(status, headers, body)
        told = json_object(body)
        code = _number(told, codes.code)
        if code is None:
            return self._unread(status, body) if isinstance(by_status, Delivered) else by_status
        if code == 0 or status >= 500:
            return by_status
        words = next((str(told[key]) for key in codes.words if told.get(key)), "")
        why = f"code {code} in an answer of HTTP {status} ({self._words(words)})"
        if code in codes.passing or any(sign in words.lower() for sign in _TOO_OFTEN):
            after_s = retry_after_s(headers)
            return self._retry(why, codes.pause_s if after_s is None else after_s)
        return self._refused(why, codes.remedies.get(code, codes.remedy))

    def _unread(self, status: int, body: bytes) -> Retry:
        """A page of some proxy, say: that it came with 200 does not make it a delivery."""
        words = self._words(body.decode("utf-8", "replace"))
        return self._retry(f"HTTP {status} with an answer that cannot be read ({words})")


def encoded(value: Any) -> bytes:
    """JSON as the services count it: in UTF-8, not in escapes."""
    return json.dumps(value, ensure_ascii=False).encode()


def json_size(value: str) -> int:
    """Bytes that `value` takes inside a JSON string."""
    return len(json.dumps(value, ensure_ascii=False).encode()) - 2


def json_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object that `body` is; empty when it is none."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _number(told: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = told.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isdecimal():
            return int(value)
    return None
