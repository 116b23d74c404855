"""The machine and its kernel: what each check on them comes out with."""

from __future__ import annotations

from datetime import UTC, datetime

from bench.emulated_nvml import cards
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN
from controller.preflight.surroundings import KernelClock
from tests.preflight_scene import GIB, PARENT, PID, Cases, Scene

CASES = Cases()
NUMA, NODES = "proc/sys/kernel/numa_balancing", "sys/devices/system/node/online"
GROUP = "sys/fs/cgroup/system.slice/vllm.service"
CARD = cards.a100_80g().uuid
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            {}      {}      files
"""


def limited(scene: Scene, limit: str, used: int = 10 * GIB, memory_gib: int = 256, swap: str | None = None) -> None:
    """vLLM's cgroup, on a machine with so much memory; `swap`: the machine has some, and the group this limit of it."""
    scene.process()
    scene.file("sys/fs/cgroup/cgroup.controllers", "cpu memory")
    scene.file(f"{GROUP}/memory.max", limit)
    scene.file(f"{GROUP}/memory.current", str(used))
    swaps = f"SwapTotal: {8 * 1024**2 if swap else 0} kB\n"
    scene.file("proc/meminfo", f"MemTotal: {memory_gib * 1024**2} kB\n{swaps}")
    if swap is not None:
        scene.file(f"{GROUP}/memory.swap.max", swap)


def two_nodes(scene: Scene, allowed: str) -> None:
    """One GPU, near CPUs 0 to 15 of 32."""
    scene.cards(cards.a100_80g())
    scene.file(NODES, "0-1")
    scene.file("proc/driver/nvidia/gpus/0000:C1:00.0/information", f"Model: A100\nGPU UUID: {CARD}\n")
    scene.file("sys/bus/pci/devices/0000:c1:00.0/local_cpulist", "0-15")
    scene.process(status=f"Cpus_allowed_list:\t{allowed}\n")


def opened(scene: Scene, soft: str, used: int = 3) -> None:
    scene.process(PARENT, limits=LIMITS.format(soft, soft))
    scene.process()
    for number in range(used):
        scene.file(f"proc/{PARENT}/fd/{number}", "")


@CASES("numa_balancing", PASS, "is 0")
def balancing_off(scene: Scene) -> None:
    scene.file(NUMA, "0\n")


@CASES("numa_balancing", FAIL, "is 1 on 2 NUMA nodes", "echo 0 | sudo tee /proc/sys/kernel/numa_balancing")
def balancing_on(scene: Scene) -> None:
    scene.file(NUMA, "1\n")
    scene.file(NODES, "0-1\n")


@CASES("numa_balancing", NOT_APPLICABLE, "one NUMA node")
def balancing_of_one_node(scene: Scene) -> None:
    scene.file(NUMA, "1\n")
    scene.file(NODES, "0\n")


@CASES("numa_balancing", NOT_APPLICABLE, "has no NUMA balancing")
def kernel_without_it(_scene: Scene) -> None:
    return


@CASES("cgroup_memory", PASS, "the limit is 88 GiB (cgroup /system.slice/vllm.service)")
def the_seeds_limit(scene: Scene) -> None:
    limited(scene, str(88 * GIB), swap=str(2 * GIB))


@CASES("cgroup_memory", PASS, "the limit is 60 GiB")
def most_of_a_smaller_machine(scene: Scene) -> None:
    limited(scene, str(60 * GIB), memory_gib=64)


@CASES("cgroup_memory", WARN, "has no memory limit", "set-property vllm.service MemoryMax=88G MemorySwapMax=2G")
def no_limit(scene: Scene) -> None:
    limited(scene, "max")


@CASES("cgroup_memory", WARN, "under the seeds' 88 GB of 256 GiB", "MemoryMax=88G")
def low_limit(scene: Scene) -> None:
    limited(scene, str(40 * GIB))


@CASES("cgroup_memory", WARN, "more than the 64 GiB that there are", "MemoryMax=88G")
def limit_beyond_the_machine(scene: Scene) -> None:
    limited(scene, str(88 * GIB), memory_gib=64)


