"""Waiting for what must happen, on a machine however slow: how fast it happens is for bench/ to say.

Belongs here: the one limit and the one loop. Never: what is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 120.0
"""It fails then: far beyond what any of it takes on a busy machine, well within pytest's own limit."""
POLL_S = 0.1


async def until(what: str, holds: Callable[[], bool | Awaitable[bool]], limit_s: float = PATIENCE_S) -> None:
    """Until `holds` does; fails naming `what`."""
    end_s = time.monotonic() + limit_s
    while True:
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < end_s, f"{what}: not within {limit_s:.0f} s"
        await asyncio.sleep(POLL_S)
