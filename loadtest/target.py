"""The server before the load: whether it may be loaded, and which model it serves.

Belongs here: those two questions. Never: a request of the load.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import requests

from loadtest.options import Common

ASK_S = 10.0


class TargetError(Exception):
    """The server cannot be loaded; the text is one sentence with the remedy."""


def checked(url: str, *, allow_remote: bool) -> str:
    """The address without a trailing slash. Raises TargetError unless it is one, and loopback or allowed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TargetError(f"cannot load {url!r}: it is no address; give one as --host http://127.0.0.1:8000")
    if not allow_remote and not _is_loopback(parts.hostname):
        raise TargetError(
            f"cannot load {url}: {parts.hostname} is another machine, and a load may hurt whoever shares it; "
            "add --allow-remote if it is yours to load"
        )
    return url.rstrip("/")


def model_of(url: str, options: Common) -> str:
    """The model to ask for: the one that was named, else the first that the server lists. Raises TargetError."""
    if options.model is not None:
        return options.model
    try:
        answer = requests.get(f"{url}/v1/models", headers=headers(options), timeout=ASK_S)
        if answer.status_code in (401, 403):
            raise TargetError(f"cannot load {url}: it wants a token (HTTP {answer.status_code}); give --token-file")
        answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except (requests.RequestException, ValueError, LookupError, TypeError) as error:
        raise TargetError(
            f"cannot load {url}: /v1/models names no model ({type(error).__name__}); check that the server is up at "
            "--host, or name the model with --model"
        ) from error


def headers(options: Common) -> dict[str, str]:
    """Those of every request."""
    bearer = {} if options.token is None else {"Authorization": f"Bearer {options.token}"}
    return {"Content-Type": "application/json", "Accept-Encoding": "identity", **bearer}


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
