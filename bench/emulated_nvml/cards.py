"""Cards for the scripted NVML: what each kind of GPU answers, and above all what it does not.

Belongs here: presets, changed by a test or an executor as it likes. Never: the script's form.
"""

from __future__ import annotations

from bench.emulated_nvml.script import Card, Instance, error, numbers

NOT_SUPPORTED = error(3)
MIB = 1024 * 1024
GIB = 1024 * MIB


def card(name: str, uuid: str, memory_gib: float, reserved_mib: int = 600) -> Card:
    """A card that answers everything but GPM, NVLink and MIG."""
    total, reserved = int(memory_gib * GIB), reserved_mib * MIB
    one = Card(
        {
            "nvmlDeviceGetName": name,
            "nvmlDeviceGetUUID": uuid,
            "nvmlDeviceGetUtilizationRates": numbers(37, 12),
            "nvmlDeviceGetBAR1MemoryInfo": numbers(total, total - 32 * MIB, 32 * MIB),
            "nvmlDeviceGetPowerUsage": numbers(300_000),
            "nvmlDeviceGetEnforcedPowerLimit": numbers(400_000),
            "nvmlDeviceGetTotalEnergyConsumption": numbers(9_000_000),
            "nvmlDeviceGetTemperatureV.0": numbers(54),
            "nvmlDeviceGetTemperature.0": numbers(54),
            "nvmlDeviceGetClockInfo.1": numbers(1410),
            "nvmlDeviceGetClockInfo.2": numbers(1593),
            "nvmlDeviceGetCurrentClocksEventReasons": numbers(0),
            "nvmlDeviceGetCurrentClocksThrottleReasons": numbers(0),
            "nvmlDeviceGetEccMode": numbers(1, 1),
            "nvmlDeviceGetTotalEccErrors.0": numbers(0),
            "nvmlDeviceGetTotalEccErrors.1": numbers(0),
            "nvmlDeviceGetCurrPcieLinkGeneration": numbers(4),
            "nvmlDeviceGetCurrPcieLinkWidth": numbers(16),
            "nvmlDeviceGetMigMode": numbers(0, 0),
            "nvmlDeviceGetMaxMigDeviceCount": numbers(7),
            "nvmlDeviceGetComputeRunningProcesses_v3": "none",
        }
    )
    set_memory(one, total, used=int(total * 0.9), reserved=reserved)
    return one


def set_memory(one: Instance, total: int, used: int, reserved: int) -> None:
    """Bytes, as both versions of the call tell them: v1 counts what is reserved as used."""
    free = total - used - reserved
    one.answers["nvmlDeviceGetMemoryInfo_v2"] = numbers(total, reserved, free, used)
    one.answers["nvmlDeviceGetMemoryInfo"] = numbers(total, free, used + reserved)


def a100_80g(uuid: str = "GPU-a1000000-0000-0000-0000-000000000000") -> Card:
    """A100 of 80 GB on its own board, twelve NVLinks."""
    one = card("NVIDIA A100-SXM4-80GB", uuid, 80)
    one.answers |= {f"nvmlDeviceGetNvLinkState.{link}": "1" for link in range(12)}
    one.answers["nvmlDeviceGetNvLinkState.12"] = error(2)
    return one


def idle_a100(uuid: str = "GPU-a1000000-0000-0000-0000-000000000001") -> Card:
    """An A100 on which nothing runs: 8 MiB used, 904 MiB reserved by the driver."""
    one = card("NVIDIA A100-PCIE-40GB", uuid, 40)
    set_memory(one, 40 * GIB, used=8 * MIB, reserved=904 * MIB)
    one.answers |= {
        "nvmlDeviceGetUtilizationRates": numbers(0, 0),
        "nvmlDeviceGetPowerUsage": numbers(36_000),
        "nvmlDeviceGetCurrentClocksEventReasons": numbers(1),
        "nvmlDeviceGetCurrentClocksThrottleReasons": numbers(1),
    }
    return one


def h100_pcie(uuid: str = "GPU-b1000000-0000-0000-0000-000000000000") -> Card:
    """H100 on PCIe 5: the one preset with GPM, the SMs 62.5 % at work."""
    one = card("NVIDIA H100 PCIe", uuid, 80)
    one.answers |= {
        "nvmlDeviceGetCurrPcieLinkGeneration": numbers(5),
        "nvmlGpmQueryDeviceSupport": numbers(1),
        "nvmlGpmMetricsGet.2": "62.5",
    }
    return one


def rtx_4090(uuid: str = "GPU-c4090000-0000-0000-0000-000000000000") -> Card:
    """A desktop card: no MIG, no NVLink, ECC off."""
    one = card("NVIDIA GeForce RTX 4090", uuid, 24)
    one.answers |= {
        "nvmlDeviceGetEccMode": numbers(0, 0),
        "nvmlDeviceGetTotalEccErrors.0": NOT_SUPPORTED,
        "nvmlDeviceGetTotalEccErrors.1": NOT_SUPPORTED,
        "nvmlDeviceGetMigMode": NOT_SUPPORTED,
        "nvmlDeviceGetMaxMigDeviceCount": NOT_SUPPORTED,
    }
    return one


def gb10(uuid: str = "GPU-d1000000-0000-0000-0000-000000000000") -> Card:
    """GB10: one memory for CPU and GPU, so NVML has no memory and no BAR1 to tell; 11 W."""
    one = card("NVIDIA GB10", uuid, 128)
    for name in ("MemoryInfo", "MemoryInfo_v2", "BAR1MemoryInfo", "EnforcedPowerLimit", "EccMode", "MigMode"):
        one.answers[f"nvmlDeviceGet{name}"] = NOT_SUPPORTED
    one.answers["nvmlDeviceGetPowerUsage"] = numbers(11_000)
    return one


def gh200(uuid: str = "GPU-e2000000-0000-0000-0000-000000000000") -> Card:
    """GH200: memory of its own, no BAR1."""
    one = card("NVIDIA GH200 480GB", uuid, 96)
    one.answers["nvmlDeviceGetBAR1MemoryInfo"] = NOT_SUPPORTED
    return one


def mig_a100(uuid: str = "GPU-f1000000-0000-0000-0000-000000000000", instances: int = 3) -> Card:
    """An A100 cut into instances of 20 GiB. Utilisation is told neither for the card nor for an instance."""
    one = card("NVIDIA A100-SXM4-80GB", uuid, 80)
    one.answers |= {
        "nvmlDeviceGetMigMode": numbers(1, 1),
        "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED,
        "nvmlDeviceGetPowerUsage": numbers(52_600),
    }
    for number in range(instances):
        instance = Instance(
            {
                "nvmlDeviceGetName": "NVIDIA A100-SXM4-80GB MIG 2g.20gb",
                "nvmlDeviceGetUUID": f"MIG-{number}{uuid.removeprefix('GPU-')[1:]}",
                "nvmlDeviceGetGpuInstanceId": numbers(number + 3),
                "nvmlDeviceGetComputeRunningProcesses_v3": "none",
            }
        )
        set_memory(instance, 20 * GIB, used=(2 + number) * GIB, reserved=100 * MIB)
        one.instances.append(instance)
    return one
