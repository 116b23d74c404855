"""What a knob is.

Here: the protocol each knob follows, and the checks that several of them share. Never here: a particular knob.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from vllm_governor_engine import errors
from vllm_governor_engine.api_processes import ApiProcesses
from vllm_governor_engine.hooks import Before, ScheduleHook

Value = int | float
"""A knob's value. Each knob has one type and keeps to it: int (a bool is one, for a switch) or float."""

Values = Mapping[str, Value]
"""Values by knob name: of all knobs that are not off."""


@dataclass(frozen=True)
class Support:
    """Whether this vLLM has the knob: `native`, `limited` (reason: how) or `off` (reason: why)."""

    level: str
    reason: str | None = None

    @property
    def off(self) -> bool:
        """True when the knob can be neither read nor set."""
        return self.level == "off"


NATIVE = Support("native")


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest value a knob may be set to, both allowed, and why the smallest is not smaller."""

    low: Value
    high: Value
    why_low: str = ""
    off: Value | None = None
    """One more value that is allowed, outside of them: what switches the knob's effect off. None: there is no such."""

    def allow(self, value: Value) -> bool:
        """Whether the knob may be set to that."""
        return self.low <= value <= self.high or (self.off is not None and value == self.off)


_Shared = TypeVar("_Shared")


def _nothing_to_hook() -> ScheduleHook:
    return ScheduleHook(None, lambda name, error: None)


@dataclass(frozen=True)
class Engine:
    """The border to vLLM: the live objects knobs work on, untyped as vLLM is, and a way to act around each step."""

    scheduler: Any
    vllm_config: Any
    index: int = 0
    hook: ScheduleHook = field(default_factory=_nothing_to_hook)
    """Runs parts before and after each schedule(). A part bears the name its knobs give as `part`."""
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    api_processes: ApiProcesses = field(default_factory=ApiProcesses)
    """What is known of the API processes in front of this engine core."""
    _shared: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def before_each_step(self, name: str, part: Before) -> None:
        """Run a part before each step from now on."""
        self.hook.add(name, part)

    def share(self, build: Callable[[Engine], _Shared]) -> _Shared:
        """What `build(engine)` makes, made once: for knobs that turn one and the same mechanism."""
        if build not in self._shared:
            self._shared[build] = build(self)
        return cast(_Shared, self._shared[build])

    @property
    def running(self) -> int:
        """Number of requests that are running now."""
        return len(self.scheduler.running)

    @property
    def waiting(self) -> int:
        """Number of requests that wait to be admitted."""
        counts = getattr(self.scheduler, "get_request_counts", None)
        if counts is not None:
            return int(counts()[1])
        return len(self.scheduler.waiting)


class Knob(Protocol):
    """One live setting of the engine. Built once per engine core, at the first governor call.

    When `support` is off nothing else of it is used. `startup` is the envelope's edge: `bounds` never
    goes above it.
    """

    name: str
    part: str
    """The part of the schedule() hook it lives by: when that fails, so has the knob. Its own name, or shared."""

    @property
    def support(self) -> Support:
        """How far this vLLM carries the knob."""

    @property
    def startup(self) -> Value:
        """The value vLLM was started with."""

    def __init__(self, engine: Engine) -> None:
        """Probe the live engine and remember the start-up value."""

    def read(self) -> Value:
        """The value in force."""

    def check_type(self, value: object) -> Value:
        """The value as one of this knob's, or `wrong_type`."""

    def bounds(self, plan: Values, running: int) -> Bounds:
        """The bounds in a state where all knobs have the values of `plan` and `running` requests are running."""

    def apply(self, value: Value) -> None:
        """Put a checked value in force, between two steps. Any exception switches the knob off."""

    def release(self) -> None:
        """Leave the engine in a state that is safe without this knob's help, since a part of it failed."""


class OffKnob:
    """Stands where a knob would: this vLLM lacks it, or it failed and was switched off."""

    startup: Value = 0

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.support = Support("off", why)


def check_int(name: str, value: object) -> int:
    """An integer as it came from JSON; true and 32.0 are none."""
    if type(value) is not int:
        raise errors.wrong_type(name, value, "an integer", knob=name)
    return value


def check_number(name: str, value: object) -> float:
    """A finite number as it came from JSON; true is none."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int:
        return float(value) if abs(value) < 2**53 else value  # beyond that a float may not hold it, nor any bound
    raise errors.wrong_type(name, value, "a number", knob=name)


def check_switch(name: str, value: object) -> bool:
    """True or false; 1 and 0 are taken for them."""
    if type(value) is bool or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise errors.wrong_type(name, value, "true or false", knob=name)


def read_int(owner: Any, attribute: str) -> int:
    """An integer attribute of vLLM's, as a plain int; a NumPy integer in an answer would kill vLLM's output thread."""
    return int(getattr(owner, attribute))


def reads_int(owner: Any, attribute: str) -> bool:
    """True when the attribute is there and holds a whole number."""
    try:
        value = getattr(owner, attribute)
        return not isinstance(value, bool) and int(value) == value
    except Exception:
        return False
