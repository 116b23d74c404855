"""Letting others go first while thousands of alerts are worked off.

Belongs here: how long that takes. Never: what is done between two turns.
"""

from __future__ import annotations

import asyncio


async def others_turn() -> None:
    """Until a task whose time has come meanwhile has begun: its timer runs out in one turn of the loop, it is woken in
    the next, and in both a task that only gives way once comes before it.
    """
    for _ in range(3):
        await asyncio.sleep(0)
