"""Energy of the engine's GPUs, from NVML's counters: a total that never falls, and energy per token.

Belongs here: what is kept of energy counters over ticks. Never: their differences (cards.py); power times time, which
would guess what happened between ticks (the ledger does, and says so).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from controller.estimation import cards
from controller.estimation.windows import RATE_WINDOW_S, Track, ratio
from domain.readings.gpu import GpusReading

logger = logging.getLogger(__name__)


class EnergyMeter:
    """Sums what each card's counter gains. A card enters at its first value; MIG instances of it count once.

    A counter that goes back (driver reload, wrap) is a gap: what was used meanwhile is not known and not counted.
    """

    def __init__(self) -> None:
        self._counters: dict[str, float] = {}
        self._joules = 0.0
        self._known = False

    @property
    def total_j(self) -> float | None:
        """Since the first reading; None while a card in use has no counter, since a part is not the whole."""
        return self._joules if self._known else None

    def take(self, reading: GpusReading) -> bool:
        """A new reading; False when the total cannot be compared with the one before."""
        said = cards.energy_j(reading)
        counters = cards.known(said)
        gained = cards.gain(self._counters, counters)
        for uuid in gained.began_anew:
            logger.info("gpu: the energy counter of %s began anew; the time between is not counted", uuid)
        met = counters.keys() <= self._counters.keys()
        self._joules += gained.joules
        self._counters |= counters
        self._known = bool(self._counters) and said.keys() <= self._counters.keys()
        whole = met and not gained.began_anew and said.keys() == counters.keys()
        return whole and self._known and not reading.lost


@dataclass(frozen=True, slots=True)
class EnergyAndTokens:
    """Two counters read in one tick."""

    energy_j: float
    generation_tokens: float


def joules_per_token(track: Track[EnergyAndTokens], now_s: float) -> float | None:
    """Energy over tokens in the window; None without tokens."""
    window = track.window(now_s, RATE_WINDOW_S)
    return None if window is None else ratio(window.delta("energy_j"), window.delta("generation_tokens"))
