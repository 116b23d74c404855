"""What belongs to a card as a whole, each card once: MIG instances repeat their card's power and energy.

Belongs here: readings of devices to readings of cards, and what counters gained between two of them. Never: what is
kept from one tick to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.estimation.windows import largest
from domain.readings.gpu import GpuReading, GpusReading

ByCard = dict[str, float | None]
"""A value of each card by its UUID; None where the card does not say."""


def by_card(reading: GpusReading, value: Callable[[GpuReading], float | None]) -> ByCard:
    """A value that belongs to the card, of each card that the engine uses."""
    cards: ByCard = {}
    for device in reading.devices:
        cards[device.card_uuid] = largest(cards.get(device.card_uuid), value(device))
    return cards


def energy_j(reading: GpusReading) -> ByCard:
    """NVML's energy counters."""
    return by_card(reading, lambda device: device.energy_j)


def power_w(reading: GpusReading) -> ByCard:
    """What the cards draw now."""
    return by_card(reading, lambda device: device.power_w)


def known(cards: ByCard) -> dict[str, float]:
    """Those that say."""
    return {uuid: value for uuid, value in cards.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Gain:
    """What energy counters gained: never less than nothing. `began_anew` are the cards whose counter went back (wrap,
    reset, driver reload): what those used meanwhile is not known and not in `joules`.
    """

    joules: float
    began_anew: tuple[str, ...]


def gain(before: Mapping[str, float], after: Mapping[str, float]) -> Gain:
    """Over the cards that are in both: a card brings none of its past."""
    gained = {uuid: counter - before[uuid] for uuid, counter in after.items() if uuid in before}
    return Gain(
        sum(joules for joules in gained.values() if joules > 0),
        tuple(sorted(uuid for uuid, joules in gained.items() if joules < 0)),
    )
