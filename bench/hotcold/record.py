"""Writes down what a live run asked of its prefix cache. Replaying it belongs elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.emulated_gpu.inprocess import InProcessEngine


class Event(NamedTuple):
    """One thing that happened to the pool.

    `lookup`: a request was admitted and took the longest cached beginning of its chain. `grow`: it now holds `blocks`
    blocks, the first `hashed` of which are cached. `free`: it gave all of them back.
    """

    kind: str
    request: int
    blocks: int = 0
    hashed: int = 0


class Admission(NamedTuple):
    """A request's blocks as hashes (each stands for all before it too), filled in when it gives them back."""

    prompt_tokens: int
    chain: list[bytes]
    counted: bool
    """False for a request that was preempted and came back."""


@dataclass(slots=True)
class Recording:
    """A run's events in order. A request that was preempted counts as a new one from then on."""

    pool_blocks: int
    block_tokens: int
    events: list[Event] = field(default_factory=list)
    admissions: list[Admission] = field(default_factory=list)
    hit_blocks: list[int] = field(default_factory=list)
    """What the live run hit, by admission."""

    def limit(self, request: int) -> int:
        """The most blocks a lookup of this request may hit: the last prompt token is always computed."""
        return (self.admissions[request].prompt_tokens - 1) // self.block_tokens


class Recorder:
    """Records one engine; sync scheduling and one cache group only."""

    def __init__(self, engine: InProcessEngine) -> None:
        settings = engine.settings
        self.recording = Recording(settings.num_blocks, settings.block_size)
        self._numbers: dict[str, int] = {}
        self._manager = engine.scheduler.kv_cache_manager
        (self._single,) = self._manager.coordinator.single_type_managers
        self._allocate_slots = self._manager.allocate_slots
        self._free = self._manager.free
        self._manager.allocate_slots = self._on_allocate
        self._manager.free = self._on_free

    def _on_allocate(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(self._single.req_to_blocks.get(request.request_id, ()))
        blocks = self._allocate_slots(request, *args, **kwargs)
        if blocks is None:
            return None
        request_id, events = request.request_id, self.recording.events
        held = len(self._single.req_to_blocks[request_id])
        if request_id not in self._numbers:
            number = self._numbers[request_id] = len(self.recording.admissions)
            self.recording.admissions.append(Admission(request.num_tokens, [], not request.num_preemptions))
            self.recording.hit_blocks.append(held - len(blocks.blocks[0]) - before)
            events.append(Event("lookup", number))
        events.append(Event("grow", self._numbers[request_id], held, self._single.num_cached_block.get(request_id, 0)))
        return blocks

    def _on_free(self, request: Any) -> None:
        number = self._numbers.pop(request.request_id, None)
        if number is not None:
            self.recording.admissions[number].chain.extend(map(bytes, request.block_hashes))
            self.recording.events.append(Event("free", number))
        self._free(request)
