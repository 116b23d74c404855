"""A closed-loop load whose number of clients can be changed while it runs.

Belongs here: adding and dismissing clients. Never: what one client does (bench/load.py), when the number changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from bench.load import Load, LoadOptions, RequestRecord

LIMIT_S = 86_400.0
"""No load of ours outlives a day, whoever forgets it."""
DRAIN_S = 60.0
"""Who is dismissed waits so long for the answer; one that never comes counts as failed."""


class Crowd:
    """`async with Crowd(url, model, on_record) as crowd: await crowd.become(64)`; at the end everybody is answered."""

    def __init__(self, url: str, model: str, on_record: Callable[[RequestRecord], None]) -> None:
        self._url = url
        self._model = model
        self._on_record = on_record
        self._groups: list[Load] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._seed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    @property
    def clients(self) -> int:
        """Those that still send."""
        return sum(group.options.clients for group in self._groups)

    async def become(self, clients: int) -> None:
        """Returns at once; who is dismissed still waits for an answer."""
        while self._groups and self.clients > clients:
            self._dismiss(self._groups.pop())
        if (missing := clients - self.clients) > 0:
            self._seed += 1  # another one for each group, or the prefix cache would know its prompts
            options = LoadOptions(clients=missing, limit_s=LIMIT_S, seed=self._seed)
            group = Load(self._url, self._model, options, on_record=self._on_record)
            self._groups.append(group)
            await group.start()

    async def leave(self) -> None:
        """Dismiss everybody; returns when all are answered."""
        await self.become(0)
        await asyncio.gather(*self._leaving)

    def _dismiss(self, group: Load) -> None:
        task = asyncio.create_task(group.stop(DRAIN_S), name="soak-crowd-leaving")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
