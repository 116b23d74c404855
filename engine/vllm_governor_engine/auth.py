"""Who may call: the bearer token.

Here: reading the token file and comparing. Never here: HTTP beyond the value of one header, or a word of the token in
a message.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Mapping, Sequence

from .errors import GovernorError

TOKEN_FILE_VARIABLE = "VLLM_GOVERNOR_TOKEN_FILE"  # noqa: S105 - a variable's name
_MAX_TOKEN_BYTES = 4096


def require_token(authorization: Sequence[bytes], environ: Mapping[str, str] = os.environ) -> None:
    """Let a call pass, or raise `closed` (no token is configured) or `unauthorized`.

    `authorization` holds the values of all Authorization headers. The file is read at each call, so that a new token
    needs no restart.
    """
    token = _configured_token(environ)
    if token is None:
        raise GovernorError(
            "closed",
            f"this server has no governor token; put one into a file that vLLM can read and name the file in "
            f"{TOKEN_FILE_VARIABLE} where vLLM starts",
        )
    if len(authorization) == 1:
        scheme, _, presented = authorization[0].strip().partition(b" ")
        # Digests have one length, so that the time taken says nothing about the token's.
        same = hmac.compare_digest(hashlib.sha256(presented.strip()).digest(), hashlib.sha256(token).digest())
        if scheme.lower() == b"bearer" and same:
            return
    raise GovernorError("unauthorized", "the bearer token is missing or wrong; send Authorization: Bearer TOKEN")


def _configured_token(environ: Mapping[str, str]) -> bytes | None:
    path = environ.get(TOKEN_FILE_VARIABLE)
    if not path:
        return None
    try:
        # Not blocking, and regular files only: opening a named pipe would stop the whole API server.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(_MAX_TOKEN_BYTES + 1)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
    token = content.strip()
    return token if token and len(content) <= _MAX_TOKEN_BYTES else None
