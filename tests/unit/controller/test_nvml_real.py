"""The NVML sensor against nvidia-smi, where there is a GPU.

In a process of its own: this one may have the scripted NVML.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

READ = """
import asyncio, dataclasses, json
from controller.sensors.nvml import NvmlSensor

async def main():
    sensor = NvmlSensor()
    await sensor.open()
    await sensor.read()
    reading = await sensor.read()
    await sensor.close()
    print(json.dumps([dataclasses.asdict(gpu) | {"unknown": dict(gpu.unknown)} for gpu in reading.devices]))

asyncio.run(main())
"""
QUERY = "uuid,name,memory.total,memory.used,temperature.gpu,power.limit,ecc.mode.current,pcie.link.width.current"
MIB = 1024 * 1024


def ask_nvidia_smi() -> list[list[str]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("no nvidia-smi here: the sensor is compared with it on machines with a GPU")
    ran = subprocess.run(
        [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=60
    )
    if ran.returncode != 0 or not ran.stdout.strip():
        pytest.skip(f"nvidia-smi shows no GPU: {(ran.stdout + ran.stderr).strip()}")
    return [[cell.strip() for cell in line.split(",")] for line in ran.stdout.strip().splitlines()]


def test_the_sensor_reads_what_nvidia_smi_shows() -> None:
    rows = ask_nvidia_smi()
    root = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", READ], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    read: dict[str, dict[str, Any]] = {gpu["parent_uuid"] or gpu["uuid"]: gpu for gpu in json.loads(ran.stdout)}
    assert set(read) == {row[0] for row in rows}
    for uuid, name, total, used, temperature, power_limit, ecc, width in rows:
        gpu = read[uuid]
        if gpu["parent_uuid"] is None:
            assert gpu["name"] == name
            _agree(gpu["memory"] and gpu["memory"]["total_bytes"] / MIB, total, 1)
            _agree(gpu["memory"] and gpu["memory"]["used_bytes"] / MIB, used, 64)
        _agree(gpu["temperature_c"], temperature, 10)
        _agree(gpu["power_limit_w"], power_limit, 1)
        _agree(gpu["pcie_width"], width, 0)
        assert gpu["ecc_enabled"] == {"Enabled": True, "Disabled": False}.get(ecc)


def _agree(read: float | None, shown: str, apart: float) -> None:
    """nvidia-smi shows "[N/A]" or "[Not Supported]" where it has no number."""
    if shown.startswith("["):
        assert read is None
    else:
        assert read == pytest.approx(float(shown), abs=apart)
