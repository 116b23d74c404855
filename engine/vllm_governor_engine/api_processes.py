"""What an engine core knows of the API processes in front of it: who they are, what they carry, what they have applied.

Here: the table of their reports. Never here: the wanted values (knobs/api_side.py keeps those), or anything that runs
in an API process (api/). Time is passed in, monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FORGOTTEN_AFTER_S = 60.0
"""A process that has not reported for so long is gone. vLLM ends as a whole when one of its API servers dies."""
_MOST_PROCESSES = 1024


@dataclass(frozen=True)
class Offer:
    """How far one API process carries one knob (`native`, `limited` or `off`, why), and which values it allows."""

    level: str
    reason: str | None
    startup: int | None
    low: int
    high: int
    failed: bool
    """True when setting it raised in that process: it is over with the knob until the engine restarts."""


@dataclass(frozen=True)
class _Report:
    index: int
    at: float
    applied: int | None
    rejected_total: int
    degraded: tuple[str, ...]
    offers: Mapping[str, Offer]


@dataclass
class ApiProcesses:
    """The reports of all API processes of one engine core, by process id."""

    _reports: dict[int, _Report] = field(default_factory=dict)

    def take(self, report: Mapping[str, Any], boot_id: str, now: float) -> None:
        """Keep the newest report of one API process, and forget those that are gone."""
        offers = {
            str(name): Offer(
                level=str(offer["support"]),
                reason=offer["reason"],
                startup=offer["startup"],
                low=int(offer["min"]),
                high=int(offer["max"]),
                failed=bool(offer["failed"]),
            )
            for name, offer in report["knobs"].items()
        }
        self._reports = {pid: known for pid, known in self._reports.items() if now - known.at < FORGOTTEN_AFTER_S}
        if len(self._reports) < _MOST_PROCESSES or int(report["pid"]) in self._reports:
            self._reports[int(report["pid"])] = _Report(
                index=int(report["index"]),
                at=now,
                applied=report["applied"].get(boot_id),
                rejected_total=int(report["rejected_total"]),
                degraded=tuple(str(line) for line in report["degraded"]),
                offers=offers,
            )

    def offers(self, name: str) -> list[Offer]:
        """What each process says of a knob, in the order of their index; one that does not know it is left out."""
        reports = sorted(self._reports.values(), key=lambda known: known.index)
        return [known.offers[name] for known in reports if name in known.offers]

    def describe(self, generation: int, now: float) -> list[dict[str, Any]]:
        """The list `api_processes` of docs/rpc.md."""
        return [
            {
                "index": known.index,
                "pid": pid,
                "generation": known.applied,
                "converged": known.applied == generation,
                "age_s": round(max(0.0, now - known.at), 3),
                "rejected_total": known.rejected_total,
                "degraded": list(known.degraded),
            }
            for pid, known in sorted(self._reports.items(), key=lambda item: (item[1].index, item[0]))
        ]

    def __len__(self) -> int:
        return len(self._reports)
