"""Checks before and beside the work, as operators met what they overlook: a check that fails open is worse than none.

Each test is one law; the case it retells stands in its docstring.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.emulated_nvml import cards
from bench.emulated_nvml.cards import NOT_SUPPORTED
from bench.emulated_nvml.script import error, numbers
from controller.preflight import cgroup
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, WARN
from controller.preflight.surroundings import GpusSeen
from tests.nvml import NvmlRig, scripted_nvml
from tests.preflight_scene import GIB, PARENT, Scene

MIB = 1024**2
NO_LIMIT_V1 = "9223372036854771712"
ECC = "nvmlDeviceGetEccMode"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    with scripted_nvml(tmp_path) as nvml:
        rig = NvmlRig(nvml)
        (tmp_path / "scene").mkdir()
        yield Scene(tmp_path / "scene", rig)
        await rig.sensor.close()


async def test_unified_memory_has_no_bar1_to_fail_on_and_its_memory_is_unknown_not_empty(scene: Scene) -> None:
    """N1: GB10 refuses every memory query and BAR1."""
    scene.cards(cards.gb10())
    bar1, readings, driver = [await scene.ask(name) for name in ("bar1", "gpu_readings", "driver")]
    assert bar1.state is NOT_APPLICABLE
    assert readings.state is WARN
    assert "memory unknown (unified memory), so rules on GPU memory and the emergency purge for it stay off" in (
        readings.why
    )
    assert driver.state is PASS


async def test_a_card_without_bar1_but_with_memory_is_well(scene: Scene) -> None:
    """N1: GH200 has memory and no BAR1."""
    scene.cards(cards.gh200())
    assert (await scene.ask("bar1")).state is NOT_APPLICABLE
    assert (await scene.ask("gpu_readings")).state is PASS


async def test_utilisation_that_mig_hides_is_told_as_unknown_with_what_is_off_for_it(scene: Scene) -> None:
    """N2: NVML answers utilisation with "not supported" under MIG; memory is the instance's."""
    scene.cards(cards.mig_a100(instances=2))
    found = await scene.ask("gpu_readings")
    assert found.state is WARN
    assert "utilization unknown (not supported), so rules on an idle or a busy GPU stay silent" in found.why
    assert "memory" not in found.why


async def test_a_lost_gpu_fails_and_the_others_are_still_checked(scene: Scene) -> None:
    """N5: GPU B answers 15; a reset needs the daemon to let go of NVML first."""
    lost = cards.a100_80g("GPU-b")
    lost.answers["nvmlDeviceGetUtilizationRates"] = error(15)
    scene.cards(cards.a100_80g("GPU-a"), lost)
    found = await scene.ask("gpu_readings")
    assert found.state is FAIL
    assert found.cure is not None
    assert "vllm-governor gpu release && sudo nvidia-smi --gpu-reset -i GPU-b" in found.cure
    assert (await scene.ask("bar1")).state is PASS


async def test_a_device_rule_that_names_nothing_is_told_with_the_names_that_would_work(scene: Scene) -> None:
    """S4: `DeviceAllow=char-nvidia-frontend` and a driver that calls its devices `nvidia`: init fine, 0 GPUs."""
    scene.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: GPU-a\n")
    scene.file("proc/devices", "Character devices:\n195 nvidia\n236 nvidia-uvm\n237 nvidia-caps\n\nBlock devices:\n")
    scene.cards(nvmlDeviceGetCount_v2=numbers(0))
    seen = (await scene.around()).gpus
    assert seen.reading is None
    assert seen.problem is None, "NVML itself finds nothing wrong"
    found = await scene.ask("gpu_access")
    assert found.state is FAIL
    assert "the kernel has 1 GPU and NVML shows none" in found.why
    assert found.cure is not None
    assert "char-nvidia-frontend" not in found.cure
    for name in ("nvidia", "nvidia-uvm", "nvidia-caps"):
        assert f"DeviceAllow=char-{name} rw" in found.cure


