"""The purge of one engine core: one at a time, a piece before each step and at each governor call.

Here: the purge under way and the report of the last one. Never here: which blocks go (cache/purge.py), or who asks.

A piece is under 2 ms of the engine's thread. While the engine works, each step drives one; while it is idle nothing
ticks, so each governor call does: the API process that asked calls until it is done, and if it dies, the call that
every API process makes once a second ends it.
"""

from __future__ import annotations

import time
from typing import Any

from . import errors
from .cache.pools import pools_of
from .cache.purge import Purge
from .hot_tier import HotTier
from .knobs.base import NATIVE, Engine, Support
from .log import get_logger
from .preempt import preempt_newest, preempt_support

PART = "purge"
"""The name of the purge's part of the schedule() hook."""


class Purging:
    """What this engine core can purge, is purging and has purged."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.support = _support(engine.scheduler)
        self.preempt_support = _safe_preempt_support(engine)
        self._purge: Purge | None = None  # the one under way
        self._number = 0
        self._ratio = 0.0
        self._preempted = 0
        self._last: dict[str, Any] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a purge has begun and is not done."""
        return self._purge is not None

    @property
    def evicting(self) -> bool:
        """True while a purge empties blocks: an eviction that happens now is not the load's."""
        return self._purge is not None and self._purge.evicting

    def preempt(self, count: int) -> int:
        """Preempt the newest `count` running requests; how many they were. If vLLM fails in it, that was the last."""
        try:
            return preempt_newest(self._engine.scheduler, count)
        except Exception as error:
            self.preempt_support = Support("off", f"it failed once ({errors.shown(error)})")
            raise

    def start(self, ratio: float, preempted: int) -> None:
        """Begin a purge and do its first piece. `preempted` is for the report."""
        tier = self._engine.share(HotTier)
        self._number += 1
        self._ratio, self._preempted = ratio, preempted
        self._purge = Purge(pools_of(self._engine.scheduler), ratio, tier.block_bytes)
        self._last = self._report(self._purge)
        self.advance()
        if self.under_way:
            self._engine.hook.add(PART, self.advance)

    def advance(self) -> None:
        """Do one piece of the purge under way, if there is one."""
        purge = self._purge
        if purge is None:
            return
        more = purge.piece(time.perf_counter)
        self._last = self._report(purge)
        if not more:
            self._end("done")

    def fail(self, why: str) -> None:
        """Give the purge under way up, and take no further one."""
        self.support = Support("off", why)
        self.interrupt(why)

    def interrupt(self, why: str) -> None:
        """End the purge under way, if there is one; another may follow."""
        if self._purge is not None:
            self._last = {**self._report(self._purge), "failed": why}
            self._end(why)

    def describe(self) -> dict[str, Any]:
        """The object `purge` of docs/rpc.md."""
        return {
            "support": self.support.level,
            "reason": self.support.reason,
            "preempt": {"support": self.preempt_support.level, "reason": self.preempt_support.reason},
            "last": self._last,
        }

    def _end(self, how: str) -> None:
        self._purge = None
        self._engine.hook.remove(PART)
        report = self._last or {}
        get_logger().info(
            "governor purge: engine=%s number=%d ratio=%g blocks=%s bytes=%s microseconds=%s preempted=%d: %s",
            self._engine.index,
            self._number,
            self._ratio,
            report.get("blocks"),
            report.get("bytes"),
            report.get("microseconds"),
            self._preempted,
            how,
        )

    def _report(self, purge: Purge) -> dict[str, Any]:
        now = purge.report()
        return {
            "number": self._number,
            "ratio": self._ratio,
            "preempted": self._preempted,
            "done": now.done,
            "failed": None,
            "blocks": now.blocks,
            "bytes": now.bytes,
            "microseconds": now.microseconds,
            "pieces": now.pieces,
            "longest_us": now.longest_us,
        }


def _support(scheduler: Any) -> Support:
    try:
        if not any(pool.enable_caching for pool in pools_of(scheduler)):
            return Support("off", "prefix caching is off, so no free block has anything cached in it")
    except Exception as error:  # an unknown vLLM
        return Support("off", f"this vLLM's block pool is not one this plugin knows ({errors.shown(error)})")
    return NATIVE


def _safe_preempt_support(engine: Engine) -> Support:
    try:
        return preempt_support(engine.scheduler, engine.vllm_config)
    except Exception as error:
        return Support("off", f"this vLLM's scheduler is not one this plugin knows ({errors.shown(error)})")
