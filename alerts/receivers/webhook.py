"""The generic webhook: Alertmanager's JSON, signed.

Belongs here: its request and its answers. Never: the JSON itself (alerts/payload.py).

With a `secret_file` a request carries `X-Governor-Timestamp` (Unix seconds) and `X-Governor-Signature`: `sha256=` and
the hex HMAC-SHA256, under the secret, of the timestamp, a full stop and the body. Who takes it checks both, and that
the timestamp is young. `Idempotency-Key` is the same for every attempt at one notification.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime

from alerts import payload
from alerts.receivers.base import JSON, Answer, Receiver, Request
from alerts.settings import Kind
from domain.incident import Notification


class Webhook(Receiver):
    """Any 2xx answer is a delivery, as with Alertmanager."""

    kind = Kind.WEBHOOK

    def request(self, notification: Notification, now: datetime) -> Request:
        body = json.dumps(payload.webhook(notification, self._external_url)).encode()
        headers = {"Content-Type": JSON, "Idempotency-Key": notification.uid}
        url = self._address()
        headers |= self._bearer()
        if (secret := self._secret()) is not None:
            timestamp = str(int(now.timestamp()))
            headers |= {"X-Governor-Timestamp": timestamp, "X-Governor-Signature": signature(secret, timestamp, body)}
        return Request(url, body, headers)

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        return self._of_http(status, headers, body)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What `X-Governor-Signature` has to be."""
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"
