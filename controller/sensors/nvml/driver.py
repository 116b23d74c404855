"""NVML over its life: initialised, lost, initialised again; every call of it blocks.

Belongs here: when to initialise, list and read, what is wrong and why. Never: threads, deadlines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import pynvml

from controller.sensors.nvml import gpm, readings
from controller.sensors.nvml.calls import DeviceLost, LibraryLost, explain
from controller.sensors.nvml.devices import Card, Device, count_cards, list_cards
from controller.sensors.nvml.selection import Selected, Selection, Wanted
from domain.errors import RecoverableError
from domain.readings.gpu import GpuReading, GpusReading

LIST_EVERY_S = 60.0
"""How long identities, modes and links are kept."""
_NO_DRIVER = frozenset({9, 12})
_UNLISTED = "NVML lists it no more"


class Driver:
    """`absence` says why there is nothing to read without anything being wrong, None otherwise."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.absence: str | None = None
        self.is_open = False
        self._clock = clock
        self._problem: str | None = None
        self._met_a_gpu = False
        self._opened_s = -math.inf
        self._listed_s = 0.0
        self._count = 0
        self._cards: tuple[Card, ...] = ()
        self._versions: tuple[str | None, str | None] = (None, None)
        self._selection = Selection(Wanted())
        self._selected = Selected(())
        self._fixed: dict[str, tuple[readings.Part, bool]] = {}
        self._activity = gpm.SmActivity()
        self._any_gone = False

    def open(self) -> None:
        """Initialise NVML and list the cards; never raises."""
        self._opened_s = self._clock()
        self.absence = self._problem = None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            if error.value in _NO_DRIVER and not self._met_a_gpu:
                self.absence = f"NVML is not available ({error}): decisions rest on vLLM's own readings"
            else:
                self._problem = f"cannot initialise NVML: {explain(error.value, str(error))}"
            return
        self.is_open = True
        self._versions = (_text(pynvml.nvmlSystemGetDriverVersion), _text(pynvml.nvmlSystemGetNVMLVersion))
        try:
            self._list(count_cards())
        except LibraryLost as error:
            self._lose(error)
            return
        if not self._cards and not self._met_a_gpu:
            self.close()
            self.absence = "NVML sees no GPU: decisions rest on vLLM's own readings"

    def close(self) -> None:
        """Let go of NVML and of the driver's device files; never raises."""
        if not self.is_open:
            return
        self._activity.close()
        self.is_open = False
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def forget_selection(self) -> None:
        """The next reading looks its devices up anew."""
        self._selection = Selection(Wanted())

    def rests(self, reopen_s: float) -> bool:
        """There was no driver or no GPU when it looked last, and it is too early to look again. Calls no NVML."""
        return not self.is_open and self.absence is not None and not self._is_time(reopen_s)

    def _is_time(self, reopen_s: float) -> bool:
        return self._clock() - self._opened_s >= reopen_s

    def read(self, wanted: Wanted, reopen_s: float) -> GpusReading | None:
        """The wanted devices; None where there is nothing to read (`absence`). Raises RecoverableError."""
        now_s = self._clock()
        if self._is_time(reopen_s) and (self._any_gone or not self.is_open):
            self.close()
            self.open()
        if not self.is_open:
            return self._nothing()
        try:
            self._find(wanted, now_s)
            return self._read_selected()
        except LibraryLost as error:
            self._lose(error)
            return self._nothing()

    def _nothing(self) -> GpusReading | None:
        if self._problem is not None:
            raise RecoverableError(self._problem)
        return None

    def _lose(self, error: LibraryLost) -> None:
        self.close()
        self._problem = f"cannot read NVML: {error}"
        self._opened_s = self._clock()  # not at once: the driver needs its time, and initialising may be slow

    def _find(self, wanted: Wanted, now_s: float) -> None:
        count = count_cards()
        if count != self._count or now_s - self._listed_s >= LIST_EVERY_S:
            self._list(count)
        if wanted != self._selection.wanted:
            self._selection = Selection(wanted)
            self._select()

    def _list(self, count: int) -> None:
        self._cards = list_cards(count)
        self._count = count
        self._listed_s = self._clock()
        self._met_a_gpu |= bool(self._cards)
        self._fixed = {}
        self._select()

    def _select(self) -> None:
        self._selected = self._selection.resolve(self._cards)

    def _read_selected(self) -> GpusReading | None:
        self.absence = None
        selected = self._selected
        lost = dict.fromkeys(selected.gone, _UNLISTED)
        read: list[GpuReading] = []
        of_cards: dict[str, readings.Part] = {}
        for device in selected.devices:
            try:
                read.append(self._read_device(device, of_cards))
            except DeviceLost as error:
                lost[device.uuid] = str(error)
                self._activity.forget(device.uuid)
        self._any_gone = bool(lost)
        problems = (*selected.problems, *(f"cannot read GPU {uuid}: {why}" for uuid, why in lost.items()))
        if not read and not lost:
            if problems:
                raise RecoverableError("; ".join(problems))
            self.absence = f"no GPU is selected: {self._selection.wanted.origin} names none"
            return None
        return GpusReading(tuple(read), *self._versions, lost=tuple(lost), problems=problems)

    def _read_device(self, device: Device, of_cards: dict[str, readings.Part]) -> GpuReading:
        if device.uuid not in self._fixed:
            self._fixed[device.uuid] = (readings.facts(device), gpm.supported(device))
        fixed, with_activity = self._fixed[device.uuid]
        card = of_cards.get(device.card.uuid)
        if card is None:  # once for all instances of a card
            card = of_cards[device.card.uuid] = readings.of_card(device)
        return readings.reading(device, fixed, card, self._activity, with_activity=with_activity)


def _text(call: Callable[[], str]) -> str | None:
    try:
        return str(call())
    except pynvml.NVMLError:
        return None
