"""What every kind of receiver is: it makes a request of a notification, and judges the answer.

Belongs here: those values, the base class, and what HTTP itself says. Never: the wire format of one kind, sending,
waiting, counting attempts (alerts/delivery.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from alerts.receivers import secrets
from alerts.sanitise import one_line
from alerts.settings import Kind, ReceiverSettings
from domain.incident import Notification

JSON = "application/json"
_LONGEST_WAIT_S = 3600.0
_WORDS = 200
_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One HTTP request. Its text tells the host alone: address, headers and body can hold secrets."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"

    def __repr__(self) -> str:
        return f"Request({self.method} to {urlsplit(self.url).hostname}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver took it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not now: the same request may be taken later, after `after_s` if the receiver told when."""

    reason: str
    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver will never take this request."""

    reason: str


Answer = Delivered | Retry | Refused


class Receiver(ABC):
    """One configured receiver. Secrets are read for each request and kept only to blot them out of its answer."""

    kind: ClassVar[Kind]

    def __init__(self, name: str, settings: ReceiverSettings, external_url: str | None = None) -> None:
        self.name = name
        self._settings = settings
        self._external_url = external_url
        self._secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.kind} receiver {self.name}>"

    @abstractmethod
    def request(self, notification: Notification, now: datetime) -> Request:
        """The request that tells `notification`. Raises CannotSend where a secret cannot be read."""

    @abstractmethod
    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        """What the answer to the latest request says of it."""

    def failed(self, error: BaseException) -> Retry:
        """What a request that got no answer says: `error` is the client's, a timeout included."""
        return self._retry(self._words(str(error)) or type(error).__name__)

    def _address(self) -> str:
        setting = f"alerts.receivers.{self.name}"
        url = secrets.address(self._settings.url, self._settings.url_file, setting)
        self._secrets = tuple(secrets.of_address(url))
        return url

    def _secret(self) -> str | None:
        return self._read(self._settings.secret_file, "secret_file")

    def _bearer(self) -> dict[str, str]:
        token = self._read(self._settings.token_file, "token_file")
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _read(self, path: Path | None, key: str) -> str | None:
        if path is None:
            return None
        secret = secrets.read(path, f"alerts.receivers.{self.name}.{key}")
        self._secrets += (secret,)
        return secret

    def _words(self, text: str) -> str:
        """The receiver's own words, short, and without the secrets that it may repeat."""
        # Blotted before it is cut: half a secret is one too.
        words = one_line(secrets.blotted(text, self._secrets)).strip()
        return words if len(words) <= _WORDS else words[:_WORDS] + "…"

    def _retry(self, why: str, after_s: float | None = None) -> Retry:
        return Retry(f"cannot deliver to {self.name}: {why}; it is tried again", after_s)

    def _refused(self, why: str, remedy: str) -> Refused:
        return Refused(f"cannot deliver to {self.name}: {why}; {remedy}")

    def _of_http(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        """What the status alone says: 2xx is delivered."""
        if 200 <= status < 300:
            return Delivered()
        words = self._words(body.decode("utf-8", "replace"))
        why = f"HTTP {status} {_phrase(status)}".rstrip() + (f" ({words})" if words else "")
        if status in _TRY_AGAIN or status >= 500:
            return self._retry(why, retry_after_s(headers))
        if 300 <= status < 400:
            return self._refused(why, "set url to the address that it leads to")
        return self._refused(why, "correct the receiver's settings")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of `Retry-After`, at most an hour; a date counts from the answer's own `Date`, whatever time we have."""
    by_name = {name.lower(): value.strip() for name, value in headers.items()}
    told = by_name.get("retry-after", "")
    if told.isascii() and told.isdigit():
        return min(float(told), _LONGEST_WAIT_S)
    try:
        after = (parsedate_to_datetime(told) - parsedate_to_datetime(by_name.get("date", ""))).total_seconds()
    except (ValueError, TypeError):
        return None
    return min(max(after, 0.0), _LONGEST_WAIT_S)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
