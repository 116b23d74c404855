"""What the device did, whether it is emulated or this machine's CPU.

Belongs here: counting steps and their time where no emulated device counts them. Never: how long a step should take.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from bench.emulated_gpu.inprocess import InProcessEngine


class Device(Protocol):
    """The emulated GPU's executor, or `Measured`."""

    speed: float

    @property
    def steps(self) -> int: ...

    @property
    def busy_s(self) -> float: ...

    @property
    def computing_s(self) -> float: ...


class Step(NamedTuple):
    """One step with tokens in it."""

    tokens: int
    context_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Used:
    """The device over a whole run."""

    busy_s: float = 0.0
    computing_s: float = 0.0
    """Of these seconds, those that tokens took (bench/emulated_gpu/power.py)."""
    taken: tuple[Step, ...] = ()
    """Each step, where it was measured and not played."""


class Measured:
    """The model on this machine's CPU, one batch at a time: a step takes what it takes, scheduling included."""

    def __init__(self, engine: InProcessEngine) -> None:
        self.taken: list[Step] = []
        self.busy_s = 0.0
        self.speed = 1.0
        self._engine = engine
        self._handed: tuple[int, int] | None = None
        inner = engine.executor.execute_model

        def execute_model(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
            cached = scheduled.scheduled_cached_reqs
            context = sum(new.num_computed_tokens for new in scheduled.scheduled_new_reqs)
            self._handed = scheduled.total_num_scheduled_tokens, context + sum(cached.num_computed_tokens)
            return inner(scheduled, *args, **kwargs)

        engine.executor.execute_model = execute_model

    @property
    def steps(self) -> int:
        """Steps with tokens in them so far."""
        return len(self.taken)

    @property
    def computing_s(self) -> float:
        """A CPU is not told apart: all of its time."""
        return self.busy_s

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around one turn of the engine's loop."""
        began_s = self._engine.clock.now_s()
        yield
        if self._handed is not None and self._handed[0]:
            self.taken.append(Step(*self._handed, self._engine.clock.now_s() - began_s))
            self.busy_s += self.taken[-1].seconds
        self._handed = None
