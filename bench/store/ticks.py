"""What a governor hands to its writer, tick after tick, at the rate of a busy engine.

Belongs here: which writes a tick has. Never: handing them over, timing (writing.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from bench.store import drawn
from bench.store.fill import ENGINE_URL
from bench.store.pictures import chunks
from bench.store.samples import Samples
from bench.store.year import Year
from controller.history.recording import TICKS_A_CHUNK
from domain.decision import Decision, Status
from domain.view import SIGNALS
from store.history import Chunk
from store.pending import Write
from store.writes import AddDecisions, AddLedger, AddReading, Boot, Conclude, Judge, Record

TICKS_A_DECISION = 5
TICKS_AN_ENTRY = 60
KEPT_CHUNKS = 24 * 3600 // TICKS_A_CHUNK
DIFFERENT = 200
"""So many readings and decisions are made beforehand and dealt again, each time with another time and uid: making
them is no part of what is timed, and would take the interpreter from the writer.
"""


class Ticks:
    """One after the other, a second apart, from the end of `year` on. Each has 1 reading, 1/5 decision, 1/30 chunk and
    1/60 ledger entry, and what becomes of the decision.
    """

    def __init__(self, year: Year, seed: int = 3) -> None:
        chance = Random(seed)
        *_, (at, runtime) = year.runs()
        self._boot = Boot(at, ENGINE_URL, runtime)
        self._at = year.until
        self._number = 0
        samples = Samples(chance)
        self._readings = [array("d", drawn.tick(chance).values()) for _ in range(DIFFERENT)]
        self._decisions = [samples.deal(self._at) for _ in range(DIFFERENT)]
        setting = drawn.Setting(chance)
        self._settings = [_moved_on(setting) for _ in range(DIFFERENT)]
        self._chunk = next(chunks(chance, self._at, self._at + timedelta(days=1)))
        self._chance = chance

    def next(self) -> tuple[AddDecisions | None, list[Write]]:
        """The intent of a change, where this tick has one, and all else that it hands over."""
        self._number += 1
        self._at += timedelta(seconds=1)
        decision = self._decision() if self._number % TICKS_A_DECISION == 0 else None
        intent = None
        writes: list[Write] = list(self._each())
        if decision is not None:
            write = AddDecisions(self._boot, [decision])
            if decision.requested is None:
                writes.append(write)
            else:
                intent = AddDecisions(
                    self._boot, [replace(decision, status=Status.INTENDED, observed=None, outcome=None)]
                )
                writes += self._became_of(decision)
        return intent, writes

    def _each(self) -> Iterator[Write]:
        number = self._number
        held = {**drawn.ENVELOPE, **self._settings[number % DIFFERENT]}
        yield AddReading(self._boot, self._at, tuple(SIGNALS), self._readings[number % DIFFERENT], held)
        if number % TICKS_A_CHUNK == 0:
            yield Record(self._boot, self._moved(self._at), KEPT_CHUNKS)
        if number % TICKS_AN_ENTRY == 0:
            minute = self._at - timedelta(seconds=TICKS_AN_ENTRY)
            setting = self._settings[number // TICKS_AN_ENTRY % DIFFERENT]
            yield AddLedger(self._boot, [drawn.entry(self._chance, minute, TICKS_AN_ENTRY, setting, TICKS_AN_ENTRY)])

    def _moved(self, at: datetime) -> Chunk:
        return replace(self._chunk, from_at=at - timedelta(seconds=TICKS_A_CHUNK - 1), to_at=at)

    def _decision(self) -> Decision:
        dealt = self._decisions[self._number // TICKS_A_DECISION % DIFFERENT]
        return replace(dealt, at=self._at, uid=f"{self._chance.getrandbits(128):032x}")

    def _became_of(self, decision: Decision) -> Iterator[Write]:
        yield Conclude([decision])
        if decision.outcome is not None and decision.uid is not None:
            yield Judge({decision.uid: decision.outcome})


def _moved_on(setting: drawn.Setting) -> dict[str, float | None]:
    setting.move()
    return setting.values
