"""The wrapper around one scheduler's schedule().

Here: putting it in place, running the parts that hang on it before each step, taking out a part that raises.
Never here: what a part does. It is installed on the instance, never on the class, and only when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Part = Callable[[], None]
OnFailure = Callable[[str, BaseException], None]


class ScheduleHook:
    """Runs named parts before each call of `scheduler.schedule`.

    A part that raises is taken out and reported through `on_failure(name, error)`; the step goes on as if it had not
    been there. When no part is left the scheduler gets its own method back.
    """

    def __init__(self, scheduler: Any, on_failure: OnFailure) -> None:
        self._scheduler = scheduler
        self._on_failure = on_failure
        self._parts: dict[str, Part] = {}
        self._taken_out: set[str] = set()
        self._wrapper: Callable[..., Any] | None = None
        self._previous: Callable[..., Any] | None = None

    @property
    def installed(self) -> bool:
        """True while our wrapper is what the scheduler calls."""
        return self._wrapper is not None and vars(self._scheduler).get("schedule") is self._wrapper

    def add(self, name: str, part: Part) -> None:
        """Run `part` before each step from now on. A second part of the same name replaces the first.

        A name that was taken out because it raised stays out.
        Raises whatever the scheduler raises when it does not let its method be wrapped.
        """
        if name in self._taken_out:
            return
        if self._wrapper is None:
            self._install()
        self._parts[name] = part

    def remove(self, name: str) -> None:
        """Stop running a part; with the last one the wrapper goes too."""
        self._parts.pop(name, None)
        if not self._parts:
            self._uninstall()

    def _install(self) -> None:
        # Set only when somebody else had wrapped this instance before us: what to put back.
        self._previous = vars(self._scheduler).get("schedule")
        original = self._scheduler.schedule
        parts = self._parts

        def schedule(*args: Any, **kwargs: Any) -> Any:
            for name, part in tuple(parts.items()):
                try:
                    part()
                except Exception as error:  # ours to catch: serving goes on whatever a part does
                    self._drop(name, error)
            return original(*args, **kwargs)

        self._scheduler.schedule = schedule
        self._wrapper = schedule

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
