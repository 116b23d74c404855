"""The wrapper around one scheduler's update_from_output(), which ends a step.

Here: putting it in place and taking it away. Never here: what is done then. Installed on the instance, never on the
class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NAME = "update_from_output"


class OutputHook:
    """Calls `ended(scheduler_output, model_output)` after each update_from_output(); that must not raise."""

    def __init__(self, scheduler: Any, ended: Callable[[Any, Any], None]) -> None:
        self._scheduler = scheduler
        self._ended = ended
        self._wrapper: Callable[..., Any] | None = None
        self._previous: Callable[..., Any] | None = None
        self._stop: Callable[[], None] | None = None

    def install(self) -> None:
        """Wrap the method. Raises what the scheduler raises when it does not let that happen."""
        self._previous = vars(self._scheduler).get(_NAME)
        original = self._scheduler.update_from_output
        ended: Callable[[Any, Any], None] | None = self._ended

        def update_from_output(scheduler_output: Any, model_runner_output: Any, *args: Any, **kwargs: Any) -> Any:
            if args or kwargs:
                outputs = original(scheduler_output, model_runner_output, *args, **kwargs)
            else:  # the usual case, for half the price
                outputs = original(scheduler_output, model_runner_output)
            if ended is not None:
                ended(scheduler_output, model_runner_output)
            return outputs

        def stop() -> None:
            nonlocal ended
            ended = None

        self._stop = stop
        self._scheduler.update_from_output = update_from_output
        self._wrapper = update_from_output

    def uninstall(self) -> None:
        """Give the method back. Where somebody wrapped ours since, it stays and only calls through."""
        wrapper, self._wrapper = self._wrapper, None
        if self._stop is not None:
            self._stop()
        if wrapper is not None and vars(self._scheduler).get(_NAME) is wrapper:
            del self._scheduler.update_from_output
            if self._previous is not None:
                self._scheduler.update_from_output = self._previous
