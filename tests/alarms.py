"""A loop of tests/loop_rig.py whose alerts go to a receiver over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from controller.loop import Loop
from tests.loop_rig import Rig
from tests.told import OtherEnd
from tests.waiting import PATIENCE_S

NOWHERE = "http://127.0.0.1:9"


def told_to(end: OtherEnd, **more: Any) -> dict[str, Any]:
    """The settings [alerts] with that receiver; each alert is told at once."""
    return {"group_wait_s": 0, "receivers": {"ops": {"kind": "webhook", "url": end.url}}, **more}


@asynccontextmanager
async def alarmed(rig: Rig, at_s: float | None = None, **settings: Any) -> AsyncIterator[Loop]:
    """A daemon's life from its start to its end; `at_s`: when it begins."""
    loop = rig.build(**settings)
    if at_s is not None:
        rig.clock.s = at_s
    await loop.restore()
    try:
        yield loop
    finally:
        await loop.close()
        await loop.alerting.close()


async def watched(rig: Rig, seconds: float, loop: Loop) -> None:
    """Ticks for so long, each worked off before the next."""
    until_s = rig.clock.s + seconds
    while rig.clock.s < until_s:
        await loop.tick()
        await worked_off(loop)


async def worked_off(loop: Loop, *, sent: bool = True) -> None:
    """All that the ticks found was told, or is with the senders; `sent`: and nothing waits there."""
    alerting = loop.alerting
    async with asyncio.timeout(PATIENCE_S):
        while alerting.busy or (sent and any(one.pending for one in alerting.receivers().values())):  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def heard(end: OtherEnd) -> list[tuple[str, str]]:
    """What a webhook was told: each alert with its status, in order."""
    return [(one["labels"]["alertname"], one["status"]) for one in alerts(end)]


def alerts(end: OtherEnd) -> list[dict[str, Any]]:
    """Every alert that a webhook was told of, as it was."""
    return [alert for body in end.got for alert in json.loads(body)["alerts"]]


def aim(loop: Loop, url: str) -> None:
    """Have the engine's metrics and plugin looked for there from now on, and not less often after failures."""
    loop._sensing._link._client.url = url
    loop._sensing._metrics._url = f"{url}/metrics"
    loop._sensing._metrics._clock = loop.clock
