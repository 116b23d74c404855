"""The wrapper around one scheduler's schedule().

Here: putting it in place, running the parts that hang on it before and after each step, taking out a part that raises.
Never here: what a part does. It is installed on the instance, never on the class, and only when first needed.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Before = Callable[[], None]
After = Callable[[Any], None]
"""Takes what schedule() returned, vLLM's SchedulerOutput; it must not change it, nor keep it past the step's end."""
OnFailure = Callable[[str, BaseException], None]
Method = Callable[..., Any]


def wrap(method: Method, parameters: tuple[str, ...], make: Callable[[Method], Method]) -> Method:
    """What `make` makes of a method, a function of `parameters`, for a method that takes just those.

    Around any other it passes on whatever it is called with, and costs some tenths of a microsecond more: taking
    `*args, **kwargs` is what a wrapper of so little pays most for.
    """
    try:
        found = inspect.signature(method).parameters
        known = tuple(found) == parameters and all(one.kind is one.POSITIONAL_OR_KEYWORD for one in found.values())
    except (TypeError, ValueError):
        known = False
    if known:
        return make(method)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        named = {name: kwargs[name] for name in parameters if name in kwargs}
        return make(lambda *_: method(*args, **kwargs))(*args[: len(parameters)], **named)

    return wrapper


@dataclass(slots=True)
class _Part:
    name: str
    before: Before | None
    after: After | None
    inner: bool
    when: float
    on: bool = True  # false once it was removed or replaced


class ScheduleHook:
    """Runs named parts before and after each call of `scheduler.schedule`.

    A part that raises is taken out, both halves of it, and reported through `on_failure(name, error)`, which also has
    to undo what its first half did; the step goes on as if the part had not been there. When no part is left the
    scheduler gets its own method back. `clock` gives monotonic seconds.
    """

    __slots__ = (
        "_clock", "_first", "_first_due", "_on_failure", "_parts", "_previous", "_scheduler", "_taken_out", "_then",
        "_then_alone", "_wrapper", "began",
    )  # fmt: skip

    def __init__(self, scheduler: Any, on_failure: OnFailure, clock: Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self.began = clock()
        """When the last step began, before anything of ours ran."""
        self._on_failure = on_failure
        self._parts: dict[str, _Part] = {}
        self._first: tuple[_Part, ...] = ()  # those with a half to run before a step, in order
        self._first_due = math.inf  # the earliest moment at which one of them has to run
        self._then: tuple[_Part, ...] = ()  # those with a half to run after it, in order
        self._then_alone: _Part | None = None  # the only one of those
        self._taken_out: set[str] = set()
        self._wrapper: Method | None = None
        self._previous: Method | None = None

    @property
    def installed(self) -> bool:
        """True while our wrapper is what the scheduler calls."""
        return self._wrapper is not None and vars(self._scheduler).get("schedule") is self._wrapper

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that hang in it, in the order they were added."""
        return tuple(self._parts)

    def add(
        self,
        name: str,
        before: Before | None = None,
        after: After | None = None,
        inner: bool = False,
        when: float = -math.inf,
    ) -> None:
        """Run `before` before each step from now on, and `after` with its SchedulerOutput after each that succeeded.

        A second part of the same name replaces the first. An `inner` part is nearest to the step: its `before` runs
        after those of all others, its `after` before theirs. Its `before` does not run before the moment `when`
        (seconds on the hook's clock): waiting for one costs a step next to nothing. When a part is added or removed
        while a step is under way, what is left of that step already obeys. A name that was taken out because it raised
        stays out.
        Raises whatever the scheduler raises when it does not let its method be wrapped.
        """
        if name in self._taken_out:
            return
        if self._wrapper is None:
            self._install()
        self._switch_off(name)
        self._parts[name] = _Part(name, before, after, inner, when)
        self._sort()

    def remove(self, name: str) -> None:
        """Stop running a part; with the last one the wrapper goes too."""
        if self._switch_off(name):
            del self._parts[name]
            self._sort()
        if not self._parts:
            self._uninstall()

    def _switch_off(self, name: str) -> bool:
        part = self._parts.get(name)
        if part is not None:
            part.on = False
        return part is not None

    def _sort(self) -> None:
        parts = tuple(self._parts.values())
        outer = tuple(part for part in parts if not part.inner)
        inner = tuple(part for part in parts if part.inner)
        self._first = tuple(part for part in outer + inner if part.before is not None)
        self._first_due = min((part.when for part in self._first), default=math.inf)
        self._then = tuple(part for part in inner + outer if part.after is not None)
        self._then_alone = self._then[0] if len(self._then) == 1 else None

    def _install(self) -> None:
        # Set only when somebody else had wrapped this instance before us: what to put back.
        self._previous = vars(self._scheduler).get("schedule")
        wrapper = wrap(self._scheduler.schedule, ("throttle_prefills",), self._around)
        self._scheduler.schedule = wrapper
        self._wrapper = wrapper

    def _around(self, original: Method) -> Method:
        clock = self._clock

        def schedule(throttle_prefills: bool = False) -> Any:
            now = self.began = clock()
            if now >= self._first_due:
                self._run_first(now)
            output = original(throttle_prefills)
            alone = self._then_alone
            if alone is not None:  # the usual case: nothing to go through
                try:
                    alone.after(output)  # type: ignore[misc]  # _sort saw to it that it has one
                except Exception as error:  # ours to catch: serving goes on whatever a part does
                    self._drop(alone.name, error)
            else:
                self._run_then(output)
            return output

        return schedule

    def _run_first(self, now: float) -> None:
        for part in self._first:
            # A part before it may have removed it: then its second half will not run, so neither may the first.
            if now >= part.when and part.on:
                try:
                    part.before()  # type: ignore[misc]  # _sort saw to it that it has one
                except Exception as error:  # ours to catch: serving goes on whatever a part does
                    self._drop(part.name, error)

    def _run_then(self, output: Any) -> None:
        for part in self._then:
            if part.on:
                try:
                    part.after(output)  # type: ignore[misc]  # as above
                except Exception as error:
                    self._drop(part.name, error)

    def _uninstall(self) -> None:
        # When somebody wrapped our wrapper since, it stays where it is and calls through with no part left.
        if self.installed:
            del self._scheduler.schedule
            if self._previous is not None:
                self._scheduler.schedule = self._previous
            self._wrapper = None

    def _drop(self, name: str, error: BaseException) -> None:
        self._taken_out.add(name)
        self.remove(name)
        try:
            self._on_failure(name, error)
        except Exception:
            return  # the report failed too; the part is gone, which is what matters
