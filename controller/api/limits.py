"""How much one peer may ask.

Belongs here: counting requests by peer. Never: how many connections there are (listening.py), a body's length.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from controller.api.problem import Problem

BURST_S = 2.0
"""A peer that was quiet may ask so many seconds' worth at once."""
CHANGE = 20.0
"""A change counts as so many requests: each takes its turn with the ticks."""
MOST_PEERS = 4096


class Limits:
    """A bucket of tokens for each peer, refilled all the time."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, peer: str, *, changes: bool) -> None:
        """Count one request. Raises Problem when the peer has none left."""
        cost = CHANGE if changes else 1.0
        now_s, most = self._clock(), max(self._per_s * BURST_S, CHANGE)
        left, at_s = self._buckets.pop(peer, (most, now_s))
        left = min(left + (now_s - at_s) * self._per_s, most)
        enough = left >= cost
        self._buckets[peer] = (left - cost if enough else left, now_s)
        if len(self._buckets) > MOST_PEERS:
            self._buckets.popitem(last=False)
        if not enough:
            wait_s = math.ceil((cost - left) / self._per_s)
            reason = f"{peer} asks more than api.requests_per_s = {self._per_s:g} (a change counts as {CHANGE:g})"
            raise Problem(
                429, "take this call now", reason, f"ask again in {wait_s} s", headers={"Retry-After": str(wait_s)}
            )
