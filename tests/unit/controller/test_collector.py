"""When Python's full garbage collections come."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from controller.alerting.ticked import Ticked
from controller.collector import EVERY_S, Collector
from tests.snapshots import BEGAN


@pytest.fixture
def full() -> Iterator[list[int]]:
    """The full collections since the test began."""
    seen: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start" and told["generation"] == 2:
            seen.append(2)

    before = gc.get_threshold()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_full_collections_come_after_a_tick_every_ten_minutes_and_at_no_other_time(full: list[int]) -> None:
    collector = Collector()
    collector.settle()
    full.clear()
    kept = [[number] for number in range(200_000)]  # would set off several
    assert len(kept) == 200_000
    assert full == []
    for second in range(0, 1801, 10):
        collector(Ticked(float(second), BEGAN))
    assert len(full) == 1800 / EVERY_S
