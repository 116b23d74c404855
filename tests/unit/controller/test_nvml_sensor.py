"""The NVML sensor: what is read of a card, and when nothing is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.emulated_nvml import cards
from bench.emulated_nvml.script import ALL, error, hang, numbers
from domain.errors import RecoverableError
from domain.readings.gpu import GpuProcess
from tests.nvml import NvmlRig, scripted_nvml


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[NvmlRig]:
    with scripted_nvml(tmp_path) as nvml:
        rig = NvmlRig(nvml)
        yield rig
        await rig.sensor.close()


async def test_a_card_that_supports_none_of_the_calls_about_its_build_is_not_lost(rig: NvmlRig) -> None:
    """As a virtual GPU does not: no power limit, ECC, MIG, PCIe, NVLink."""
    card = cards.rtx_4090()
    for what in ("EnforcedPowerLimit", "EccMode", "MigMode", "CurrPcieLinkGeneration", "CurrPcieLinkWidth"):
        card.answers[f"nvmlDeviceGet{what}"] = error(3)
    card.answers["nvmlDeviceGetNvLinkState"] = error(3)
    gpu = await rig.one(card)
    assert gpu.power_w is not None
    assert gpu.unknown["power_limit_w"] == "not supported"


async def test_every_reading_comes_in_base_units(rig: NvmlRig) -> None:
    card = cards.a100_80g()
    card.answers |= {
        "nvmlDeviceGetCurrentClocksEventReasons": numbers(0x4 | 0x40 | 0x8000),
        "nvmlDeviceGetComputeRunningProcesses_v3": "4711:1073741824 4712:-",
        "nvmlDeviceGetTotalEccErrors.0": numbers(5),
        "nvmlDeviceGetTotalEccErrors.1": numbers(2),
    }
    gpu = await rig.one(card)
    assert (gpu.power_w, gpu.power_limit_w, gpu.energy_j) == (300.0, 400.0, 9000.0)
    assert (gpu.temperature_c, gpu.sm_clock_hz, gpu.memory_clock_hz) == (54.0, 1.41e9, 1.593e9)
    assert gpu.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown", "reason_0x8000")
    assert gpu.processes == (GpuProcess(4711, 1073741824), GpuProcess(4712, None))
    assert (gpu.ecc_enabled, gpu.ecc_corrected, gpu.ecc_uncorrected) == (True, 5, 2)
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.nvlinks_active, gpu.mig_enabled) == (4, 16, 12, False)
    assert (gpu.bar1_total_bytes, gpu.bar1_used_bytes) == (80 * cards.GIB, 32 * cards.MIB)
    assert gpu.unknown == {"sm_activity_ratio": "not supported"}
    reading = await rig.read()
    assert (reading.driver_version, reading.nvml_version) == ("570.133.20", "12.570.133.20")


async def test_every_field_that_is_none_has_its_cause(rig: NvmlRig) -> None:
    card = cards.rtx_4090()
    named = {"nvmlDeviceGetName": card.answers["nvmlDeviceGetName"], "nvmlDeviceGetUUID": card.uuid}
    card.answers = (
        named
        | {"nvmlDeviceGetPowerUsage": numbers(20_000)}
        | {
            "nvmlDeviceGetCurrPcieLinkWidth": numbers(16),
            "nvmlDeviceGetUtilizationRates": numbers(0),
            "nvmlDeviceGetTotalEnergyConsumption": error(4),
        }
    )
    gpu = await rig.one(card)
    empty = {name for name in gpu.__slots__ if getattr(gpu, name) is None} - {"parent_uuid"}
    assert empty == set(gpu.unknown)
    assert gpu.unknown["energy_j"] == "Insufficient Permissions"
    assert gpu.utilization_ratio == 0.0


async def test_sm_activity_rests_on_two_samples_and_starts_anew_after_a_release(rig: NvmlRig) -> None:
    rig.show(cards.h100_pcie())
    first, second = await rig.read(), await rig.read()
    assert first.devices[0].unknown["sm_activity_ratio"] == "it takes a second sample"
    assert second.devices[0].sm_activity_ratio == pytest.approx(0.625)
    await rig.sensor.release()
    await rig.sensor.take()
    assert (await rig.read()).devices[0].sm_activity_ratio is None


async def test_sm_activity_of_a_mig_instance_is_its_own(rig: NvmlRig) -> None:
    card = cards.mig_a100()
    card.answers["nvmlGpmQueryDeviceSupport"] = numbers(1)
    for number, instance in enumerate(card.instances):
        instance.answers["nvmlGpmMetricsGet.2"] = numbers(10 * number)
    rig.show(card)
    await rig.read()
    assert [gpu.sm_activity_ratio for gpu in (await rig.read()).devices] == pytest.approx([0.0, 0.1, 0.2])


@pytest.mark.parametrize("newer", ["nvmlDeviceGetTemperatureV.0", "nvmlDeviceGetCurrentClocksEventReasons"])
async def test_an_older_driver_is_asked_in_the_older_way(rig: NvmlRig, newer: str) -> None:
    card = cards.a100_80g()
    card.answers[newer] = error(13)
    gpu = await rig.one(card)
    assert gpu.temperature_c == 54.0
    assert gpu.throttle_reasons == ()
    assert set(gpu.unknown) == {"sm_activity_ratio"}


async def test_what_hardly_changes_is_asked_once_a_minute(rig: NvmlRig) -> None:
    rig.show(cards.a100_80g())
    for _ in range(59):
        await rig.read()
    assert rig.nvml.calls("nvmlDeviceGetEccMode") == 1
    assert rig.nvml.calls("nvmlDeviceGetPowerUsage") == 59
    await rig.read(after_s=10.0)
    assert rig.nvml.calls("nvmlDeviceGetEccMode") == 2


async def test_the_values_of_a_cut_card_are_asked_once_for_all_its_instances(rig: NvmlRig) -> None:
    rig.show(cards.mig_a100())
    assert len((await rig.read()).devices) == 3
    assert rig.nvml.calls("nvmlDeviceGetPowerUsage") == 1


async def test_a_machine_without_a_driver_is_no_problem_and_is_asked_again_later(rig: NvmlRig) -> None:
    rig.settings(reopen_s=30.0)
    await rig.sensor.open()
    assert rig.sensor.absence is not None
    assert rig.sensor.absence.startswith("NVML is not available (Driver Not Loaded)")
    for _ in range(29):
        rig.clock.s += 1.0
        assert await rig.sensor.read() is None
    assert rig.nvml.calls("nvmlInitWithFlags") == 1
    rig.show(cards.rtx_4090())
    assert len((await rig.read()).devices) == 1
    assert rig.sensor.absence is None


async def test_a_driver_without_a_card_is_no_problem(rig: NvmlRig) -> None:
    rig.show()
    await rig.sensor.open()
    assert await rig.sensor.read() is None
    assert rig.sensor.absence == "NVML sees no GPU: decisions rest on vLLM's own readings"
    assert not rig.nvml.held


async def test_a_driver_that_was_there_and_is_unloaded_is_a_problem(rig: NvmlRig) -> None:
    rig.show(cards.rtx_4090())
    await rig.read()
    rig.show(cards.rtx_4090(), system={ALL: error(9)})
    for _ in range(40):
        with pytest.raises(RecoverableError, match="the kernel module nvidia was unloaded"):
            await rig.read()
    assert rig.sensor.absence is None


async def test_a_list_that_names_no_device_is_an_absence_and_not_a_problem(rig: NvmlRig) -> None:
    rig.show(cards.rtx_4090())
    rig.clock.s += 1.0
    assert await rig.sensor.read("") is None
    assert rig.sensor.absence == "no GPU is selected: CUDA_VISIBLE_DEVICES of the engine names none"
    assert len((await rig.read("0")).devices) == 1
    assert rig.sensor.absence is None


async def test_the_setting_goes_before_what_the_engine_says(rig: NvmlRig) -> None:
    rig.show(cards.a100_80g("GPU-a"), cards.a100_80g("GPU-b"))
    rig.settings(devices="GPU-b")
    assert [gpu.uuid for gpu in (await rig.read("0")).devices] == ["GPU-b"]
    rig.settings(devices=None)
    assert [gpu.uuid for gpu in (await rig.read("0")).devices] == ["GPU-a"]


async def test_a_list_of_which_nothing_is_found_is_a_problem(rig: NvmlRig) -> None:
    rig.show(cards.a100_80g())
    with pytest.raises(RecoverableError, match="cannot find GPU '3' of CUDA_VISIBLE_DEVICES of the engine = '3'"):
        await rig.read("3")


async def test_what_is_found_of_a_list_is_read_beside_the_problem_with_the_rest(rig: NvmlRig) -> None:
    rig.show(cards.a100_80g())
    reading = await rig.read("0,3")
    assert len(reading.devices) == 1
    assert reading.problems[0].startswith("cannot find GPU '3'")


async def test_a_card_that_answers_every_call_with_an_unknown_error_is_lost(rig: NvmlRig) -> None:
    sick = cards.a100_80g("GPU-b")
    rig.show(cards.a100_80g("GPU-a"), sick)
    await rig.read()
    sick.answers[ALL] = error(999)
    rig.show(cards.a100_80g("GPU-a"), sick)
    reading = await rig.read()
    assert [gpu.uuid for gpu in reading.devices] == ["GPU-a"]
    assert reading.lost == ("GPU-b",)


async def test_opening_and_closing_a_driver_that_hangs_ends_in_time_and_raises_nothing(rig: NvmlRig) -> None:
    rig.settings(timeout_s=0.05)
    rig.show(cards.a100_80g(), system={"nvmlInitWithFlags": hang(600)})
    await rig.sensor.open()
    with pytest.raises(RecoverableError, match="has not answered"):
        await rig.read()
    await rig.sensor.close()


async def test_after_taking_nvml_again_an_index_is_looked_up_anew(rig: NvmlRig) -> None:
    first, second = cards.a100_80g("GPU-a"), cards.a100_80g("GPU-b")
    rig.show(first, second)
    assert (await rig.read("1")).devices[0].uuid == "GPU-b"
    await rig.sensor.release()
    rig.show(second, first)
    await rig.sensor.take()
    assert (await rig.read("1")).devices[0].uuid == "GPU-a"