async def test_a_directory_that_cannot_be_written_fails_before_sqlite_does(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: `ReadWritePaths=` names the database file alone, so SQLite's -wal cannot be made beside it."""

    def read_only(**_asked: object) -> None:
        raise OSError(30, "Read-only file system")

    (scene.folder / "history.db").write_bytes(b"")
    monkeypatch.setattr("store.health.tempfile.TemporaryFile", read_only)
    found = await scene.ask("disk")
    assert found.state is FAIL
    assert f"ReadWritePaths={scene.folder}" in found.why
    assert found.cure is not None


@pytest.mark.parametrize(
    ("files", "group", "limit"),
    [
        ({"cgroup.controllers": "memory", "vllm/memory.max": "max"}, "0::/vllm", None),
        ({"memory/vllm/memory.limit_in_bytes": NO_LIMIT_V1}, "4:cpu,memory:/vllm\n0::/", None),
        (
            {"cgroup.controllers": "memory", "box/memory.max": str(512 * MIB), "box/vllm/memory.max": "max"},
            "0::/box/vllm",
            512 * MIB,
        ),
        (
            {
                "memory/memory.limit_in_bytes": NO_LIMIT_V1,
                "memory/box/memory.limit_in_bytes": str(512 * MIB),
                "memory/box/vllm/memory.limit_in_bytes": str(8 * GIB),
            },
            "4:memory:/box/vllm",
            512 * MIB,
        ),
    ],
    ids=["max", "largest number of version 1", "the parent's 512 MiB", "the parent's in version 1"],
)
def test_the_limit_is_the_lowest_on_the_way_up_and_no_limit_is_none(
    scene: Scene, files: dict[str, str], group: str, limit: int | None
) -> None:
    """S5: `memory.max` "max"; version 1's 9223372036854771712; a parent group of 512 MiB."""
    for name, text in files.items():
        scene.file(f"sys/fs/cgroup/{name}", text)
    assert cgroup.limits(group, scene.roots.sys).memory == limit


def test_what_the_kernel_keeps_of_files_is_no_use_of_memory_in_either_version(scene: Scene) -> None:
    for folder, files in (
        ("", {"cgroup.controllers": "memory", "v/memory.max": "100", "v/memory.current": "99"}),
        ("memory/", {"memory/v/memory.limit_in_bytes": "100", "memory/v/memory.usage_in_bytes": "99"}),
    ):
        for name, text in files.items():
            scene.file(f"sys/fs/cgroup/{name}", text)
        own, total = "inactive_file 1\nactive_file 1\n", "total_inactive_file 40\ntotal_active_file 30\n"
        stat = own + total if folder else "inactive_file 40\nactive_file 30\n"
        scene.file(f"sys/fs/cgroup/{folder}v/memory.stat", stat)
        group = "4:memory:/v" if folder else "0::/v"
        assert cgroup.limits(group, scene.roots.sys).used == 29


async def test_ecc_that_a_card_has_not_is_no_failure_and_ecc_that_cannot_be_read_is(scene: Scene) -> None:
    """S5: ECC answers 3 (not supported) or 999 (unknown error)."""
    card = cards.rtx_4090()
    card.answers[ECC] = NOT_SUPPORTED
    scene.cards(card)
    assert (await scene.ask("ecc")).state is NOT_APPLICABLE
    other = cards.a100_80g()
    other.answers[ECC] = error(999)
    scene.cards(other)
    assert (await scene.ask("ecc")).state is FAIL


async def test_a_limit_of_1024_open_files_warns_with_the_streams_that_it_allows(scene: Scene) -> None:
    """S5: nofile 1024 with a load test of 1024 streams."""
    scene.process(PARENT, limits="Max open files            1024                 524288               files\n")
    scene.process()
    found = await scene.ask("open_files")
    assert found.state is WARN
    assert "more than 1024 streams at a time fail" in found.why
    assert found.cure == f"sudo prlimit --pid {PARENT} --nofile=100000:100000"


async def test_a_released_nvml_is_not_taken_for_a_machine_without_gpus(scene: Scene) -> None:
    """N5: while an operator resets a GPU the checks know nothing, and say so instead of "not applicable"."""
    scene.gpus = GpusSeen(absence="NVML was released by the operator and is not read until it is taken again")
    states = {name: (await scene.ask(name)).state.value for name in ("driver", "bar1", "ecc", "gpu_readings")}
    assert set(states.values()) == {"unknown"}
