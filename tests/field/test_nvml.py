"""NVML as operators met it: what cards do not tell, drivers that go away, answers that never come.

Each test is one law; the case it retells stands in its docstring.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.emulated_nvml import cards
from bench.emulated_nvml.cards import GIB, MIB
from bench.emulated_nvml.script import ALL, Card, error, hang, numbers
from controller.sensing import Sensing
from domain.errors import RecoverableError
from domain.readings.gpu import GpuReading, MemoryApi
from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot, Source
from tests.nvml import NvmlRig, scripted_nvml


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[NvmlRig]:
    with scripted_nvml(tmp_path) as nvml:
        rig = NvmlRig(nvml)
        yield rig
        await rig.sensor.close()


class Fake:
    """A source other than the GPUs: answers the same at every tick."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def read(self) -> Any:
        return self._answer


def sensing(rig: NvmlRig) -> Sensing:
    """All sensors of the daemon; those that are not NVML's are well."""

    def others(answer: Any) -> Any:
        return Fake(answer)

    return Sensing(
        rig.clock, others((None, None)), others(VllmReading(running=3.0)), others(None), rig.sensor, others(None)
    )


async def tick(rig: NvmlRig, one: Sensing, after_s: float = 1.0) -> Snapshot:
    rig.clock.s += after_s
    return await one.snapshot()


def nvml_threads() -> int:
    return sum(thread.name == "nvml" for thread in threading.enumerate())


async def test_memory_that_is_shared_with_the_cpu_is_unknown_and_the_rest_is_read(rig: NvmlRig) -> None:
    """Field case N1: GB10 answers 3 to both memory calls and to BAR1."""
    gpu = await rig.one(cards.gb10())
    assert gpu.memory is None
    assert gpu.unknown["memory"] == "unified memory"
    assert (gpu.bar1_total_bytes, gpu.bar1_used_bytes) == (None, None)
    assert gpu.unknown["bar1_total_bytes"] == gpu.unknown["bar1_used_bytes"] == "not supported"
    assert gpu.power_w == pytest.approx(11.0)
    assert gpu.utilization_ratio == pytest.approx(0.37)


async def test_a_card_without_bar1_has_its_memory_read(rig: NvmlRig) -> None:
    """Field case N1: GH200 has memory of its own, and no BAR1."""
    gpu = await rig.one(cards.gh200())
    assert gpu.memory is not None
    assert gpu.memory.total_bytes == 96 * GIB
    assert gpu.bar1_total_bytes is None
    assert gpu.unknown["bar1_total_bytes"] == "not supported"
    assert "memory" not in gpu.unknown


async def test_a_mig_instances_utilisation_is_unknown_and_its_memory_is_its_own(rig: NvmlRig) -> None:
    """Field case N2: utilisation -> 3 under MIG; the memory that counts is that of vLLM's instance."""
    rig.show(cards.a100_80g(), card := cards.mig_a100())
    (gpu,) = (await rig.read(card.instances[1].answers["nvmlDeviceGetUUID"])).devices
    assert gpu.utilization_ratio is None
    assert gpu.unknown["utilization_ratio"] == "not supported"
    assert gpu.memory is not None
    assert (gpu.memory.total_bytes, gpu.memory.used_bytes) == (20 * GIB, 3 * GIB)
    assert (gpu.card_uuid, gpu.index, gpu.mig_enabled) == (card.uuid, 1, True)


async def test_processes_that_the_driver_cannot_list_are_unknown_and_not_none_running(rig: NvmlRig) -> None:
    """Field case N2: the process list -> 999 on WSL2, while other calls are answered."""
    card = cards.rtx_4090()
    card.answers["nvmlDeviceGetComputeRunningProcesses_v3"] = error(999)
    gpu = await rig.one(card)
    assert gpu.processes is None
    assert gpu.unknown["processes"] == "Unknown Error"
    assert gpu.memory is not None


