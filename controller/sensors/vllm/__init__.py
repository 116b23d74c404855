"""vLLM's `/metrics`, from the connection to a reading.

Belongs here: one job per file: names of series, fetching, parsing, the sensor. Never: differences between two scrapes.
"""

from controller.sensors.vllm.parse import Parser
from controller.sensors.vllm.sensor import VllmSensor

__all__ = ["Parser", "VllmSensor"]
