"""The API process's part of the queue limit, played: it asks the engine core what is wanted and turns requests away.

Belongs here: that one knob. vLLM counts running and waiting requests together, so a queue of N is what the engine core
holds plus N, worked out anew each second, as the plugin's part in a real API process does (docs/rpc.md). Never: HTTP.
"""

from __future__ import annotations

from vllm_governor_engine.api.parts import Admission, Offer
from vllm_governor_engine.api.queue_limit import MOST
from vllm_governor_engine.knobs.api_side import QUEUE

from bench.virtual.plugin import BOOT_ID, Plugin


class Door:
    """Open until a limit is wanted."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._applied: dict[str, int] = {}
        self._limit: int | None = None
        self.turned_away: list[float] = []
        """When those came who were not let in, seconds."""

    def sync(self) -> None:
        """Report, and put in force what is wanted; a second time to report that it is."""
        for _ in range(2):
            answer = self._plugin.call("follow", process=self._report())
            wanted = answer["wanted"].get(QUEUE)
            admission = Admission(answer["cap"], answer["running"], answer["bound"])
            self._limit = None if wanted is None else admission.room + int(wanted)
            self._applied = {BOOT_ID: answer["generation"]}

    @property
    def refused(self) -> int:
        """How many were turned away."""
        return len(self.turned_away)

    def lets_in(self, unfinished: int, at_s: float) -> bool:
        """Whether a request that comes at `at_s` may enter; one that may not is counted."""
        if self._limit is None or unfinished < self._limit:
            return True
        self.turned_away.append(at_s)
        return False

    def _report(self) -> dict[str, object]:
        return {
            "pid": 1,
            "index": 0,
            "applied": self._applied,
            "rejected_total": self.refused,
            "degraded": [],
            "knobs": {QUEUE: Offer(low=0, high=MOST).as_wire()},
        }
