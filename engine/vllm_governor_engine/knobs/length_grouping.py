"""The knob `length_grouping`: whether the requests of an admission window go in order of their prompt length.

Here: the knob. Never here: the sorting; that is the admission window's (window.py). Without a window
(`admission_delay_ms` 0) it does nothing.
"""

from __future__ import annotations

from vllm_governor_engine.window import PART, AdmissionWindow, groupable

from .base import NATIVE, Bounds, Engine, Support, Value, Values, check_switch

NAME = "length_grouping"


class LengthGrouping:
    """The order of a window, true or false; see the module."""

    name = NAME
    part = PART  # no window, no grouping

    def __init__(self, engine: Engine) -> None:
        self._window = engine.share(AdmissionWindow)
        self.support = self._window.support if self._window.support.off else NATIVE
        if not self.support.off and not groupable(engine.scheduler):
            why = "the waiting queue is not first come, first served; its order has another meaning"
            self.support = Support("off", why)
        self.startup: Value = False

    def read(self) -> Value:
        """Whether windows are ordered."""
        return self._window.grouping

    def check_type(self, value: object) -> Value:
        """True or false."""
        return check_switch(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """False or true."""
        return Bounds(False, True)

    def apply(self, value: Value) -> None:
        """Order the windows that end from now on, or no more."""
        self._window.grouping = bool(value)

    def release(self) -> None:
        """First come, first served."""
        self._window.grouping = False
