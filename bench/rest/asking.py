"""The process that asks: GET of one address at random times that do not wait for answers.

`python -m bench.rest.asking URL PER_S WARM_UP_S MEASURE_S` prints a line when it begins, and at
the end {answers, causes, ticks}. A request's time
counts from the moment at which it was due, so that a daemon that stalls is charged for the requests that queue up
behind, and so that this process is charged for its own lateness, which is told apart. Belongs here: sending and timing.
Never: percentiles (summary.py).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import aiohttp

CONNECTIONS = 100
LIMIT_S = 10.0
"""For one answer."""
READ_EVERY = 50
"""So many answers are received for each that is read, which costs more than asking."""


class Asking:
    """One run."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self.timed: list[tuple[float, float, float]] = []
        """Of each good answer: when it was due, how late it was sent and how long after being due it had come, s."""
        self.causes: Counter[str] = Counter()
        self.ticks: set[int] = set()
        """Numbers of the ticks that the answers spoke of."""
        self._asked = 0

    async def run(self, due: Iterator[float], measure_from_s: float) -> None:
        """Send each request at its moment; those due before `measure_from_s` only warm up."""
        async with asyncio.TaskGroup() as group:
            for at_s in due:
                if (left_s := at_s - time.monotonic()) > 0:
                    await asyncio.sleep(left_s)
                group.create_task(self._ask(at_s, counts=at_s >= measure_from_s))

    async def _ask(self, due_s: float, *, counts: bool) -> None:
        sent_s = time.monotonic()
        self._asked += 1
        read = self._asked % READ_EVERY == 0
        try:
            async with self._session.get(self._url) as answer:
                body = await answer.read()
                fault = None if answer.status == 200 else f"HTTP {answer.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            fault = type(error).__name__
        if not counts:
            return
        if fault is not None:
            self.causes[fault] += 1
            return
        self.timed.append((due_s, sent_s - due_s, time.monotonic() - due_s))
        if read:
            self.ticks.add(json.loads(body)["ticks"]["ticks"])


def arrivals(from_s: float, per_s: float, until_s: float, draw: random.Random) -> Iterator[float]:
    """Moments of requests that know nothing of each other: the gaps are exponential (a Poisson process)."""
    at_s = from_s
    while (at_s := at_s + draw.expovariate(per_s)) < until_s:
        yield at_s


async def _main(url: str, per_s: float, warm_up_s: float, measure_s: float) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    timeout = aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        asking = Asking(session, url)
        print("asking", flush=True)
        from_s = time.monotonic()
        measure_from_s = from_s + warm_up_s
        due = arrivals(from_s, per_s, measure_from_s + measure_s, random.Random(1))
        await asking.run(due, measure_from_s)
    answers = [[round(1000 * late_s, 3), round(1000 * took_s, 3)] for _, late_s, took_s in asking.timed]
    print(json.dumps({"answers": answers, "causes": asking.causes, "ticks": sorted(asking.ticks)}))


def main(arguments: Sequence[str]) -> None:
    """Run it."""
    url, *numbers = arguments
    asyncio.run(_main(url, *map(float, numbers)))


if __name__ == "__main__":
    main(sys.argv[1:])
