"""WeCom's robot of a group.

Belongs here: its request and its answers. Never: the words (alerts/templates).

Source: WeCom's "group robot" page and its table of global error codes. The content of a Markdown message has 4,096
bytes of UTF-8 at most (40058 beyond); more than 20 messages in a minute are refused with 45009; everything is answered
with HTTP 200. The key in the address is all there is to authenticate with.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from alerts.receivers.base import Answer, Request
from alerts.receivers.chat import CHAT_HEADERS, ChatReceiver, Codes, encoded
from alerts.sanitise import fit
from alerts.settings import Kind
from alerts.templates import WECOM, Message
from domain.incident import IncidentState, Notification

_BYTES = 4096
_CODES = Codes(
    code=("errcode",),
    words=("errmsg",),
    passing=frozenset({-1, 45009, 45033}),
    pause_s=60.0,
    remedies={
        93000: "copy the robot's address anew: its key is unknown, or the robot is gone",
        40058: "the message does not please WeCom: check the template",
    },
)


class Wecom(ChatReceiver):
    """Title and body as Markdown: WeCom has three colours, and the title gets one of them."""

    kind = Kind.WECOM
    layout = WECOM

    def request(self, notification: Notification, now: datetime) -> Request:
        told, body = self._message(notification, now)
        text = f'<font color="{_colour(told)}">{self._template.heading(told)}</font>\n{body}'
        wire = {"msgtype": "markdown", "markdown": {"content": fit(text, _BYTES)}}
        return Request(self._address(), encoded(wire), CHAT_HEADERS)

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        return self._of_code(_CODES, status, headers, body)


def _colour(told: Message) -> str:
    if told.state == IncidentState.RESOLVED:
        return "info"  # Which WeCom shows in green.
    return "comment" if told.severity == "info" else "warning"
