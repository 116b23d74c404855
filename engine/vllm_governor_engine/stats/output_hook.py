"""The wrapper around one scheduler's update_from_output(), which ends a step.

Here: putting it in place and taking it away. Never here: what is done then. Installed on the instance, never on the
class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm_governor_engine.hooks import Method, wrap

_NAME = "update_from_output"
_PARAMETERS = ("scheduler_output", "model_runner_output")


class OutputHook:
    """Puts `make(update_from_output)` in the method's place, a function of the same parameters."""

    def __init__(self, scheduler: Any, make: Callable[[Method], Method]) -> None:
        self._scheduler = scheduler
        self._make = make
        self._wrapper: Method | None = None
        self._previous: Method | None = None

    def install(self) -> None:
        """Wrap the method. Raises what the scheduler raises when it does not let that happen."""
        self._previous = vars(self._scheduler).get(_NAME)
        wrapper = wrap(self._scheduler.update_from_output, _PARAMETERS, self._make)
        self._scheduler.update_from_output = wrapper
        self._wrapper = wrapper

    def uninstall(self) -> None:
        """Give the method back. Where somebody wrapped ours since, it stays."""
        wrapper, self._wrapper = self._wrapper, None
        if wrapper is not None and vars(self._scheduler).get(_NAME) is wrapper:
            del self._scheduler.update_from_output
            if self._previous is not None:
                self._scheduler.update_from_output = self._previous
