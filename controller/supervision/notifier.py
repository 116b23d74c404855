"""Datagrams to the service manager, as sd_notify(3) has them.

Belongs here: where they go and how they are written. Never: when something is told (supervisor.py).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from controller.watch import Condition

SEND_S = 0.1
"""A service manager that reads takes microseconds; one that hangs must not hold up a tick."""
VALUE_CHARS = 500
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


class Notifier:
    """Tells what NOTIFY_SOCKET names; without one it tells nobody. Raises nothing: a lost word is logged once."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._condition = Condition("service manager")
        named = environment.get("NOTIFY_SOCKET", "")
        self._address = _address(named)
        self._socket: socket.socket | None = None
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(SEND_S)
        elif named:
            self._condition.report(f"cannot tell it anything: NOTIFY_SOCKET = {named!r} is neither a path nor @name")

    def tell(self, **values: object) -> None:
        """Send these assignments as one datagram, as READY=1. What would end a line in a value is made a space: it
        could be another assignment.
        """
        if self._socket is None or self._address is None:
            return
        lines = (f"{name}={_CONTROL.sub(' ', str(value))[:VALUE_CHARS]}" for name, value in values.items())
        try:
            self._socket.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
        except OSError as error:
            self._condition.report(f"cannot tell it anything: {error.strerror or error}")
        else:
            self._condition.report(None)

    def close(self) -> None:
        """Tell nobody any more. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address(named: str) -> str | None:
    """A path, or with @ a name in the abstract namespace, which begins with a zero byte."""
    if named.startswith("@") and len(named) > 1:
        return f"\0{named[1:]}"
    return named if named.startswith("/") else None
