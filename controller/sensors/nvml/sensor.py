"""NVML beside an event loop: one thread, a deadline, and the operator's release and take.

Belongs here: what happens while the driver is silent. Never: an NVML call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from controller import clock as system_clock
from controller.sensors.nvml.driver import Driver
from controller.sensors.nvml.selection import Wanted
from controller.settings import GpuSettings
from controller.threads import BoundedCall
from domain.errors import RecoverableError
from domain.readings.gpu import GpusReading

T = TypeVar("T")

_SILENCES = ((3600, "an hour"), (600, "10 min"), (60, "a minute"), (10, "10 s"))
PATIENCE = 0.1
"""Share of the deadline that a driver gets which already let one pass: the ticks must not wait for it each time."""
RELEASED = "NVML was released by the operator and is not read until it is taken again"


@dataclass(frozen=True, slots=True)
class _Done:
    """Which call ended, and how: an answer that comes after its deadline is never taken for a later call's."""

    call: Callable[[], Any]
    answer: Any = None
    error: Exception | None = None


class NvmlSensor:
    """The engine's GPUs. Every call of NVML runs in one thread; one that never returns leaves that thread behind, and
    no other is made.
    """

    def __init__(
        self,
        settings: GpuSettings | None = None,
        clock: Callable[[], system_clock.Now] = system_clock.now,
        driver: Driver | None = None,
    ) -> None:
        self._settings = settings or GpuSettings()
        self._clock = clock
        self._driver = driver or Driver(self._now_s)
        self._turn = asyncio.Lock()
        self._call: Callable[[], Any] = self._driver.open
        self._thread = BoundedCall("nvml", self._run)
        self._silent_since_s: float | None = None
        self._released = False

    @property
    def absence(self) -> str | None:
        """Why there are no readings although nothing is wrong: no driver, no GPU, none selected, released."""
        return RELEASED if self._released else self._driver.absence

    def configure(self, settings: GpuSettings) -> None:
        """Settings of the next reading on."""
        self._settings = settings

    async def open(self) -> None:
        """Initialise NVML; never raises. What is wrong, the readings say."""
        try:
            await self._within_limit(self._driver.open)
        except RecoverableError:
            return

    async def close(self) -> None:
        """Let go of NVML; never raises."""
        try:
            await self._within_limit(self._driver.close)
        except RecoverableError:
            return

    async def read(self, *visible_devices: str | None) -> GpusReading | None:
        """The devices that the setting `gpu.devices` names, else those of `visible_devices`: CUDA_VISIBLE_DEVICES of
        each process of the engine, None for one that may see all. Without either, all devices.

        None without NVML or a GPU (`absence` says which). Raises RecoverableError while the driver is lost or silent.
        """
        if self._released:
            if self._driver.is_open:  # the call that held up the release has ended
                await self._within_limit(self._driver.close)
            return None
        settings = self._settings
        if self._driver.rests(settings.reopen_s):
            return None  # without a thread at each tick, for nothing
        wanted = Wanted(visible_devices)
        if settings.devices is not None:
            wanted = Wanted((settings.devices,), "the setting gpu.devices")
        return await self._within_limit(lambda: self._driver.read(wanted, settings.reopen_s))

    async def release(self) -> None:
        """Let go of NVML until `take`, so that a GPU can be reset. Raises RecoverableError while a call hangs; NVML is
        then let go of as soon as that call ends.
        """
        self._released = True
        await self._within_limit(self._driver.close)

    async def take(self) -> None:
        """Read again after `release`. Devices are looked up anew: entries that are indices may mean other cards."""
        self._released = False
        await self._within_limit(self._take)

    def _take(self) -> None:
        self._driver.close()
        self._driver.forget_selection()
        self._driver.open()

    def _now_s(self) -> float:
        return self._clock().monotonic_s

    async def _within_limit(self, call: Callable[[], T]) -> T:
        async with self._turn:
            running = asyncio.get_running_loop()
            timeout_s = self._settings.timeout_s
            known_silent = self._silent_since_s is not None and self._thread.busy
            deadline_s = running.time() + timeout_s * (PATIENCE if known_silent else 1.0)
            while True:
                self._call = call
                done = await self._thread(max(0.0, deadline_s - running.time()))
                if done is None:
                    raise RecoverableError(self._silence())
                if done.call is call:
                    break
                deadline_s = running.time() + timeout_s  # that was an earlier call's end, and ours begins only now
            self._silent_since_s = None
            if done.error is not None:
                raise done.error
            answer: T = done.answer
            return answer

    def _run(self) -> _Done:
        call = self._call
        try:
            return _Done(call, call())
        except Exception as error:
            return _Done(call, error=error)

    def _silence(self) -> str:
        """In coarse steps, so that a lasting silence is not news at every tick."""
        if self._silent_since_s is None:
            self._silent_since_s = self._now_s() - self._settings.timeout_s
        lasted_s = self._now_s() - self._silent_since_s
        said = next((words for bound_s, words in _SILENCES if lasted_s >= bound_s), f"{self._settings.timeout_s:g} s")
        return f"cannot read NVML: the driver has not answered for {said}; a call of it hangs, dmesg may say why"
