"""How many connections are held at once without an error, and what one takes of nginx's memory.

Belongs here: opening, holding, asking again, the search for the most. Never: what stands behind nginx.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from bench.connections import client
from bench.connections.client import Connection, Refused
from bench.connections.nginx import Nginx
from bench.connections.style import Style

AT_A_TIME = 8
"""Of the held connections, so many are opened or asked at a time."""
FIRST = 250
CLOSE_ENOUGH = 16
"""The search ends when the most that held and the least that did not are so near."""


@dataclass(frozen=True, slots=True)
class Held:
    """One try. `errors`: what went wrong, by cause; without one all `count` connections were answered each time."""

    count: int
    errors: Counter[str]
    mb_per_conn: float
    """What nginx had grown by when each had been answered once, by connection. 10^6 bytes."""
    nginx_said: str
    """Its last error, where there were errors; "" for none."""


@dataclass(frozen=True, slots=True)
class Most:
    """`held`: the largest try without an error, None where none was; `first_error`: what ended the search."""

    held: Held | None
    first_error: str | None


def hold(nginx: Nginx, trust: ssl.SSLContext, style: Style, count: int, hold_s: float) -> Held:
    """Opens all, asks on each, and for a kept connection waits `hold_s` and asks on each again. Short ones are closed
    by their one answer.
    """
    errors: Counter[str] = Counter()
    before_mb = nginx.memory_mb()
    connections = [Connection(nginx.port, trust) for _ in range(count)]
    with _closing(connections), ThreadPoolExecutor(AT_A_TIME) as pool:

        def each(what: Callable[[Connection], None]) -> None:
            errors.update(cause for cause in pool.map(lambda one: _cause(what, one), connections) if cause)

        each(Connection.connect)
        each(lambda one: client.look(one, last=not style.kept))
        grown_mb = nginx.memory_mb() - before_mb
        if style.kept:
            time.sleep(hold_s)
            each(lambda one: client.look(one, last=False))
    return Held(count, errors, grown_mb / count, nginx.said() if errors else "")


def most(attempt: Callable[[int], Held], ceiling: int) -> Most:
    """Doubles from FIRST up to `ceiling` until a try has an error, then halves the gap."""
    best: Held | None = None
    over, cause, count = ceiling + 1, None, min(FIRST, ceiling)
    while True:
        tried = attempt(count)
        if tried.errors:
            over = count
            cause = cause or "; nginx says: ".join(filter(None, (tried.errors.most_common(1)[0][0], tried.nginx_said)))
        else:
            best = tried
        held = best.count if best else 0
        if held == ceiling or over - held <= CLOSE_ENOUGH:
            return Most(best, cause)
        count = (held + over) // 2 if over <= ceiling else min(2 * held, ceiling)


@contextmanager
def _closing(connections: list[Connection]) -> Iterator[None]:
    try:
        yield
    finally:
        for one in connections:
            one.close()


def _cause(what: Callable[[Connection], None], one: Connection) -> str | None:
    try:
        what(one)
    except (OSError, Refused, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return None
