"""The GPUs that the kernel has are the daemon's to read.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

import re

from controller.preflight.looking import text
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from controller.sensors.nvml.sensor import RELEASED

UNIT = "vllm-governor.service"


def _look(around: Surroundings) -> Found:
    there = around.roots.proc / "driver" / "nvidia" / "gpus"
    count = len(list(there.iterdir())) if there.is_dir() else 0
    if not count:
        raise DoesNotApply("the kernel's NVIDIA driver has no GPU here")
    seen = around.gpus
    if seen.reading is not None:
        return Found(PASS, f"NVML shows {len(seen.reading.devices)} that the engine uses; the kernel has {count} GPU")
    why = seen.problem or seen.absence or "NVML was not read"
    if why == RELEASED:
        raise NotKnown(why)
    allowed = _device_names(around)
    return Found(
        FAIL,
        f"the kernel has {count} GPU and NVML shows none ({why}): a device policy, systemd's DeviceAllow= or the "
        f"container's, keeps the device files away; the kernel calls them {', '.join(allowed) or 'nothing'} today, "
        "and a rule for another name allows nothing",
        _cure(allowed),
    )


def _device_names(around: Surroundings) -> list[str]:
    """The character devices of the driver, by the names that DeviceAllow=char-NAME goes by."""
    listed = (text(around.roots.proc / "devices") or "").partition("Block devices:")[0]
    return re.findall(r"^ *\d+ (nvidia\S*)$", listed, re.MULTILINE)


def _cure(allowed: list[str]) -> str:
    rules = "".join(f"DeviceAllow=char-{name} rw\\n" for name in allowed)
    folder = f"/etc/systemd/system/{UNIT}.d"
    return (
        f"sudo mkdir -p {folder} && printf '[Service]\\n{rules}' | sudo tee {folder}/gpu.conf && "
        f"sudo systemctl daemon-reload && sudo systemctl restart {UNIT}"
    )


CHECK = Check(
    "gpu_access",
    "where the kernel's driver has GPUs, NVML shows the engine's",
    "field case S4: a device rule that names another device",
    frozenset({PASS, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
