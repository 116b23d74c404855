"""How many requests the engine holds at once, where that is fewer than the cap lets in.

Here: telling from a look a second that something else (token budget, KV cache) is what those who wait wait for. Never
here: the queue limit, which is set in the API processes (api/queue_limit.py).
"""

from __future__ import annotations

from collections import deque

WAITED_S = 0.5
"""Who has waited so long although the cap is not reached does not merely wait for the next step."""
KEPT_S = 5.0
"""Looks that count: with nobody let in to wait, nobody waits, and the cap would be thought free each other second."""


class QueueRoom:
    """Looks at the queue, and remembers the latest that found it held up. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._held_up: deque[tuple[float, int]] = deque()

    def look(self, now: float, running: int, cap: int, oldest_waiting_s: float | None) -> int | None:
        """The most that ran at once while others waited in spite of the cap; None: nothing but the cap is known."""
        while self._held_up and self._held_up[0][0] < now - KEPT_S:
            self._held_up.popleft()
        if running < cap and oldest_waiting_s is not None and oldest_waiting_s >= WAITED_S:
            self._held_up.append((now, running))
        return max((most for _, most in self._held_up), default=None)
