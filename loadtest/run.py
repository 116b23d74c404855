"""One stepped run: arrivals at random moments, a look every second, and what it came to.

Open loop: requests leave when they are due, however many are unanswered, as independent people send them (a Poisson
process). Belongs here: the order of that. Never: arithmetic (ledger.py, knee.py), the command line (stepped.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import gevent
from gevent.pool import Pool

from loadtest.answer import Answer
from loadtest.ledger import Account
from loadtest.memory import Memory, MemoryUnknown
from loadtest.plan import BLIND, HIGHEST, MEMORY, STOPPED, Limits, Plan

LOOK_S = 1.0
BLIND_S = 15.0
"""Memory that cannot be read for so long is unknown, and a test that watches it cannot go on."""
DRAIN_S = 15.0
"""After the last request, for the answers."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is given."""

    plan: Plan
    limits: Limits
    memory: Memory | None
    """None: not watched."""
    max_open: int
    """Unanswered requests at a time; past it a request that is due counts as failed."""
    seed: int


@dataclass(slots=True)
class Run:
    """`accounts` grow step by step; `ended` says why the run is over, None while it goes on."""

    settings: Settings
    send: Callable[[float], Answer]
    """Sends one request that was due at this moment (`time.perf_counter()`), answers when it is answered."""
    tell: Callable[[Account], None]
    """Called at the end of each step."""
    accounts: list[Account] = field(default_factory=list)
    ended: str | None = None
    over: bool = False
    """Nothing is unanswered any more."""
    _seen_s: float = 0.0

    def go(self) -> None:
        """The whole run; returns when nothing is unanswered any more."""
        draw, pool = random.Random(self.settings.seed), Pool(self.settings.max_open)
        self._seen_s = time.perf_counter()
        from_s = self._seen_s
        try:
            for step in self.settings.plan.steps():
                account = Account(step)
                self.accounts.append(account)
                from_s = self._step(account, from_s, draw, pool)
                self.tell(account)
                if self.ended is not None:
                    break
            else:
                self.ended = f"{HIGHEST}: {self.accounts[-1].step.qps:g} QPS were offered and no limit was met"
            pool.join(timeout=DRAIN_S)
        finally:
            pool.kill(block=False)
            self.settle()

    def settle(self) -> str:
        """Close the accounts; answers why the run ended. Idempotent."""
        if self.ended is None:
            self.ended = f"{STOPPED} at {self.accounts[-1].step.qps:g} QPS" if self.accounts else STOPPED
        for account in self.accounts:
            account.give_up()
        self.over = True
        return self.ended

    def _step(self, account: Account, from_s: float, draw: random.Random, pool: Pool) -> float:
        """Answers when the next step begins."""
        step, due_s = account.step, from_s
        look_s = from_s + LOOK_S
        until_s = from_s + step.seconds
        while self.ended is None:
            due_s += draw.expovariate(step.qps)
            while self.ended is None and look_s <= min(due_s, until_s):
                _sleep_until(look_s)
                self._look(account, from_s)
                look_s += LOOK_S
            if due_s >= until_s:
                break
            if self.ended is None:
                _sleep_until(due_s)
                self._begin(account, due_s, pool)
        if self.ended is None:
            _sleep_until(until_s)
        account.lasted_s = time.perf_counter() - from_s
        self._judge(account, at_end=True)
        return until_s

    def _begin(self, account: Account, due_s: float, pool: Pool) -> None:
        if pool.full():
            account.refuse()
        else:
            pool.spawn(self._one, account, due_s)

    def _one(self, account: Account, due_s: float) -> None:
        number = account.begin(due_s, time.perf_counter())
        account.end(number, self.send(due_s))

    def _look(self, account: Account, from_s: float) -> None:
        account.lasted_s = time.perf_counter() - from_s
        gevent.spawn(self._read_memory, account)
        self._judge(account, at_end=False)

    def _judge(self, account: Account, *, at_end: bool) -> None:
        if self.ended is None:
            self.ended = account.met(self.settings.limits, time.perf_counter(), at_end=at_end)

    def _read_memory(self, account: Account) -> None:
        """Beside the arrivals, which must not wait for it."""
        if self.settings.memory is None:
            return
        try:
            reading = self.settings.memory.read()
        except MemoryUnknown as error:
            if time.perf_counter() - self._seen_s > BLIND_S and self.ended is None:
                self.ended = f"{BLIND} for {BLIND_S:g} s: {error}"
            return
        self._seen_s = time.perf_counter()
        account.memory_peak_ratio = max(account.memory_peak_ratio or 0.0, reading.usage_ratio)
        if reading.out is not None and self.ended is None:
            self.ended = f"{MEMORY}: {reading.out}"


def _sleep_until(moment_s: float) -> None:
    gevent.sleep(max(0.0, moment_s - time.perf_counter()))
