"""How many requests an engine holds while something else than the cap bounds what runs."""

from __future__ import annotations

from vllm_governor_engine.queue_room import KEPT_S, WAITED_S, QueueRoom


def test_it_is_the_most_that_ran_while_somebody_waited_in_spite_of_the_cap() -> None:
    room = QueueRoom()
    assert room.look(0.0, running=20, cap=64, oldest_waiting_s=WAITED_S) == 20
    assert room.look(1.0, running=25, cap=64, oldest_waiting_s=3.0) == 25
    assert room.look(2.0, running=22, cap=64, oldest_waiting_s=3.0) == 25


def test_who_waits_for_the_next_step_or_for_the_cap_tells_nothing() -> None:
    room = QueueRoom()
    assert room.look(0.0, running=20, cap=64, oldest_waiting_s=None) is None
    assert room.look(1.0, running=20, cap=64, oldest_waiting_s=WAITED_S / 2) is None
    assert room.look(2.0, running=64, cap=64, oldest_waiting_s=9.0) is None


def test_it_is_remembered_for_some_seconds_after_the_queue_is_gone() -> None:
    room = QueueRoom()
    room.look(0.0, running=20, cap=64, oldest_waiting_s=1.0)
    assert room.look(KEPT_S, running=19, cap=64, oldest_waiting_s=None) == 20
    assert room.look(KEPT_S + 0.1, running=19, cap=64, oldest_waiting_s=None) is None
