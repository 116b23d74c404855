"""A scheduler and vLLM's engine core client, made up: for what a real one cannot be talked into.

Belongs here: just enough of both for the plugin to be called. Never: a test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from vllm_governor_engine import core


class MadeUpScheduler:
    """Reads what vLLM's reads, and schedules nothing."""

    def __init__(self, max_num_seqs: int = 64) -> None:
        self.max_num_active_reqs = max_num_seqs
        self.max_num_scheduled_tokens = 2048
        self.block_size = 16
        self.running: list[str] = []
        self.waiting: list[str] = []

    def schedule(self) -> int:
        return min(self.max_num_active_reqs, self.max_num_scheduled_tokens)


class MadeUpClient:
    """vLLM's engine core client of 0.32, with `cores` engine cores in this process."""

    def __init__(self, cores: int = 1) -> None:
        self.cores = [
            SimpleNamespace(scheduler=MadeUpScheduler(), vllm_config=None, engine_index=index) for index in range(cores)
        ]
        self.core_engines = list(range(cores))
        self.ops: list[str] = []
        self.delay_s = 0.0
        self.before: Callable[[str], None] = lambda op: None

    async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
        assert method == "governor_call"
        self.ops.append(args[0])
        self.before(args[0])
        await asyncio.sleep(self.delay_s)
        return [core.call(engine_core, *args) for engine_core in self.cores]
