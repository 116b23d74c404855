"""GPUs: what each check on them comes out with."""

from __future__ import annotations

from bench.emulated_nvml import cards
from bench.emulated_nvml.cards import MIB, NOT_SUPPORTED
from bench.emulated_nvml.script import Card, error, numbers
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN
from controller.preflight.surroundings import GpusSeen
from tests.preflight_scene import Cases, Scene

CASES = Cases()
BAR1, ECC, MIG, LINK = (
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetNvLinkState.0",
)
DRIVER = "nvmlSystemGetDriverVersion"
GPU = "proc/driver/nvidia/gpus/0000:01:00.0/information"
DEVICES = "Character devices:\n  1 mem\n195 nvidia\n237 nvidia-uvm\n\nBlock devices:\n  8 sd\n"


def changed(card: Card, **answers: str) -> Card:
    card.answers |= {name.replace("__", "."): answer for name, answer in answers.items()}
    return card


def two_h100(scene: Scene, link: str) -> None:
    twins = (cards.h100_pcie(), cards.h100_pcie("GPU-b2000000-0000-0000-0000-000000000000"))
    for card in twins:
        card.answers[LINK] = link
    scene.cards(*twins)


for name in ("driver", "gpu_readings", "bar1", "mig", "ecc", "nvlink", "expected_qps"):

    @CASES(name, UNKNOWN, "the driver has not answered for a minute")
    def driver_hangs(scene: Scene) -> None:
        scene.gpus = GpusSeen(problem="cannot read NVML: the driver has not answered for a minute")

    @CASES(name, NOT_APPLICABLE, "NVML is not available")
    def no_gpu(_scene: Scene) -> None:
        return


@CASES("driver", PASS, "driver 570.133.20; 525.85.12 is the least")
def new_driver(scene: Scene) -> None:
    scene.cards(cards.a100_80g())


@CASES("driver", PASS, "driver 525.85.12")
def driver_of_just_that_version(scene: Scene) -> None:
    scene.cards(cards.a100_80g(), **{DRIVER: "525.85.12"})


@CASES("driver", FAIL, "driver 525.60.13 is older", "apt-get install --only-upgrade")
def old_driver(scene: Scene) -> None:
    scene.cards(cards.a100_80g(), **{DRIVER: "525.60.13"})


@CASES("driver", UNKNOWN, "does not tell the driver's version")
def silent_on_its_version(scene: Scene) -> None:
    scene.cards(cards.a100_80g(), **{DRIVER: error(999)})


@CASES("gpu_access", NOT_APPLICABLE, "has no GPU here")
def no_driver(_scene: Scene) -> None:
    return


@CASES("gpu_access", PASS, "the kernel has 1 GPU")
def gpu_that_is_read(scene: Scene) -> None:
    scene.file(GPU, "GPU UUID: GPU-a1\n")
    scene.cards(cards.a100_80g())


@CASES("gpu_access", FAIL, "a device policy", "DeviceAllow=char-nvidia rw\\nDeviceAllow=char-nvidia-uvm rw")
def gpu_that_a_device_policy_hides(scene: Scene) -> None:
    scene.file(GPU, "GPU UUID: GPU-a1\n")
    scene.file("proc/devices", DEVICES)
    scene.gpus = GpusSeen(absence="NVML sees no GPU: decisions rest on vLLM's own readings")


@CASES("gpu_access", UNKNOWN, "NVML was released")
def released(scene: Scene) -> None:
    scene.file(GPU, "GPU UUID: GPU-a1\n")
    scene.gpus = GpusSeen(absence="NVML was released by the operator and is not read until it is taken again")


@CASES("gpu_readings", PASS, "utilisation and memory of 1 devices")
def all_readings(scene: Scene) -> None:
    scene.cards(cards.a100_80g())


@CASES("gpu_readings", WARN, "utilization unknown (not supported), so rules on an idle or a busy GPU stay silent")
def mig_hides_utilisation(scene: Scene) -> None:
    scene.cards(cards.mig_a100())


@CASES("gpu_readings", FAIL, "cannot read GPU GPU-a2: NVML says that the GPU is lost", "gpu-reset -i GPU-a2")
def lost_gpu(scene: Scene) -> None:
    scene.cards(cards.a100_80g(), changed(cards.a100_80g("GPU-a2"), **{BAR1: error(15)}))


@CASES("bar1", PASS, "256 is the least")
def large_bar1(scene: Scene) -> None:
    scene.cards(changed(cards.a100_80g(), **{BAR1: numbers(256 * MIB, 0, 0)}))


@CASES("bar1", FAIL, "has 128 MiB", "--firmware-setup")
def small_bar1_on_one_of_two(scene: Scene) -> None:
    small = changed(cards.a100_80g("GPU-a2"), **{BAR1: numbers(128 * MIB, 0, 0)})
    scene.cards(cards.a100_80g(), small)


@CASES("bar1", NOT_APPLICABLE, "NVIDIA GH200 480GB has no BAR1")
def no_bar1(scene: Scene) -> None:
    scene.cards(cards.gh200())


@CASES("bar1", UNKNOWN, "cannot be read: Unknown Error")
def bar1_that_fails(scene: Scene) -> None:
    scene.cards(changed(cards.a100_80g(), **{BAR1: error(999)}))


@CASES("mig", PASS, "MIG is on on 1 A100-80G")
def cut_a100(scene: Scene) -> None:
    scene.cards(cards.mig_a100())


@CASES("mig", WARN, "off on 1 of 1 A100-80G", "nvidia-smi -i GPU-a1000000")
def whole_a100(scene: Scene) -> None:
    scene.cards(cards.a100_80g())


@CASES("mig", NOT_APPLICABLE, "no A100-80G here, but NVIDIA H100 PCIe")
def other_card(scene: Scene) -> None:
    scene.cards(cards.h100_pcie())


@CASES("mig", UNKNOWN, "does not tell the MIG mode")
def mig_that_fails(scene: Scene) -> None:
    scene.cards(changed(cards.a100_80g(), **{MIG: error(999)}))


@CASES("ecc", PASS, "ECC is off on 1 RTX 4090")
def ecc_off(scene: Scene) -> None:
    scene.cards(cards.rtx_4090())


@CASES("ecc", WARN, "ECC is on on 1 of 1", "--ecc-config=0")
def ecc_on(scene: Scene) -> None:
    scene.cards(changed(cards.rtx_4090(), **{ECC: numbers(1, 1)}))


@CASES("ecc", NOT_APPLICABLE, "these GPUs have no ECC")
def no_ecc(scene: Scene) -> None:
    scene.cards(changed(cards.rtx_4090(), **{ECC: NOT_SUPPORTED}))


@CASES("ecc", FAIL, "cannot be read: Unknown Error", "-q -d ECC")
def ecc_that_fails(scene: Scene) -> None:
    scene.cards(changed(cards.rtx_4090(), **{ECC: error(999)}))


@CASES("nvlink", PASS, "in use on all 2")
def bridged(scene: Scene) -> None:
    two_h100(scene, "1")


@CASES("nvlink", WARN, "2 of 2 H100-PCIE-80G have no NVLink in use", "nvlink --status")
def not_bridged(scene: Scene) -> None:
    two_h100(scene, NOT_SUPPORTED)


@CASES("nvlink", NOT_APPLICABLE, "nothing to bridge")
def one_h100(scene: Scene) -> None:
    scene.cards(cards.h100_pcie())


@CASES("nvlink", UNKNOWN, "does not tell the NVLinks")
def nvlink_that_fails(scene: Scene) -> None:
    two_h100(scene, error(999))
