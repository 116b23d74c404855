"""The NVIDIA driver is as new as the second seed asks.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

import re

from controller.preflight.looking import gpus
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings

LEAST = (525, 85, 12)
CURE = "sudo apt-get install --only-upgrade '^nvidia-driver-[0-9]+$' && sudo reboot"


def _look(around: Surroundings) -> Found:
    version = gpus(around).driver_version
    found = re.findall(r"\d+", version or "")
    if version is None or not found:
        raise NotKnown("NVML does not tell the driver's version")
    least = ".".join(map(str, LEAST))
    if tuple(map(int, found)) < LEAST:
        return Found(FAIL, f"driver {version} is older than {least}", CURE)
    return Found(PASS, f"driver {version}; {least} is the least")


CHECK = Check(
    "driver",
    "NVIDIA driver 525.85.12 or newer",
    "seed 2, deployment checklist 2",
    frozenset({PASS, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
