"""GPU readings through NVML (nvidia-ml-py).

Belongs here: NVML calls; each missing answer is None. Never: a judgement on a reading. A machine without a GPU or
driver is a fact to state, not an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from domain.snapshot import GpuReading


class NvmlSensor:
    """`absence` says why there are no readings, None when there are. Calls block: `controller.threads` bounds them."""

    def __init__(self) -> None:
        self.absence: str | None = "NVML has not answered yet"
        self._open = False

    def open(self) -> None:
        """Initialise NVML."""
        try:
            pynvml.nvmlInit()
            self._open = True
            self.absence = None if pynvml.nvmlDeviceGetCount() else "NVML sees no GPU"
        except pynvml.NVMLError as error:
            self.absence = f"NVML is not available ({error}): decisions rest on vLLM's own readings"

    def close(self) -> None:
        """Release NVML; never raises."""
        if self._open:
            _ask(pynvml.nvmlShutdown)
            self._open = False

    def read(self) -> tuple[GpuReading, ...] | None:
        """One reading per device, None without NVML."""
        if self.absence is not None:
            return None
        count = _ask(pynvml.nvmlDeviceGetCount)
        if count is None:
            return None
        handles = [_ask(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        return tuple(_device(index, handle) for index, handle in enumerate(handles) if handle is not None)


def _device(index: int, handle: Any) -> GpuReading:
    utilization = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return GpuReading(
        index=index,
        uuid=str(_ask(pynvml.nvmlDeviceGetUUID, handle)),
        name=str(_ask(pynvml.nvmlDeviceGetName, handle)),
        utilization_ratio=None if utilization is None else utilization.gpu / 100,
    )


def _ask(call: Callable[..., Any], *args: Any) -> Any:
    """The call's answer, None when the device or driver does not say."""
    try:
        return call(*args)
    except pynvml.NVMLError:
        return None
