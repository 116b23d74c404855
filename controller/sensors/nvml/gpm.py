"""SM activity from GPM, NVML's performance counters of Hopper and newer.

Belongs here: two samples per device, kept from one reading to the next. Never: other readings.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pynvml

from controller.sensors.nvml.calls import NOT_SUPPORTED, Answers
from controller.sensors.nvml.devices import Device

FIELD = "sm_activity_ratio"


class SmActivity:
    """A reading covers the time since the one before."""

    def __init__(self) -> None:
        self._earlier: dict[str, Any] = {}
        self._spare: dict[str, Any] = {}
        self._question: Any = None

    def read(self, device: Device, answers: Answers) -> float | None:
        """Share of SMs that had work since the last reading; None at the first."""
        uuid = device.uuid
        if uuid not in self._spare:
            self._spare[uuid] = answers.ask(FIELD, pynvml.nvmlGpmSampleAlloc)
        sample = self._spare[uuid]
        if sample is None or answers.ask(FIELD, lambda: _take(device, sample)) is None:
            self.forget(uuid)
            return None
        earlier, self._earlier[uuid] = self._earlier.get(uuid), sample
        if earlier is None:
            del self._spare[uuid]
            answers.unknown[FIELD] = "it takes a second sample"
            return None
        self._spare[uuid] = earlier
        return self._between(earlier, sample, answers)

    def close(self) -> None:
        """Give the samples back; before NVML is shut down."""
        for uuid in {*self._earlier, *self._spare}:
            self.forget(uuid)

    def forget(self, uuid: str) -> None:
        """The device is gone: the next reading is a first one."""
        for sample in (self._earlier.pop(uuid, None), self._spare.pop(uuid, None)):
            if sample is not None:
                with suppress(pynvml.NVMLError):
                    pynvml.nvmlGpmSampleFree(sample)

    def _between(self, earlier: Any, later: Any, answers: Answers) -> float | None:
        if self._question is None:
            self._question = pynvml.c_nvmlGpmMetricsGet_t()
            self._question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
            self._question.numMetrics = 1
            self._question.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
        question = self._question
        question.sample1, question.sample2 = earlier, later
        if answers.ask(FIELD, lambda: pynvml.nvmlGpmMetricsGet(question)) is None:
            return None
        metric = question.metrics[0]
        if metric.nvmlReturn != pynvml.NVML_SUCCESS or not math.isfinite(metric.value):
            answers.unknown[FIELD] = NOT_SUPPORTED
            return None
        return min(1.0, max(0.0, float(metric.value) / 100))


def supported(device: Device) -> bool:
    """Whether the device has GPM."""
    if device.instance is not None and device.instance.gpu_instance_id is None:
        return False
    try:
        return bool(pynvml.nvmlGpmQueryDeviceSupport(device.card.handle).isSupportedDevice)
    except pynvml.NVMLError:
        return False


def _take(device: Device, sample: Any) -> Any:
    if device.instance is None:
        return pynvml.nvmlGpmSampleGet(device.card.handle, sample)
    return pynvml.nvmlGpmMigSampleGet(device.card.handle, device.instance.gpu_instance_id, sample)
