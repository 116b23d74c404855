"""What the policies on GPUs rest on can be read.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import gpus
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, Found
from controller.preflight.surroundings import Surroundings
from domain.readings.gpu import GpuReading

LOST = {
    "utilization_ratio": "rules on an idle or a busy GPU stay silent",
    "memory": "rules on GPU memory and the emergency purge for it stay off",
}


def _look(around: Surroundings) -> Found:
    reading = gpus(around)
    if reading.lost:
        cure = f"vllm-governor gpu release && sudo nvidia-smi --gpu-reset -i {reading.lost[0]}; vllm-governor gpu take"
        return Found(FAIL, "; ".join(reading.problems) or f"GPU {reading.lost[0]} is lost", cure)
    devices = reading.devices
    missing = [said for device in devices for said in _missing(device)]
    if missing:
        return Found(WARN, "; ".join(dict.fromkeys(missing)))
    return Found(PASS, f"utilisation and memory of {len(devices)} devices are known")


def _missing(device: GpuReading) -> list[str]:
    found = []
    for name, lost in LOST.items():
        if getattr(device, name) is None:
            what = name.removesuffix("_ratio")
            found.append(f"{device.name}: {what} unknown ({device.unknown.get(name, 'not told')}), so {lost}")
    return found


CHECK = Check(
    "gpu_readings",
    "utilisation and memory of each GPU, or MIG instance, are known",
    "field cases N1, N2 and N5",
    frozenset({PASS, WARN, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
