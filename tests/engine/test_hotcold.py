"""Laws of the cache bench: the replay is the stock run, the optimum is none worse than anybody, figures are plain.

Belongs here: the bench's own honesty. Never: a goal.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("vllm")

from bench.hotcold import contest, live, picture
from bench.hotcold.belady import Belady
from bench.hotcold.loads import LOADS, Load
from bench.hotcold.record import Admission, Event, Recording


def _recording(pool_blocks: int, asked: list[str]) -> Recording:
    """One request after the other; each letter is a block of one token, and a last block is never looked up."""
    recording = Recording(pool_blocks, block_tokens=1)
    for number, word in enumerate(asked):
        chain = [word[: place + 1].encode() for place in range(len(word))]
        recording.admissions.append(Admission(len(word) + 1, chain, counted=True))
        recording.events += [
            Event("lookup", number),
            Event("grow", number, len(word), len(word)),
            Event("free", number),
        ]
    return recording


def test_the_optimum_keeps_what_is_asked_for_soonest() -> None:
    assert Belady(_recording(3, ["a", "b", "c", "a", "b"])).run() == [0, 0, 0, 1, 0]
    assert Belady(_recording(4, ["a", "b", "c", "a", "b"])).run() == [0, 0, 0, 1, 1]


def test_the_optimum_gives_up_the_deepest_of_blocks_needed_at_the_same_time() -> None:
    # abc is asked for again; of its three blocks one has to make room, and the beginning is worth keeping.
    assert Belady(_recording(4, ["abc", "x", "abc"])).run() == [0, 0, 2]


def test_the_optimum_gives_up_what_is_never_asked_for_before_anything_else() -> None:
    assert Belady(_recording(5, ["ab", "xy", "pq", "ab"])).run() == [0, 0, 0, 2]


@pytest.mark.parametrize("load", LOADS, ids=[load.name for load in LOADS])
def test_the_replay_is_exactly_the_stock_run_and_nobody_beats_the_optimum(load: Load) -> None:
    outcome = contest.hold(load, 160, seed=3)
    assert outcome.replay_is_exact
    assert outcome.replayed["lru"] == outcome.live["lru"].hit_rate
    assert outcome.replayed["belady"] >= max(outcome.replayed.values())
    assert all(run.requests == outcome.live["lru"].requests for run in outcome.live.values())
    figures = json.loads(json.dumps(outcome.to_json()))
    assert {"lru", "tier30", "tier40", "belady", "rps_ratio"} <= figures.keys()
    assert figures["wrong_answers"] == 0
    assert "<svg" in picture.draw([outcome], "")


def test_the_same_seed_makes_the_same_run() -> None:
    assert live.run(LOADS[1], 64, 9) == live.run(LOADS[1], 64, 9)
