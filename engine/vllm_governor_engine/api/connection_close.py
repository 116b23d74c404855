"""The knob `connection_close` in this process.

Here: switching the gate's header. Never here: when that is wanted; a daemon in a rollback sets the knob.
"""

from __future__ import annotations

from vllm_governor_engine.knobs.api_side import CLOSE

from .gate import Gate
from .parts import Offer, Situation, off


class ConnectionClose:
    """`Connection: close` on every answer."""

    name = CLOSE

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def offer(self) -> Offer:
        """0 or 1, wherever the gate fits."""
        why = self._gate.unusable()
        return off(why) if why else Offer(startup=0, low=0, high=1)

    def apply(self, value: int | None, situation: Situation) -> None:
        """From the next answer on; it ends the connection it goes out on."""
        self._gate.close_connections(bool(value))

    def release(self) -> None:
        """As usual."""
        self._gate.close_connections(False)
