"""The collection: switches the collectors on at the first reading, keeps a failing one from hurting, answers a reading.

Here: which collectors there are, their hooks, the document. Never here: what any of them counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from vllm_governor_engine import errors
from vllm_governor_engine.hooks import ScheduleHook

from . import fragmentation, queue
from .allocator import Allocator, AskWorkers
from .collector import Clock, Collector
from .evictions import Evictions
from .journal import Journal
from .output_hook import OutputHook
from .padding import Padding
from .pool import pool_bytes
from .records import PER_READ
from .requests import Requests
from .steps import Steps

PART = "stats"
"""The name under which it hangs on the schedule() hook; a collector is reported as `stats.NAME`."""

Report = Callable[[str, str], None]
"""Takes the name of a part that switched itself off, and why."""

_Any = TypeVar("_Any", bound=Collector)


class Stats:
    """The statistics of one engine core. Built cold: nothing of vLLM is touched before the first `read`.

    `clock` gives monotonic seconds, `wall` the time of the day.
    """

    def __init__(
        self,
        scheduler: Any,
        vllm_config: Any,
        hook: ScheduleHook,
        report: Report,
        clock: Clock,
        wall: Clock = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._vllm_config = vllm_config
        self._hook = hook
        self._report = report
        self._clock = clock
        self._wall = wall
        self._allocator = Allocator(vllm_config, clock)
        self._journal = Journal(scheduler, hook, clock)
        self._output_hook = OutputHook(scheduler, self._journal.around)
        self._began = 0.0
        self._started = False
        self._steps: Steps | None = None
        self._requests: Requests | None = None
        self._evictions: Evictions | None = None
        self._padding: Padding | None = None
        self._pool_bytes = pool_bytes(scheduler)
        self._unmeasurable: set[str] = set()

    @property
    def collecting(self) -> bool:
        """Whether anything is collected."""
        return any((self._steps, self._requests, self._evictions, self._padding))

    def read(self, since: int, ask_workers: AskWorkers | None = None, limit: int = PER_READ) -> dict[str, Any]:
        """What this engine core contributes to the stats document; see docs/stats.md. The first reading begins it.

        `since` is the number of the last record the caller has; `ask_workers` is given to have the allocators asked.
        """
        began_reading = time.perf_counter()
        if not self._started:
            self._start()
        steps, requests = self._read("steps"), self._read("requests")
        records = None if self._requests is None else self._requests.records.read(since, limit)
        document = {
            "collecting_s": round(self._clock() - self._began, 3),
            "steps": steps,
            "requests": requests,
            "blocks": _blocks(requests, self._read("evictions")),
            "kv": self._look("kv", self._kv),
            "queue": self._look("queue", lambda: queue.look(self._scheduler, self._wall())),
            "padding": self._read("padding"),
            "allocator": self._allocator.read(ask_workers),
            "records": records,
        }
        return {**document, "read_us": round((time.perf_counter() - began_reading) * 1e6)}

    def stop(self, why: str) -> None:
        """Take every collector out and every hook away, for good; reported under PART."""
        for name in ("steps", "requests", "evictions", "padding"):
            self._remove(name)
        self._report(PART, why)

    def _start(self) -> None:
        self._started = True
        scheduler, clock = self._scheduler, self._clock
        journal = self._journal
        self._began = journal.ended_at = clock()
        self._steps = self._build("steps", lambda: Steps(journal))
        self._requests = self._build("requests", lambda: Requests(scheduler, clock, self._wall))
        self._evictions = self._build("evictions", lambda: Evictions(scheduler))
        self._padding = self._build("padding", lambda: Padding(self._vllm_config))
        if self._steps is not None:
            journal.write(self._steps.fold, lambda error: self._take_out("steps", error))
        if self._requests is not None:
            journal.follow(self._changed, self._requests.silent, self._spoke)
        if self._padding is not None and self._padding.measured:
            journal.pad(self._padded)
        try:
            self._output_hook.install()
            self._hook.add(PART, after=journal.scheduled, inner=True)
        except Exception as error:
            self.stop(f"it cannot follow the engine's steps ({errors.shown(error)})")

    def _build(self, name: str, build: Callable[[], _Any]) -> _Any | None:
        try:
            return build()
        except Exception as error:  # an unknown vLLM costs one group of figures
            self._report(f"{PART}.{name}", f"it does not fit this vLLM ({errors.shown(error)})")
            return None

    def _changed(self, output: Any) -> None:
        if self._requests is not None:
            try:
                self._requests.changed(output, self._journal.ended_at)
            except Exception as error:  # ours to catch: serving goes on whatever a collector does
                self._take_out("requests", error)

    def _spoke(self) -> None:
        if self._requests is not None:
            try:
                self._requests.spoke()
            except Exception as error:
                self._take_out("requests", error)

    def _padded(self, model_output: Any) -> None:
        if self._padding is not None:
            try:
                self._padding.ended(model_output)
            except Exception as error:
                self._take_out("padding", error)

    def _read(self, name: str) -> dict[str, Any] | None:
        collector: Collector | None = getattr(self, f"_{name}")
        try:
            return None if collector is None else collector.read()
        except Exception as error:
            self._take_out(name, error)
            return None

    def _look(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        if name in self._unmeasurable:
            return None
        try:
            return measure()
        except Exception as error:
            self._unmeasurable.add(name)
            self._report(f"{PART}.{name}", f"it cannot be measured ({errors.shown(error)})")
            return None

    def _kv(self) -> dict[str, Any]:
        return {**fragmentation.measure(self._scheduler), "pool_bytes": self._pool_bytes}

    def _take_out(self, name: str, error: Exception) -> None:
        self._remove(name)
        self._report(f"{PART}.{name}", f"it failed ({errors.shown(error)}); its figures are not known any more")

    def _remove(self, name: str) -> None:
        collector: Collector | None = getattr(self, f"_{name}")
        if collector is not None:
            setattr(self, f"_{name}", None)
            self._leave(name)
            try:
                collector.stop()
            except Exception as error:
                self._report(f"{PART}.{name}", f"it cannot take its hooks away ({errors.shown(error)})")
        if not self.collecting:
            self._hook.remove(PART)
            self._output_hook.uninstall()

    def _leave(self, name: str) -> None:
        """Nobody of this name wants to be told of steps any more."""
        if name == "steps":
            self._journal.stop_writing()
        elif name == "requests":
            self._journal.stop_following()
        elif name == "padding":
            self._journal.pad(None)


def _blocks(requests: dict[str, Any] | None, evictions: dict[str, Any] | None) -> dict[str, Any] | None:
    """Evictions, and with the preemptions the reallocations: content that is lost and has to be made again."""
    if evictions is None:
        return None
    both = None if requests is None else evictions["evictions"] + requests["preemptions"]
    return {**evictions, "reallocations": both}
