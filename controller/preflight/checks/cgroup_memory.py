"""vLLM has a memory limit, and room under it.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight import cgroup, processes
from controller.preflight.looking import GIB, text
from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings

SEEDS_GIB = 88
SEEDS_SWAP_GIB = 2
"""Memory and swap together are 90 GB there."""
FULL = 0.9


def _look(around: Surroundings) -> Found:
    process = processes.core(around)
    found = cgroup.limits(process.read("cgroup"), around.roots.sys)
    cure = _cure(process.unit)
    if found.memory is None:
        return Found(WARN, f"cgroup {found.where} has no memory limit: a leak takes the whole machine with it", cure)
    limit = f"{found.memory / GIB:.4g} GiB (cgroup {found.where})"
    if found.used is not None and found.used > FULL * found.memory:
        share = found.used / found.memory
        return Found(FAIL, f"{share:.0%} of the limit of {limit} is in use: vLLM is about to be killed", cure)
    machine = _machine_bytes(around)
    if found.memory < min(SEEDS_GIB * GIB, FULL * machine):
        return Found(WARN, f"the limit is {limit}, under the seeds' {SEEDS_GIB} GB of {machine / GIB:.4g} GiB", cure)
    if found.memory > machine:
        return Found(WARN, f"the limit is {limit}, more than the {machine / GIB:.4g} GiB that there are", cure)
    if _swap_bytes(around) and (found.swap is None or found.swap > SEEDS_SWAP_GIB * GIB):
        swap = "not limited" if found.swap is None else f"limited to {found.swap / GIB:.4g} GiB"
        return Found(WARN, f"the limit is {limit}, but swap is {swap}, the seeds' is {SEEDS_SWAP_GIB} GB", cure)
    return Found(PASS, f"the limit is {limit}")


def _machine_bytes(around: Surroundings) -> int:
    found = _meminfo(around).get("MemTotal")
    if found is None:
        raise NotKnown("/proc/meminfo does not tell how much memory there is")
    return found


def _swap_bytes(around: Surroundings) -> int:
    return _meminfo(around).get("SwapTotal", 0)


def _meminfo(around: Surroundings) -> dict[str, int]:
    lines = (line.split() for line in (text(around.roots.proc / "meminfo") or "").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def _cure(unit: str | None) -> str:
    if unit is None:
        return "docker update --memory=88G --memory-swap=90G CONTAINER"
    return f"sudo systemctl set-property {unit} MemoryMax=88G MemorySwapMax=2G"


CHECK = Check(
    "cgroup_memory",
    "vLLM's cgroup, or one above it, limits its memory (88 GB, with swap 90 GB), with a tenth of that free",
    "seed 2, deployment checklist 6; field case S5",
    frozenset({PASS, WARN, FAIL, UNKNOWN}),
    _look,
)
