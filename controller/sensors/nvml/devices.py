"""Which devices there are: cards by NVML's index, and the MIG instances of each.

Belongs here: handles and identities. Never: readings, which of the devices the engine uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from controller.sensors.nvml.calls import library_lost


@dataclass(frozen=True, slots=True)
class Card:
    """A physical GPU. `index` is NVML's and may change; `uuid` never does."""

    index: int
    uuid: str
    name: str
    handle: Any
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance of a card."""

    uuid: str
    name: str
    handle: Any
    gpu_instance_id: int | None


@dataclass(frozen=True, slots=True)
class Device:
    """What becomes one reading: a card, or one instance of it."""

    card: Card
    instance: Instance | None = None

    @property
    def uuid(self) -> str:
        return self.instance.uuid if self.instance else self.card.uuid

    @property
    def handle(self) -> Any:
        return self.instance.handle if self.instance else self.card.handle


def list_cards(count: int) -> tuple[Card, ...]:
    """The cards that answer. Raises LibraryLost when there are some and none does."""
    cards: list[Card] = []
    last: Any = None
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            cards.append(
                Card(
                    index,
                    str(pynvml.nvmlDeviceGetUUID(handle)),
                    str(pynvml.nvmlDeviceGetName(handle)),
                    handle,
                    tuple(_instances(handle)),
                )
            )
        except pynvml.NVMLError as error:  # lost, or not this container's: the others count
            last = error
    if not cards and last is not None:
        raise library_lost(last)
    return tuple(cards)


def count_cards() -> int:
    """Raises LibraryLost."""
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        raise library_lost(error) from error


def _instances(card: Any) -> Iterator[Instance]:
    try:
        if not pynvml.nvmlDeviceGetMigMode(card)[0]:
            return
        most = pynvml.nvmlDeviceGetMaxMigDeviceCount(card)
    except pynvml.NVMLError:
        return  # a card without MIG
    for number in range(most):
        try:
            handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number)
        except pynvml.NVMLError:
            continue  # numbers of instances have gaps
        uuid, name = str(pynvml.nvmlDeviceGetUUID(handle)), str(pynvml.nvmlDeviceGetName(handle))
        yield Instance(uuid, name, handle, _gpu_instance_id(handle))


def _gpu_instance_id(instance: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetGpuInstanceId(instance))
    except pynvml.NVMLError:
        return None
