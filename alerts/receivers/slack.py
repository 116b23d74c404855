"""Slack's incoming webhook, and what takes its format (Mattermost, Rocket.Chat).

Belongs here: its request and its answers. Never: the words (alerts/templates).

Source: Slack's "Sending messages using incoming webhooks" and "Secondary message attachments": an attachment's `text`
is what all three show (Mattermost and Rocket.Chat know no blocks). 3,000 characters are what Slack's own sections hold,
and more than anybody reads. Errors come as 4xx with a word (`no_service`, `channel_is_archived`), too many messages
as 429 with Retry-After, success as 200 with the text `ok`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from alerts.receivers.base import Answer, Delivered, Request
from alerts.receivers.chat import CHAT_HEADERS, ChatReceiver, encoded, json_object
from alerts.sanitise import fit, utf16_size
from alerts.settings import Kind
from alerts.templates import SLACK, Message
from domain.incident import IncidentState, Notification

_MOST = 3000
_COLOURS = {"critical": "#d00000", "warning": "#e8a317", "info": "#439fe0"}
_OVER = "#2eb886"


class Slack(ChatReceiver):
    """The title as the message's text, the body in an attachment with the severity's colour."""

    kind = Kind.SLACK
    layout = SLACK

    def request(self, notification: Notification, now: datetime) -> Request:
        told, body = self._message(notification, now)
        attachment = {
            "color": _colour(told),
            "fallback": told.title,
            "text": fit(body, _MOST, utf16_size),
            "mrkdwn_in": ["text"],
        }
        wire = {"text": self._template.escaped(told.title), "attachments": [attachment]}
        return Request(self._address(), encoded(wire), CHAT_HEADERS)

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = self._of_http(status, headers, body)
        if not isinstance(answer, Delivered) or body.strip().lower() == b"ok":
            return answer
        told = json_object(body)
        if True in (told.get("ok"), told.get("success")):
            return answer
        if not told:
            return self._unread(status, body)
        words = self._words(body.decode("utf-8", "replace"))
        return self._refused(f"HTTP {status} that says no ({words})", "set url to an incoming webhook of Slack")


def _colour(told: Message) -> str:
    return _OVER if told.state == IncidentState.RESOLVED else _COLOURS[told.severity]
