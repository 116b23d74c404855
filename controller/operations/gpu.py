"""Letting go of NVML, so that a GPU can be reset, and taking it again.

Belongs here: these two, with their audit. Never: how it is let go of (controller/sensors/nvml).
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.operations.audit import Audit, Caller
from controller.operations.refusal import Kind, Refused
from controller.sensors.nvml import NvmlSensor
from controller.sensors.nvml.sensor import RELEASED
from domain.errors import RecoverableError


@dataclass(frozen=True, slots=True)
class GpuState:
    """`absence`: why no GPU is read, None when they are."""

    released: bool
    absence: str | None


class Gpu:
    """One for the daemon's life."""

    def __init__(self, nvml: NvmlSensor, audit: Audit) -> None:
        self._nvml = nvml
        self._audit = audit

    async def release(self, who: Caller) -> GpuState:
        """Let go of NVML until it is taken again. Raises Refused (UNAVAILABLE) while a call of the driver hangs."""
        async with self._audit.entry(who, "gpu.release", "NVML"):
            try:
                await self._nvml.release()
            except RecoverableError as error:
                remedy = "NVML is let go of as soon as that call ends"
                raise Refused(Kind.UNAVAILABLE, "let go of NVML now", str(error), remedy) from error
        return self._state()

    async def take(self, who: Caller) -> GpuState:
        """Read NVML again. Raises Refused (UNAVAILABLE)."""
        async with self._audit.entry(who, "gpu.take", "NVML"):
            try:
                await self._nvml.take()
            except RecoverableError as error:
                remedy = "it is tried again every gpu.reopen_s seconds"
                raise Refused(Kind.UNAVAILABLE, "read NVML now", str(error), remedy) from error
        return self._state()

    def _state(self) -> GpuState:
        return GpuState(self._nvml.absence == RELEASED, self._nvml.absence)
