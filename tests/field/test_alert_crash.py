"""A receiver that is down for ten minutes and a daemon that is killed again and again: nothing is lost, all comes
in order, and a crash makes the receiver hear at most one notification twice.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests import alert_child
from tests.told import NOON

FOR_EACH_KILL = 4
"""Notifications, so that there is always something going on."""
DOWN_FROM_S, DOWN_UNTIL_S = 100.0, 700.0
"""Of the sender's time, which its signed requests tell."""
LATEST_S = 0.3
PATIENT_S = 300.0


@dataclass
class Receiver:
    """Takes what comes but while it is down. Each life of the daemon is told by the address that it sends to: what one
    sent just before it was killed may be heard only when the next has begun.
    """

    now_s: float = 0.0
    refused: int = 0
    taken: list[tuple[int, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.now_s = max(self.now_s, int(request.headers["X-Governor-Timestamp"]) - NOON.timestamp())
        if DOWN_FROM_S <= self.now_s < DOWN_UNTIL_S:
            self.refused += 1
            return web.Response(status=503)
        self.taken.append((int(request.query["life"]), request.headers["Idempotency-Key"]))
        return web.Response(text="ok")


def lived(
    path: Path, settings: dict[str, object], number: int, now_s: float, ends_at: int | None, after_s: float | None
) -> bool:
    """One life of the daemon: until it ends by itself (true), or at that moment of its own or after that time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.alert_child"])
    here, there = context.Pipe(duplex=False)
    begins = alert_child.moment_of(int(NOON.timestamp() + now_s))
    child = context.Process(target=alert_child.send, args=(str(path), settings, begins, ends_at, number, there))
    child.start()
    there.close()
    with here:
        here.poll(PATIENT_S)
        child.join(PATIENT_S if after_s is None else after_s)
        if after_s is not None:
            child.kill()
        child.join(PATIENT_S)
    assert child.exitcode in (0, -9)
    return child.exitcode == 0


@pytest.mark.parametrize("kills", [10, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.timeout(1800)
async def test_every_notification_arrives_in_order_at_most_one_twice_for_each_crash(tmp_path: Path, kills: int) -> None:
    path, secret, chance, receiver = tmp_path / "h.db", tmp_path / "secret", random.Random(kills), Receiver()
    secret.write_text("k")
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    async with TestServer(app) as server:
        done, life = False, 0
        while not done:
            life += 1
            url = server.make_url("/hook").with_query(life=life)
            ops = {"kind": "webhook", "url": str(url), "secret_file": str(secret)}
            settings: dict[str, object] = {"receivers": {"ops": ops}}
            ends_at = chance.randint(1, 30) if life <= kills and life % 3 else None
            after_s = chance.uniform(0.0, LATEST_S) if life <= kills and not life % 3 else None
            done = await asyncio.to_thread(
                lived, path, settings, FOR_EACH_KILL * kills, receiver.now_s, ends_at, after_s
            )
    assert life > kills / 2
    expected = [f"n-{number}" for number in range(FOR_EACH_KILL * kills)]
    check(receiver, expected)
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT uid, status FROM deliveries ORDER BY id").fetchall()
    assert rows == [(uid, "delivered") for uid in expected]


def check(receiver: Receiver, expected: list[str]) -> None:
    """What the receiver heard."""
    uids = [uid for _, uid in receiver.taken]
    assert list(dict.fromkeys(uids)) == expected
    assert receiver.refused > 3
    again, heard = Counter[int](), set[str]()
    for life, uid in receiver.taken:
        again[life] += uid in heard
        heard.add(uid)
    assert max(again.values()) <= 1
    for one, other in pairwise(receiver.taken):
        assert one[0] != other[0] or int(one[1].removeprefix("n-")) < int(other[1].removeprefix("n-"))
