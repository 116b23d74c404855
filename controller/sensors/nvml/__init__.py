"""GPU readings through NVML (nvidia-ml-py).

Belongs here: NVML calls, which devices are read, what to do when the driver goes away. Never: a judgement on a reading.
"""

from controller.sensors.nvml.sensor import NvmlSensor

__all__ = ["NvmlSensor"]