@CASES("cgroup_memory", WARN, "swap is not limited", "MemorySwapMax=2G")
def swap_without_a_limit(scene: Scene) -> None:
    limited(scene, str(88 * GIB), swap="max")


@CASES("cgroup_memory", FAIL, "95% of the limit of 88 GiB", "MemoryMax=88G")
def about_to_be_killed(scene: Scene) -> None:
    limited(scene, str(88 * GIB), used=int(83.6 * GIB))


@CASES("cgroup_memory", PASS, "the limit is 88 GiB")
def full_of_the_models_files(scene: Scene) -> None:
    limited(scene, str(88 * GIB), used=87 * GIB)
    scene.file(f"{GROUP}/memory.stat", f"anon {9 * GIB}\ninactive_file {40 * GIB}\nactive_file {38 * GIB}\n")


@CASES("cgroup_memory", UNKNOWN, "share the PID namespace")
def another_pid_namespace(scene: Scene) -> None:
    scene.runtime()
    scene.file(f"proc/{PID}/comm", "bash")


@CASES("cgroup_memory", UNKNOWN, "the plugin does not answer")
def no_plugin(_scene: Scene) -> None:
    return


@CASES("cgroup_memory", WARN, "has no memory limit", "docker update --memory=88G --memory-swap=90G")
def container_without_a_limit(scene: Scene) -> None:
    limited(scene, "max")
    scene.file(f"proc/{PID}/cgroup", "0::/")


@CASES("cpu_affinity", NOT_APPLICABLE, "one NUMA node")
def one_node(_scene: Scene) -> None:
    return


@CASES("cpu_affinity", PASS, "CPUs 0-7,9, near its GPUs are 0-15")
def kept_near(scene: Scene) -> None:
    two_nodes(scene, "0-7,9")


@CASES("cpu_affinity", WARN, "it is not kept to them", f"taskset -apc 0-15 {PID}")
def anywhere(scene: Scene) -> None:
    two_nodes(scene, "0-31")


@CASES("cpu_affinity", FAIL, "every transfer crosses the nodes", f"taskset -apc 0-15 {PID}")
def on_the_other_node(scene: Scene) -> None:
    two_nodes(scene, "16-31")


@CASES("cpu_affinity", UNKNOWN, "does not tell which CPUs are near")
def gpu_that_the_kernel_does_not_place(scene: Scene) -> None:
    two_nodes(scene, "0-31")
    scene.file("proc/driver/nvidia/gpus/0000:C1:00.0/information", "GPU UUID: GPU-another\n")


@CASES("open_files", PASS, "may open 100000 files and has 3 open")
def many_files(scene: Scene) -> None:
    opened(scene, "100000")


@CASES("open_files", PASS, "not limited")
def files_without_a_limit(scene: Scene) -> None:
    opened(scene, "unlimited")


@CASES("open_files", WARN, "more than 1024 streams at a time fail", f"prlimit --pid {PARENT} --nofile=100000:100000")
def few_files(scene: Scene) -> None:
    opened(scene, "1024")


@CASES("open_files", FAIL, "EMFILE", f"prlimit --pid {PARENT}")
def nearly_all_files_open(scene: Scene) -> None:
    opened(scene, "64", used=60)


@CASES("open_files", UNKNOWN, "no line of open files")
def limits_without_the_line(scene: Scene) -> None:
    opened(scene, "64")
    scene.file(f"proc/{PARENT}/limits", "Max cpu time unlimited\n")


@CASES("clock", PASS, "off by 2 ms at most")
def right_clock(_scene: Scene) -> None:
    return


@CASES("clock", WARN, "not synchronised", "timedatectl set-ntp true")
def clock_by_itself(scene: Scene) -> None:
    scene.clock = KernelClock(False, 16.0)


@CASES("clock", FAIL, "the clock shows 1970-01-01", "timedatectl set-ntp true")
def clock_of_a_dead_battery(scene: Scene) -> None:
    scene.now = datetime(1970, 1, 1, tzinfo=UTC)


@CASES("clock", UNKNOWN, "adjtimex")
def kernel_that_does_not_say(scene: Scene) -> None:
    scene.clock = None
