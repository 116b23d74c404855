"""What a knob is.

Here: the protocol each knob follows, and the checks that several of them share. Never here: a particular knob.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vllm_governor_engine import errors

Value = int
"""The type of a knob's value. (One type so far; a knob of another widens this.)"""

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


@dataclass(frozen=True)
class Engine:
    """The border to vLLM: the live objects knobs work on, untyped as vLLM is, and a way to act before each step."""

    scheduler: Any
    vllm_config: Any
    index: int = 0
    before_each_step: Callable[[str, Callable[[], None]], None] = lambda name, part: None
    """Called with a name and a part; the part runs before each schedule() from then on."""

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
    support: Support
    startup: Value

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
