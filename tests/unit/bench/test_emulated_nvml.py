"""The scripted NVML, as the unpatched nvidia-ml-py meets it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from bench.emulated_nvml import build as building
from bench.emulated_nvml import cards
from bench.emulated_nvml.build import NoLibrary, build
from bench.emulated_nvml.inprocess import LoadedNvml
from bench.emulated_nvml.script import VARIABLE, Machine, error, hang, numbers
from tests.nvml import scripted_nvml
from tests.programs import without


@pytest.fixture
def nvml(tmp_path: Path) -> Iterator[LoadedNvml]:
    with scripted_nvml(tmp_path) as nvml:
        yield nvml


def test_a_program_finds_it_by_the_loaders_path(tmp_path: Path) -> None:
    try:
        folder = build().parent
    except NoLibrary as missing:
        without(str(missing))
    script = tmp_path / "nvml.txt"
    Machine([cards.rtx_4090(), cards.gb10()]).write(script)
    asked = "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(1); print(n.nvmlDeviceGetName(h))"
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), VARIABLE: str(script)}
    ran = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "NVIDIA GB10\n", ran.stderr


def test_it_is_built_anew_when_its_source_changed_and_only_then(
    nvml: LoadedNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build()
    assert build() == before
    changed = tmp_path / "nvml.c"
    changed.write_bytes(building._SOURCE.read_bytes() + b"/* another */\n")
    monkeypatch.setattr(building, "_SOURCE", changed)
    monkeypatch.setattr(building, "_ROOT", tmp_path)
    assert build().parent.name != before.parent.name


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLibrary, match="there is no C compiler"):
        build()


def test_answers_change_while_a_program_runs(nvml: LoadedNvml) -> None:
    card = cards.a100_80g()
    nvml.show(Machine([card]))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for watts in (300, 310, 290):
        card.answers["nvmlDeviceGetPowerUsage"] = numbers(watts * 1000)
        nvml.show(Machine([card]))
        assert pynvml.nvmlDeviceGetPowerUsage(handle) == watts * 1000


@pytest.mark.parametrize("code", [3, 6, 15, 18, 999])
def test_each_call_can_fail_with_any_code(nvml: LoadedNvml, code: int) -> None:
    card = cards.a100_80g()
    card.answers["nvmlDeviceGetTemperature.0"] = error(code)
    nvml.show(Machine([card]))
    pynvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError) as caught:
        pynvml.nvmlDeviceGetTemperature(pynvml.nvmlDeviceGetHandleByIndex(0), pynvml.NVML_TEMPERATURE_GPU)
    assert caught.value.value == code


def test_a_call_that_hangs_ends_when_the_script_says_otherwise(nvml: LoadedNvml) -> None:
    card = cards.a100_80g()
    card.answers["nvmlDeviceGetPowerUsage"] = hang(600)
    nvml.show(Machine([card]))
    pynvml.nvmlInit()
    handle, answers = pynvml.nvmlDeviceGetHandleByIndex(0), []
    thread = threading.Thread(target=lambda: answers.append(pynvml.nvmlDeviceGetPowerUsage(handle)))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 9_000_000
    card.answers["nvmlDeviceGetPowerUsage"] = hang(0.01, then=numbers(5))
    nvml.show(Machine([card]))
    thread.join(30)
    assert answers == [5]


def test_a_handle_keeps_its_card_when_indices_move_and_is_lost_with_it(nvml: LoadedNvml) -> None:
    first, second = cards.a100_80g("GPU-1"), cards.a100_80g("GPU-2")
    nvml.show(Machine([first, second]))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    nvml.show(Machine([second]))
    assert (pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetIndex(handle)) == ("GPU-2", 0)
    nvml.show(Machine([first]))
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(handle)
    assert pynvml.nvmlDeviceGetCount() == 1
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID("GPU-1")) == "GPU-1"


def test_an_instance_knows_its_card(nvml: LoadedNvml) -> None:
    nvml.show(Machine([cards.rtx_4090(), card := cards.mig_a100()]))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 7
    instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 2)
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
    assert pynvml.nvmlDeviceGetUUID(parent) == card.uuid
    assert pynvml.nvmlDeviceIsMigDeviceHandle(instance).value == 1
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 3)


def test_nothing_answers_before_it_is_initialised_nor_after_it_is_shut_down(nvml: LoadedNvml) -> None:
    nvml.show(Machine([cards.a100_80g()]))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.held
    pynvml.nvmlShutdown()
    assert not nvml.held
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetPowerUsage(handle)


def test_both_versions_of_the_memory_call_tell_of_the_same_memory(nvml: LoadedNvml) -> None:
    nvml.show(Machine([cards.idle_a100()]))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    new, old = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2), pynvml.nvmlDeviceGetMemoryInfo(handle)
    assert (new.total, new.free, new.used + new.reserved) == (old.total, old.free, old.used)
    assert new.reserved == 904 * cards.MIB
