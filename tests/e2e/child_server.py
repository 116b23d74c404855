"""A real server of the Prometheus family as a child process: it is ready when `/-/ready` says so.

Belongs here: starting, waiting until it is ready, ending. Never: its command line, what it is asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import aiohttp

from bench import process_group
from tests.waiting import until


class ChildServer:
    """`command` is run in `folder` while the context lasts; `session` is there for asking it."""

    def __init__(self, command: Sequence[str], url: str, folder: Path, log: Path) -> None:
        self.url = url
        self._command = list(command)
        self._folder = folder
        self._log = log

    async def __aenter__(self) -> Self:
        self._process = process_group.start(self._command, environment=os.environ, log=self._log, folder=self._folder)
        self.session = aiohttp.ClientSession()
        await until(f"{self._command[0]} is ready", self._ready)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        await asyncio.to_thread(process_group.end, self._process, patience_s=5.0)

    async def _ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-500:]
        try:
            async with self.session.get(f"{self.url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False
