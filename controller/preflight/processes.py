"""The engine's processes, as /proc shows them.

Belongs here: finding them by the PID that the plugin tells, one of their files. Never: a judgement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from controller.preflight.looking import runtime, text
from controller.preflight.result import NotKnown
from controller.preflight.surroundings import Surroundings

UNIT = re.compile(r"([^/]+\.service)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `folder` is its place in /proc."""

    pid: int
    folder: Path

    def read(self, name: str) -> str:
        """One of its files. Raises NotKnown."""
        found = text(self.folder / name)
        if found is None:
            raise NotKnown(f"process {self.pid} has no {name}: it ended meanwhile")
        return found

    def status(self, field: str) -> str:
        """A line of its `status`. Raises NotKnown."""
        found = re.search(rf"^{field}:\s*(.+)$", self.read("status"), re.MULTILINE)
        if found is None:
            raise NotKnown(f"/proc/{self.pid}/status has no {field}")
        return found[1].strip()

    @property
    def unit(self) -> str | None:
        """The systemd service that it belongs to; None where there is none."""
        found = UNIT.search(self.read("cgroup"))
        return None if found is None else found[1]


def core(around: Surroundings) -> Process:
    """The first engine core. Raises NotKnown where the plugin tells no PID, or not of a process of this machine."""
    pid = runtime(around).cores[0].pid
    if pid is None:
        raise NotKnown("the plugin does not tell the engine's PID: this one is older")
    process = Process(pid, around.roots.proc / str(pid))
    if not _is_vllm(process):
        raise NotKnown(
            f"process {pid}, the engine's PID in its own namespace, is none of vLLM's here: this daemon sees other "
            "processes than vLLM does (containers: share the PID namespace)"
        )
    return process


def server(around: Surroundings) -> Process:
    """The process that holds the clients' connections: the engine core's parent, or the core where that is not seen."""
    process = core(around)
    parent = int(process.status("PPid"))
    above = Process(parent, around.roots.proc / str(parent))
    return above if _is_vllm(above) else process


def _is_vllm(process: Process) -> bool:
    named = (text(process.folder / "cmdline") or "") + (text(process.folder / "comm") or "")
    return "vllm" in named.lower()
