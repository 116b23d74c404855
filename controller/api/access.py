"""Who may call a route.

| | `read` routes | `admin` routes |
| --- | --- | --- |
| no token is configured | from this machine | nobody |
| `api.token_file` alone | from this machine, or with that token | with that token |
| `api.read_token_file` too | with either token | with the token of `api.token_file` |
| over the Unix socket | whoever may open it | whoever may open it |

Belongs here: that, and the refusals. Never: what a route does, where a request comes from (peers.py).
"""

from __future__ import annotations

import hmac
from pathlib import Path

from aiohttp import web

from controller.api.peers import Peer, names_this_machine
from controller.api.problem import Problem
from controller.api.routes import Access
from controller.settings import ApiSettings
from controller.token_file import TokenUnreadable, read_token

BEARER = "bearer "
DOING = "take this call"


class Gate:
    """Tokens are read anew at each call, so that a new one needs no restart."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings

    def admit(self, request: web.Request, peer: Peer, access: Access) -> str:
        """Who asks, in words for the audit. Raises Problem."""
        if access is Access.OPEN:
            return peer.name
        if peer.unix:
            return peer.name
        if not peer.here and not peer.secure and not self._settings.allow_plain:
            raise Problem(
                403,
                DOING,
                f"it comes from {peer.name} over a connection that everybody can read",
                "set api.cert_file and api.key_file and call over https, or api.allow_plain = true where the network "
                "is safe",
            )
        given = request.headers.get("Authorization")
        if access is Access.ADMIN:
            return self._admit_admin(given, peer)
        return self._admit_reader(given, peer, request.host)

    def _admit_admin(self, given: str | None, peer: Peer) -> str:
        path = self._settings.token_file
        if path is None:
            remedy = "name a file with one in api.token_file, or call over api.unix_socket"
            raise Problem(403, DOING, "no token is configured", remedy)
        token = _token(path, "api.token_file")
        if _same(given, token):
            return f"the admin token from {peer.name}"
        if (reading := self._settings.read_token_file) is not None and _same(given, _maybe(reading)):
            raise Problem(403, DOING, "this token may only read", "send the one of api.token_file")
        raise _unauthorized("the token of api.token_file", given)

    def _admit_reader(self, given: str | None, peer: Peer, host: str) -> str:
        admin, reading = self._settings.token_file, self._settings.read_token_file
        if admin is not None and _same(given, _maybe(admin)):
            return f"the admin token from {peer.name}"
        if reading is not None:
            if _same(given, _token(reading, "api.read_token_file")):
                return f"the read token from {peer.name}"
            raise _unauthorized("the token of api.read_token_file or api.token_file", given)
        if given is not None and admin is not None:
            raise _unauthorized("the token of api.token_file", given)
        if not peer.here:
            if admin is None:
                remedy = "name a file with a token in api.read_token_file or api.token_file"
                raise Problem(403, DOING, f"it comes from {peer.name}, and no token is configured", remedy)
            raise _unauthorized("the token of api.token_file", given)
        if not names_this_machine(host):
            reason = f"without a token this machine's own addresses are answered alone, and it asks for {host!r}"
            raise Problem(403, DOING, reason, "ask for 127.0.0.1 or localhost, or set api.read_token_file")
        return f"{peer.name} without a token"


def _token(path: Path, key: str) -> str:
    """Raises Problem where there is none: an empty token must let nobody in."""
    try:
        token = read_token(path)
    except TokenUnreadable as error:
        raise Problem(
            403, DOING, f"the token file {path} cannot be read: {error}", f"put {key} right, or its rights"
        ) from error
    if not token:
        raise Problem(403, DOING, f"the token file {path} is empty", "write a token into it")
    return token


def _maybe(path: Path) -> str | None:
    try:
        return read_token(path) or None
    except TokenUnreadable:
        return None


def _same(given: str | None, token: str | None) -> bool:
    if given is None or token is None or given[: len(BEARER)].lower() != BEARER:
        return False
    # A header may hold any bytes; those that are no text come as surrogates.
    sent = given[len(BEARER) :].strip().encode(errors="surrogateescape")
    return hmac.compare_digest(sent, token.encode())


def _unauthorized(what: str, given: str | None) -> Problem:
    reason = "a token is needed" if given is None else "the token is not the right one"
    remedy = f"send {what} as `Authorization: Bearer TOKEN`"
    return Problem(401, DOING, reason, remedy, headers={"WWW-Authenticate": 'Bearer realm="vllm-governor"'})
