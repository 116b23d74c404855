"""The process that listens: many event streams at once, until its standard input ends.

`python -m bench.rest.listening URL STREAMS` prints a line once all are open, and at the end {open, events, ticks}.
Belongs here: that. Never: what the events mean but a tick's number and when it began.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import datetime

import aiohttp

OPEN_S = 30.0
UNDER_WAY_S = 0.5
"""What was sent before the end still counts."""


class Listening:
    """All streams of one run."""

    def __init__(self) -> None:
        self.open = 0
        self.events = 0
        self.ticks: dict[int, float] = {}
        """When each tick began, Unix time, by its number."""
        self.received: dict[int, int] = {}
        """Streams that got each tick."""
        self.opened = asyncio.Event()

    async def listen(self, session: aiohttp.ClientSession, url: str, wanted: int) -> None:
        """One stream, until it ends."""
        async with session.get(url) as answer:
            answer.raise_for_status()
            self.open += 1
            if self.open == wanted:
                self.opened.set()
            try:
                async for line in answer.content:
                    self._take(line)
            finally:
                self.open -= 1

    def _take(self, line: bytes) -> None:
        if line.startswith(b"event: ") and not line.startswith(b"event: gap"):
            self.events += 1
        if not line.startswith(b'data: {"at":"'):
            return  # of all events a tick's alone begins so
        number = int(line.split(b'"number":', 1)[1].split(b",", 1)[0])
        self.received[number] = self.received.get(number, 0) + 1
        if number not in self.ticks:
            self.ticks[number] = datetime.fromisoformat(json.loads(line[6:])["at"]).timestamp()


async def _all_open(listening: Listening, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Raises the error of the first stream that ends instead, TimeoutError."""
    opened = asyncio.create_task(listening.opened.wait())
    done, _ = await asyncio.wait({opened, *tasks}, timeout=OPEN_S, return_when=asyncio.FIRST_COMPLETED)
    if opened not in done:
        for task in done:
            await task
        raise TimeoutError(f"{listening.open} of {len(tasks)} streams opened within {OPEN_S:.0f} s")


async def _main(url: str, streams: int) -> None:
    listening, timeout = Listening(), aiohttp.ClientTimeout(total=None, connect=OPEN_S)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        tasks = [asyncio.create_task(listening.listen(session, url, streams)) for _ in range(streams)]
        await _all_open(listening, tasks)
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await asyncio.sleep(UNDER_WAY_S)
        still_open = listening.open
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ticks = [[number, at, listening.received[number]] for number, at in sorted(listening.ticks.items())]
    print(json.dumps({"open": still_open, "events": listening.events, "ticks": ticks}))


def main(arguments: Sequence[str]) -> None:
    """Run it."""
    asyncio.run(_main(arguments[0], int(arguments[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
