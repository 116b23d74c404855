"""Which devices the engine uses, from lists written as CUDA_VISIBLE_DEVICES is.

Belongs here: CUDA's rules for such a list, keeping to a card once it was found. Never: NVML calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.sensors.nvml.devices import Card, Device


@dataclass(frozen=True, slots=True)
class Wanted:
    """`lists`: one per process of the engine, None where it may see every device. None at all: nobody said."""

    lists: tuple[str | None, ...] = ()
    origin: str = "CUDA_VISIBLE_DEVICES of the engine"
    """For people: where the lists come from."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Devices to read, each once; those found before that are gone; what matched nothing, as sentences."""

    devices: tuple[Device, ...]
    gone: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Selection:
    """Keeps each entry to the card or instance it first meant: an index may mean another card after one was lost."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._meant: dict[str, str] = {}
        self._cards_seen: dict[str, None] = {}

    def resolve(self, cards: Sequence[Card]) -> Selected:
        """Find the devices among those that NVML lists now."""
        if not self.wanted.lists or None in self.wanted.lists:
            return self._all(cards)
        present = {device.uuid: device for card in cards for device in _each(card)}
        found: dict[str, None] = {}
        problems: list[str] = []
        for text in self.wanted.lists:
            for entry in _entries(text or ""):
                meant = self._meant.get(entry) or _match(entry, cards)
                if not isinstance(meant, str):
                    problems.append(
                        f"cannot find GPU {entry!r} of {self.wanted.origin} = {text!r}: {meant.why}; as CUDA does, the "
                        "entries after it are left out too"
                    )
                    break
                self._meant[entry] = meant
                found[meant] = None
        return Selected(
            tuple(present[uuid] for uuid in found if uuid in present),
            tuple(uuid for uuid in found if uuid not in present),
            tuple(dict.fromkeys(problems)),
        )

    def _all(self, cards: Sequence[Card]) -> Selected:
        self._cards_seen.update(dict.fromkeys(card.uuid for card in cards))
        present = {card.uuid for card in cards}
        return Selected(
            tuple(device for card in cards for device in _rows(card)),
            tuple(uuid for uuid in self._cards_seen if uuid not in present),
        )


@dataclass(frozen=True, slots=True)
class _NoMatch:
    why: str


def _entries(text: str) -> Iterator[str]:
    """Up to -1, which ends a list; nothing for an empty one."""
    if not text.strip():
        return
    for entry in text.split(","):
        if entry.strip() == "-1":
            return
        yield entry.strip()


def _match(entry: str, cards: Sequence[Card]) -> str | _NoMatch:
    """The UUID that an entry means: an index, or the beginning of a UUID that no other shares."""
    if entry.isdecimal():
        by_index = {card.index: card for card in cards}
        if int(entry) in by_index:
            return _rows(by_index[int(entry)])[0].uuid
        return _NoMatch(f"NVML lists {', '.join(map(str, by_index)) or 'no GPU'}")
    if not entry.upper().startswith(("GPU-", "MIG-")):
        return _NoMatch("it is neither an index nor begins with GPU- or MIG-")
    alike = [device for card in cards for device in _each(card) if device.uuid.upper().startswith(entry.upper())]
    exact = [device for device in alike if device.uuid.upper() == entry.upper()]
    match exact or alike:
        case [one]:
            # CUDA shows a process one instance of a card in MIG mode: the first, where none is named.
            return one.uuid if one.instance else _rows(one.card)[0].uuid
        case []:
            return _NoMatch("NVML lists no such UUID")
        case several:
            return _NoMatch(f"the UUIDs of {len(several)} devices begin so")


def _each(card: Card) -> tuple[Device, ...]:
    return (Device(card), *(Device(card, instance) for instance in card.instances))


def _rows(card: Card) -> tuple[Device, ...]:
    """What stands for a whole card: its instances where it has some, else itself."""
    return tuple(Device(card, instance) for instance in card.instances) or (Device(card),)
