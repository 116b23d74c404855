"""The kernel does not move pages between NUMA nodes by itself.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import number_list, text
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, Check, DoesNotApply, Found
from controller.preflight.surroundings import Surroundings

CURE = (
    "echo 0 | sudo tee /proc/sys/kernel/numa_balancing && "
    "echo kernel.numa_balancing=0 | sudo tee /etc/sysctl.d/60-numa-balancing.conf"
)


def _look(around: Surroundings) -> Found:
    value = text(around.roots.proc / "sys" / "kernel" / "numa_balancing")
    if value is None:
        raise DoesNotApply("this kernel has no NUMA balancing")
    if value == "0":
        return Found(PASS, "kernel.numa_balancing is 0")
    nodes = number_list(text(around.roots.sys / "devices" / "system" / "node" / "online") or "0")
    if len(nodes) == 1:
        raise DoesNotApply(f"there is one NUMA node, so kernel.numa_balancing = {value} moves nothing")
    return Found(FAIL, f"kernel.numa_balancing is {value} on {len(nodes)} NUMA nodes: pages move under vLLM", CURE)


CHECK = Check(
    "numa_balancing",
    "NUMA balancing is off",
    "seed 2, deployment checklist 4",
    frozenset({PASS, FAIL, NOT_APPLICABLE}),
    _look,
)
