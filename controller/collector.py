"""Python's garbage collector, kept out of the ticks' way.

A full collection walks every object and nothing else runs meanwhile: a tenth of a second with what the libraries bring
along, or with thousands of alerts, and it comes whenever it likes. So what is there at the start is never walked again,
and full collections come right after a tick. Belongs here: that. Never: what is collected.
"""

from __future__ import annotations

import gc

from controller.alerting.ticked import Ticked

EVERY_S = 600.0
YOUNG, MIDDLE = 700, 10
"""Python's own thresholds of the collections that take microseconds."""
NEVER = 2**31 - 1


class Collector:
    """Called after each tick."""

    def __init__(self) -> None:
        self._collected_s: float | None = None

    def settle(self) -> None:
        """All is loaded: what there is stays as long as the daemon."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, MIDDLE, NEVER)

    def __call__(self, ticked: Ticked) -> None:
        """Collect, if it is time again."""
        if self._collected_s is None or ticked.now_s - self._collected_s >= EVERY_S:
            if self._collected_s is not None:
                gc.collect()
            self._collected_s = ticked.now_s
