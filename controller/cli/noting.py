"""What a command changed, written into the audit of the history that it changed.

Belongs here: who ran it. Never: which commands there are.
"""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.audit import Action
from store.history import History


async def note(history: History, at: datetime, action: str, detail: Mapping[str, Any]) -> None:
    """Write that it was done. Raises HistoryUnavailable."""
    entry = Action(at, _who(), action, history.where, "ok", detail, request_id=uuid.uuid4().hex)
    await history.audit.add(entry)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
