"""vLLM runs on the CPUs that are near its GPUs.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight import processes
from controller.preflight.looking import as_list, gpus, number_list, text
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings


def _look(around: Surroundings) -> Found:
    system = around.roots.sys / "devices" / "system"
    nodes = number_list(text(system / "node" / "online") or "0")
    if len(nodes) == 1:
        raise DoesNotApply("there is one NUMA node: every CPU is as near as any other")
    process = processes.core(around)
    allowed = number_list(process.status("Cpus_allowed_list"))
    near = _near(around)
    cure = f"sudo taskset -apc {as_list(near)} {process.pid}"
    told = f"vLLM may run on CPUs {as_list(allowed)}, near its GPUs are {as_list(near)}"
    if not allowed & near:
        return Found(FAIL, f"{told}: every transfer crosses the nodes", cure)
    if not allowed <= near:
        return Found(WARN, f"{told}: it is not kept to them", cure)
    return Found(PASS, told)


def _near(around: Surroundings) -> frozenset[int]:
    """The CPUs of the nodes that the engine's GPUs hang on, by the kernel's driver, which knows UUIDs as NVML does."""
    wanted = {device.card_uuid for device in gpus(around).devices}
    there = around.roots.proc / "driver" / "nvidia" / "gpus"
    found: set[int] = set()
    for folder in sorted(there.iterdir()) if there.is_dir() else ():
        if any(uuid in (text(folder / "information") or "") for uuid in wanted):
            cpus = text(around.roots.sys / "bus" / "pci" / "devices" / folder.name.lower() / "local_cpulist")
            found |= number_list(cpus or "")
    if not found:
        raise NotKnown("the kernel does not tell which CPUs are near the engine's GPUs")
    return frozenset(found)


CHECK = Check(
    "cpu_affinity",
    "vLLM is kept to the CPUs of the NUMA nodes that its GPUs hang on",
    "seed 2, deployment checklist 7",
    frozenset({PASS, WARN, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