async def test_a_driver_that_goes_away_is_waited_for_and_the_other_sources_go_on(rig: NvmlRig) -> None:
    """Field case N4: five good polls, then every call and initialising answer 999."""
    rig.show(card := cards.a100_80g())
    rig.settings(reopen_s=30.0)
    one = sensing(rig)
    for _ in range(5):
        snapshot = await tick(rig, one)
        assert snapshot.gpus is not None
        assert snapshot.problems == {}
    rig.show(card, system={ALL: error(999)})
    begun = rig.nvml.calls("nvmlInitWithFlags")
    for _ in range(59):
        snapshot = await tick(rig, one)
        assert snapshot.gpus is None
        assert snapshot.vllm == VllmReading(running=3.0)
        problem = snapshot.problems[Source.GPU]
        assert problem.startswith(("cannot read NVML: Unknown Error (999): ", "cannot initialise NVML: Unknown Error"))
        assert "the driver was reloaded, or a reload of systemd took the devices away" in problem
    assert rig.nvml.calls("nvmlInitWithFlags") - begun == 1
    rig.show(card)
    snapshot = await tick(rig, one, after_s=30.0)
    assert snapshot.gpus is not None
    assert snapshot.problems == {}


async def test_a_library_that_does_not_fit_its_driver_leaves_the_daemon_up_and_is_said_once(
    rig: NvmlRig, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case N4: initialising answers 18 at the start, after an unattended upgrade."""
    rig.show(cards.a100_80g(), system={"nvmlInitWithFlags": error(18)})
    caplog.set_level(logging.INFO)
    one = sensing(rig)
    await rig.sensor.open()
    assert rig.sensor.absence is None
    for _ in range(120):
        snapshot = await tick(rig, one)
        assert snapshot.vllm is not None
        assert "(18): probably the driver's library and its kernel module differ" in snapshot.problems[Source.GPU]
    assert rig.nvml.calls("nvmlDeviceGetPowerUsage") == 0
    assert [r.message for r in caplog.records if "NVML" in r.message] == [f"gpu: {snapshot.problems[Source.GPU]}"]


def eight() -> list[Card]:
    """Eight cards that differ in their energy: 1 kJ for the first, 8 kJ for the last."""
    made = [cards.a100_80g(f"GPU-{letter}") for letter in "abcdefgh"]
    for number, card in enumerate(made, 1):
        card.answers["nvmlDeviceGetTotalEnergyConsumption"] = numbers(number * 1_000_000)
    return made


def energies(devices: tuple[GpuReading, ...]) -> dict[str, float | None]:
    return {gpu.uuid[-1]: gpu.energy_j for gpu in devices}


async def test_a_lost_card_takes_no_other_with_it_and_no_card_is_taken_for_another(rig: NvmlRig) -> None:
    """Field case N5: GPU B -> 15 three times; count 8 -> 7 -> 8 with shifted indices."""
    whole = eight()
    energy = {card.uuid[-1]: 1000.0 * number for number, card in enumerate(whole, 1)}
    without_b = {letter: value for letter, value in energy.items() if letter != "b"}
    every = ",".join(map(str, range(8)))
    rig.show(*whole)
    assert energies((await rig.read(every)).devices) == energy

    whole[1].answers[ALL] = error(15)
    rig.show(*whole)
    for _ in range(3):
        reading = await rig.read(every)
        assert energies(reading.devices) == without_b
        assert reading.lost == ("GPU-b",)
        assert "cannot read GPU GPU-b: NVML says that the GPU is lost" in reading.problems[0]

    rig.show(*(card for card in whole if card is not whole[1]))
    reading = await rig.read(every)
    assert energies(reading.devices) == without_b
    assert {gpu.uuid[-1]: gpu.index for gpu in reading.devices}["c"] == 1
    assert reading.lost == ("GPU-b",)

    del whole[1].answers[ALL]
    rig.show(*whole[2:], *whole[:2])
    reading = await rig.read(every)
    assert energies(reading.devices) == energy
    assert (reading.lost, reading.problems) == ((), ())


async def test_a_card_whose_handle_died_is_read_again_once_nvml_was_initialised_anew(rig: NvmlRig) -> None:
    """Field case N5: cached handles die with a GPU that was reset; the sensor renews them slowly, not at every tick."""
    rig.settings(reopen_s=30.0)
    whole = eight()
    rig.show(*whole)
    await rig.read()
    whole[1].answers[ALL] = error(15)
    rig.show(*whole)
    begun = rig.nvml.calls("nvmlInitWithFlags")
    for _ in range(90):
        assert len((await rig.read()).devices) == 7
    assert 2 <= rig.nvml.calls("nvmlInitWithFlags") - begun <= 4
    del whole[1].answers[ALL]
    rig.show(*whole)
    assert len((await rig.read(after_s=30.0)).devices) == 8


async def test_after_a_release_nothing_of_the_driver_is_held_until_it_is_taken_again(rig: NvmlRig) -> None:
    """Field case N5: a monitoring client blocks the reset of a GPU."""
    rig.show(cards.h100_pcie())
    await rig.read()
    assert rig.nvml.held
    await rig.sensor.release()
    assert not rig.nvml.held
    begun = rig.nvml.calls("nvmlInitWithFlags")
    rig.clock.s += 3600
    assert await rig.sensor.read() is None
    assert rig.sensor.absence is not None
    assert "released by the operator" in rig.sensor.absence
    assert rig.nvml.calls("nvmlInitWithFlags") == begun
    await rig.sensor.take()
    assert rig.sensor.absence is None
    assert len((await rig.read()).devices) == 1


async def test_a_call_that_never_returns_costs_one_thread_and_no_old_value_is_served(rig: NvmlRig) -> None:
    """Field case N6: nvmlDeviceGetMemoryInfo blocks for 600 s from poll 10 on."""
    rig.show(card := cards.a100_80g())
    one = sensing(rig)
    for _ in range(9):
        assert (await tick(rig, one)).gpus is not None
    card.answers["nvmlDeviceGetMemoryInfo_v2"] = hang(600)
    rig.show(card)
    rig.settings(timeout_s=0.02)
    asked = rig.nvml.calls("nvmlDeviceGetMemoryInfo_v2")
    said: list[str] = []
    for _ in range(80):
        snapshot = await tick(rig, one)
        assert snapshot.gpus is None
        assert snapshot.vllm is not None
        assert nvml_threads() == 1
        said.append(snapshot.problems[Source.GPU])
    assert rig.nvml.calls("nvmlDeviceGetMemoryInfo_v2") - asked == 1
    assert said[0].startswith("cannot read NVML: the driver has not answered for 0.02 s")
    assert said[-1].startswith("cannot read NVML: the driver has not answered for a minute")
    assert len(set(said)) == 3, "a lasting silence must not be news at every tick"


async def test_a_driver_known_to_be_silent_holds_the_ticks_up_no_more(rig: NvmlRig) -> None:
    """Field case N6: every tick would be longer by the deadline for as long as the call hangs."""
    card = cards.a100_80g()
    card.answers["nvmlDeviceGetMemoryInfo_v2"] = hang(600)
    rig.show(card)
    rig.settings(timeout_s=1.0)
    running, waited_s = asyncio.get_running_loop(), []
    for _ in range(4):
        began_s = running.time()
        with pytest.raises(RecoverableError):
            await rig.read()
        waited_s.append(running.time() - began_s)
    assert waited_s[0] >= 0.9
    assert sum(waited_s[1:]) < 0.9


async def test_an_answer_that_comes_too_late_is_not_taken_for_a_fresh_one(rig: NvmlRig) -> None:
    """Field case N6: old values keep being served."""
    card = cards.a100_80g()
    card.answers["nvmlDeviceGetMemoryInfo_v2"] = hang(600)
    rig.show(card)
    rig.settings(timeout_s=0.1)
    with pytest.raises(RecoverableError, match="has not answered"):
        await rig.read()
    cards.set_memory(card, 80 * GIB, used=GIB, reserved=GIB)
    card.answers["nvmlDeviceGetPowerUsage"] = numbers(111_000)  # read before the call that hung
    rig.show(card)
    rig.settings()
    (gpu,) = (await rig.read()).devices
    assert gpu.power_w == pytest.approx(111.0)


async def test_a_release_during_a_silence_is_refused_and_carried_out_when_it_ends(rig: NvmlRig) -> None:
    """Field cases N5 and N6: a hanging call holds the driver, and no one else can let go of it."""
    card = cards.a100_80g()
    card.answers["nvmlDeviceGetPowerUsage"] = hang(600)
    rig.show(card)
    rig.settings(timeout_s=0.1)
    with pytest.raises(RecoverableError):
        await rig.read()
    with pytest.raises(RecoverableError, match="has not answered"):
        await rig.sensor.release()
    rig.show(cards.a100_80g())
    rig.settings()
    assert await rig.sensor.read() is None
    assert not rig.nvml.held


async def test_what_the_driver_reserves_is_not_counted_as_used(rig: NvmlRig) -> None:
    """Field case N8: an idle A100, v1 used 912 MiB; v2 used 8, reserved 904."""
    card = cards.idle_a100()
    memory = (await rig.one(card)).memory
    assert memory is not None
    assert (memory.used_bytes, memory.reserved_bytes, memory.api) == (8 * MIB, 904 * MIB, MemoryApi.V2)
    assert memory.used_bytes + 904 * MIB + memory.free_bytes == memory.total_bytes


async def test_a_fall_back_to_the_old_memory_call_is_on_record(rig: NvmlRig) -> None:
    """Field case N8: a driver without v2 shows 904 MiB more, which is no leak."""
    card = cards.idle_a100()
    card.answers["nvmlDeviceGetMemoryInfo_v2"] = error(13)
    memory = (await rig.one(card)).memory
    assert memory is not None
    assert (memory.used_bytes, memory.reserved_bytes, memory.api) == (912 * MIB, None, MemoryApi.V1)


async def test_a_memory_call_that_fails_once_does_not_switch_to_the_other(rig: NvmlRig) -> None:
    """Field case N8: the version changes with the driver, never from tick to tick."""
    card = cards.idle_a100()
    card.answers["nvmlDeviceGetMemoryInfo_v2"] = error(999)
    gpu = await rig.one(card)
    assert gpu.memory is None
    assert gpu.unknown["memory"] == "Unknown Error"


async def test_an_energy_counter_is_handed_on_as_the_card_tells_it(rig: NvmlRig) -> None:
    """Field case E2: the counter goes backward; the estimator makes the total of it."""
    card, read = cards.a100_80g(), []
    for millijoules in (9_000_000, 9_600_000, 120_000, 720_000):
        card.answers["nvmlDeviceGetTotalEnergyConsumption"] = numbers(millijoules)
        read.append((await rig.one(card)).energy_j)
    assert read == [9000.0, 9600.0, 120.0, 720.0]


async def test_only_the_engines_own_cards_are_read(rig: NvmlRig) -> None:
    """Field case E3: eight cards of 300 W, vLLM on two of them."""
    rig.show(*eight())
    devices = (await rig.read("2,5")).devices
    assert [gpu.uuid for gpu in devices] == ["GPU-c", "GPU-f"]
    assert sum(gpu.power_w or 0.0 for gpu in devices) == pytest.approx(600.0)


async def test_rows_of_one_cut_card_name_the_card_whose_power_they_repeat(rig: NvmlRig) -> None:
    """Field case E3: three MIG rows of 52.6 W, one card."""
    rig.show(card := cards.mig_a100())
    devices = (await rig.read()).devices
    assert [gpu.power_w for gpu in devices] == pytest.approx([52.6] * 3)
    assert {gpu.card_uuid for gpu in devices} == {card.uuid}
    assert len({gpu.uuid for gpu in devices}) == 3


async def test_a_hanging_driver_does_not_hold_up_the_event_loop(rig: NvmlRig) -> None:
    """Field case N6: REST and the watchdog live on the same loop."""
    card = cards.a100_80g()
    card.answers["nvmlDeviceGetMemoryInfo_v2"] = hang(600)
    rig.show(card)
    rig.settings(timeout_s=0.3)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    with pytest.raises(RecoverableError):
        await rig.read()
    beside.cancel()
    assert turns > 100
