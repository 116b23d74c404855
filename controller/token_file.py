"""A token in a file of its own, read anew for each call so that a new one needs no restart.

Belongs here: reading it, and why it cannot be read. Never: who has to show which token.
"""

from __future__ import annotations

from pathlib import Path


class TokenUnreadable(Exception):
    """Its text is the reason alone; who asks knows what the token is for."""


def read_token(path: Path) -> str:
    """The token without the white space around it, maybe empty. Raises TokenUnreadable."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TokenUnreadable(error.strerror) from error
    except UnicodeDecodeError as error:
        raise TokenUnreadable("it is not text") from error
