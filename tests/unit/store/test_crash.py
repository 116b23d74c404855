"""Killed at any moment, the daemon has lost nothing that it acknowledged, and the file is sound."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests import crash_child

LATEST_S = 0.3
STARTED_S = 60.0
BEGINNINGS = (None, crash_child.INTENDED, crash_child.APPLIED, crash_child.ANSWERED)
"""From when on a child may be killed."""


def killed(path: Path, after_s: float, first: bytes | None) -> list[bytes]:
    """What a child told before it was killed: so long after its start, or after the first of this kind that it told."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.crash_child"])
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=crash_child.write, args=(str(path), there))
    child.start()
    there.close()
    told: list[bytes] = []
    while first is not None and not any(message.startswith(first) for message in told):
        assert here.poll(STARTED_S)
        told.append(here.recv_bytes())
    child.join(after_s)
    assert child.is_alive()
    child.kill()
    child.join()
    with here:
        try:
            while True:
                told.append(here.recv_bytes())
        except EOFError:
            return told


@pytest.mark.parametrize("moments", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.timeout(1800)
def test_every_acknowledged_decision_and_action_is_there_once_and_the_file_is_sound(
    tmp_path: Path, moments: int
) -> None:
    path, chance = tmp_path / "history.db", random.Random(moments)
    acknowledged: dict[str, str] = {}
    answered: set[str] = set()
    for moment in range(moments):
        for message in killed(path, chance.uniform(0.0, LATEST_S), BEGINNINGS[moment % 4]):
            kind, name = message[:1], message[1:].decode()
            if kind == crash_child.ANSWERED:
                answered.add(name)
            else:
                acknowledged[name] = "applied" if kind == crash_child.APPLIED else "intended"
        if not path.exists():
            continue  # killed before it was made
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'decisions'").fetchall():
                continue
            rows = database.execute("SELECT uid, status FROM decisions").fetchall()
            requests = [request for (request,) in database.execute("SELECT request_id FROM actions")]
        stored = dict(rows)
        assert len(stored) == len(rows)
        lost = {uid for uid, status in acknowledged.items() if stored.get(uid) not in (status, "applied")}
        assert not lost
        assert len(set(requests)) == len(requests)
        assert answered <= set(requests)
    assert len(acknowledged) > moments
    assert len(answered) >= moments // 4
    assert not list(tmp_path.glob("*.corrupt-*"))
