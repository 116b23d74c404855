"""Settings as they may be shown: what is secret is said to be there, and no more.

Belongs here: what is hidden. Never: which settings there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from controller.operations.plain import plain

MASK = "***"
IN_AUTHORITY = re.compile(r"(://[^:/@\s]*):[^/\s]*@")
IN_QUERY = re.compile(r"([?&](?:password|passwd|token|secret|key|access_token)=)[^&\s]*", re.IGNORECASE)


def masked(value: Any) -> Any:
    """As JSON says it. A field that is kept out of the repr is a secret; so is a password within an address."""
    if isinstance(value, BaseModel):
        return {
            name: MASK if not field.repr and getattr(value, name) is not None else masked(getattr(value, name))
            for name, field in type(value).model_fields.items()
        }
    if isinstance(value, Mapping):
        return {str(key): masked(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked(one) for one in value]
    shown = plain(value)
    return _without_password(shown) if isinstance(shown, str) and "://" in shown else shown


def _without_password(address: str) -> str:
    return IN_QUERY.sub(rf"\1{MASK}", IN_AUTHORITY.sub(rf"\1:{MASK}@", address))
