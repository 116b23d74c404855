"""One load through every contender: the recorded stock run, its replays, and the live runs.

Belongs here: which contenders there are and what is compared with what. Never: how any of them works.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bench.hotcold import live
from bench.hotcold.belady import Belady
from bench.hotcold.governed import with_tiers
from bench.hotcold.live import LiveResult
from bench.hotcold.loads import Load
from bench.hotcold.record import Recorder, Recording
from bench.hotcold.replay import Replay, hit_rate

RATIOS = {"tier30": 0.3, "tier40": 0.4}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One load's figures. Rates are shares of prompt tokens, by contender."""

    load: Load
    replayed: dict[str, float]
    """`lru`, `tier30`, `tier40`, `belady`: on the stock run's events."""
    live: dict[str, LiveResult]
    """`lru`, `tier30`, `tier40`: each on its own engine."""
    replay_is_exact: bool
    """Whether the replayed LRU hit what the stock run did, request by request."""

    @property
    def rps_ratio(self) -> float:
        """Live requests/s of two tiers at 0.4 over stock, on the virtual clock."""
        return self.live["tier40"].rps / self.live["lru"].rps

    def to_json(self) -> dict[str, object]:
        """Plain types only."""
        block_tokens = live.BLOCK_TOKENS
        return {
            **{name: round(rate, 5) for name, rate in self.replayed.items()},
            "rps_ratio": round(self.rps_ratio, 4),
            "live": {name: round(run.hit_rate, 5) for name, run in self.live.items()},
            "rps": {name: round(run.rps, 4) for name, run in self.live.items()},
            "requests": self.live["lru"].requests,
            "hot_set_blocks": self.load.hot_blocks(block_tokens),
            "replay_is_exact": self.replay_is_exact,
            "wrong_answers": sum(run.wrong_answers for run in self.live.values()),
        }


def hold(load: Load, requests: int, seed: int) -> Outcome:
    """Runs one load through all contenders."""
    recordings: list[Recording] = []
    runs = {"lru": live.run(load, requests, seed, lambda engine: recordings.append(Recorder(engine).recording))}
    (recording,) = recordings
    stock = Replay(recording, 0.0).run()
    replayed = {"lru": hit_rate(recording, stock)}
    for name, ratio in RATIOS.items():
        replayed[name] = hit_rate(recording, Replay(recording, ratio).run())
        runs[name] = live.run(load, requests, seed, partial(with_tiers, ratio=ratio))
    replayed["belady"] = hit_rate(recording, Belady(recording).run())
    return Outcome(load, replayed, runs, replay_is_exact=stock == recording.hit_blocks)
