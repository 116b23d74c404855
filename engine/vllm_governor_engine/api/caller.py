"""Who called, and the line that remembers what they changed.

Here: naming a caller and writing the audit line. Never here: the token, in any form, or whether they may call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vllm_governor_engine import errors
from vllm_governor_engine.asgi import Scope
from vllm_governor_engine.log import get_logger

UID_KEY = "vllm_governor.uid"
"""Where the Unix socket's server puts the caller's user id; nothing a client sends ends up in a scope's keys."""
_TOLD = ("knobs", "fallback", "frozen", "lease_s", "ratio", "preempt")
_SHOWN_CHARS = 300


def name(scope: Scope) -> str:
    """`uid 1000` on the Unix socket, else the peer's address as the server sees it (a proxy's, behind one)."""
    if UID_KEY in scope:
        return f"uid {scope[UID_KEY]}"
    client = scope.get("client")
    return errors.shown(f"{client[0]}:{client[1]}") if client else "unknown"


def by_socket(scope: Scope) -> bool:
    """True when the call came over the Unix socket, whose permissions are its access control."""
    return UID_KEY in scope


def audit(scope: Scope, call: str, body: bytes, outcome: str, answer: Mapping[str, Any] | None) -> None:
    """One line: who, what, with which result. Of a call that was refused only the fact."""
    generation = "-" if answer is None else answer.get("generation", "-")
    told = _told(body) if answer is not None else ""
    get_logger().info(
        "governor audit: caller=%s call=%s outcome=%s generation=%s%s", name(scope), call, outcome, generation, told
    )


def changes_something(call: str, body: bytes) -> bool:
    """False for the renewal of a lease that names no fallback: that happens every few seconds and changes nothing."""
    if call != "POST /lease":
        return True
    try:
        return "fallback" in json.loads(body)  # not looked for in the bytes: JSON can write it in many ways
    except Exception:
        return True


def _told(body: bytes) -> str:
    try:
        parsed = json.loads(body)
        return " " + errors.shown({key: parsed[key] for key in _TOLD if key in parsed}, _SHOWN_CHARS)
    except Exception:
        return ""
