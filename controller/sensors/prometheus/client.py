"""One Prometheus-compatible server, asked through prometheus-api-client. Every call blocks: it belongs into a thread.

Belongs here: the calls, and telling a number, no series, no traffic, a refusal and no answer apart. Never: when to ask.

The library answers the `result` of any HTTP 200 and puts everything else into one exception, so each response is
looked at on its way to it (a hook of requests). It is imported at the first call: requests and what comes with it take
6 MB, which a daemon without Prometheus does not pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.sensors.prometheus import queries
from controller.settings import PrometheusSettings
from controller.token_file import TokenUnreadable, read_token
from domain.readings.prometheus import Absence

Samples = list[tuple[float, float]]


class Refused(Exception):
    """The server understood the call and turned it down: HTTP 4xx, or `status: error`."""


class NoAnswer(Exception):
    """No connection, no answer in time, HTTP 5xx, or an answer that no Prometheus gives."""


class PrometheusClient:
    """Not for two threads at once."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self.url = (settings.url or "").rstrip("/")
        self._token_file = settings.token_file
        self._timeout_s = settings.timeout_s
        self._library: Any = None

    def value(self, query: str) -> float | Absence:
        """The number that an aggregating query answers. Raises Refused or NoAnswer."""
        found = self._ask(lambda library, params: library.custom_query(query, params))
        if not found:
            return Absence.NO_SERIES
        value = _numbers([found[0].get("value")])[0][1]
        return value if math.isfinite(value) else Absence.NO_TRAFFIC

    def now_s(self) -> float:
        """The server's own time. Raises Refused or NoAnswer."""
        answer = self.value(queries.CLOCK)
        if isinstance(answer, Absence):
            raise NoAnswer("it does not tell its time")
        return answer

    def past(self, query: str, until_s: float, window_s: float, step_s: float) -> list[Samples]:
        """(time, value) of each series that the query picks, oldest first. Raises Refused or NoAnswer."""
        end_s = math.floor(until_s)  # the library rounds, and must not round into the future
        begin, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (end_s - window_s, end_s))
        found = self._ask(lambda library, params: library.custom_query_range(query, begin, end, f"{step_s:g}", params))
        return [_numbers(one.get("values")) for one in found]

    def close(self) -> None:
        """Drop the connections, as a kept one may be closed by the next time; the next call makes new ones."""
        if self._library is not None:
            self._library.close()

    def _ask(self, call: Callable[[Any, dict[str, str]], Any]) -> list[dict[str, Any]]:
        import requests

        if self._library is None:
            self._library = self._connect()
        try:
            # The server gives up when we do.
            found = call(self._library, {"timeout": f"{self._timeout_s:g}s"})
        except requests.RequestException as error:
            raise NoAnswer(_words(error, self._timeout_s)) from error
        except (LookupError, TypeError, ValueError) as error:
            raise NoAnswer("it answers something that no Prometheus does") from error
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise NoAnswer("it answers something that no Prometheus does")
        return found

    def _connect(self) -> Any:
        import requests
        from prometheus_api_client.prometheus_connect import PrometheusConnect
        from urllib3.util import Retry

        session = requests.Session()
        session.hooks["response"].append(_look_at)
        # An `auth` of our own, as otherwise a .netrc replaces the header.
        auth = _bearer(self._token_file) if self._token_file is not None else None
        return PrometheusConnect(
            self.url, session=session, retry=Retry(0, read=False), auth=auth, timeout=self._timeout_s
        )


def _bearer(token_file: Path) -> Callable[[Any], Any]:
    """Reads the file at each call, so that a new token needs no restart."""

    def sign(request: Any) -> Any:
        try:
            token = read_token(token_file)
        except TokenUnreadable as error:
            raise NoAnswer(f"the token file {token_file} cannot be read ({error})") from error
        if not token or not token.isprintable() or not token.isascii():
            raise NoAnswer(f"the token file {token_file} holds no token on one line")
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return sign


def _look_at(response: Any, *_args: Any, **_options: Any) -> None:
    """Raises Refused or NoAnswer unless it is a success or a redirect, which requests follows."""
    if response.is_redirect:
        return
    try:
        document = response.json()
    except ValueError:
        document = None
    said = document if isinstance(document, dict) else {}
    reason = " ".join(str(said.get("error") or response.reason or "").split())[:200]
    status = response.status_code
    if 400 <= status < 500:
        raise Refused(f"HTTP {status}: {reason}")
    if status >= 500:
        raise NoAnswer(f"HTTP {status}: {reason}")
    if said.get("status") == "error":
        raise Refused(f"status error: {reason}")
    if said.get("status") != "success":
        raise NoAnswer("it answers something that no Prometheus does")


def _numbers(pairs: Any) -> Samples:
    try:
        return [(float(at), float(value)) for at, value in pairs]
    except (TypeError, ValueError) as error:
        raise NoAnswer("it answers something that no Prometheus does") from error


def _words(error: BaseException, timeout_s: float) -> str:
    """The system's own words for what went wrong; the library's hold addresses in memory, new ones each time."""
    import requests

    link: BaseException | None = error
    while link is not None:
        if isinstance(link, requests.Timeout | TimeoutError):
            return f"no answer within {timeout_s:g} s"
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
        link = link.__cause__ or link.__context__
    return type(error).__name__
