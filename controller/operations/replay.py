"""Deciding once more over what was recorded, asked of the running daemon.

It is done by a process of its own, at the lowest priority: minutes of computing must not hold a tick. Belongs here:
starting, limiting and ending that process. Never: replaying (replay_job.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from controller.history.replayed import checked
from controller.operations.refusal import Kind, Refused
from domain.errors import SettingsError
from policies.registry import PoliciesSettings
from store.history import History

logger = logging.getLogger(__name__)

LIMIT_S = 600.0
JOB = "controller.operations.replay_job"
DOING = "replay"
CALL = "the call"
REMEDY = "put the tables right"


class Replays:
    """One at a time."""

    def __init__(self, history: History, kind: Callable[[], type[PoliciesSettings]]) -> None:
        """`kind` answers the class of the policies' settings, third-party tables included."""
        self._history = history
        self._kind = kind
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        return self._turn.locked()

    async def run(self, since: datetime | None = None, tables: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """The document of `vllm-governor replay --json`. `tables` as the file of --policy: `policies` and `guards`
        to try; None: the recorded ones. Raises Refused (CONFLICT while one runs and when nothing is recorded, INVALID
        for tables that cannot be used, UNAVAILABLE when it takes too long).
        """
        if self.running:
            raise Refused(Kind.CONFLICT, DOING, "another replay is under way", "wait until it is done")
        async with self._turn:
            await self._check(since, tables)
            question = {
                "url": self._history.url,
                "node": self._history.node,
                "since": None if since is None else since.isoformat(),
                "tables": tables,
            }
            answer = await self._ask(json.dumps(question).encode())
        if "invalid" in answer:
            raise Refused(Kind.INVALID, DOING, answer["invalid"], REMEDY, "tables")
        if "failed" in answer:
            reason, _, remedy = answer["failed"].removeprefix(f"cannot {DOING}: ").partition("; ")
            raise Refused(Kind.CONFLICT, DOING, reason, remedy or "see the history with `vllm-governor db check`")
        found: Mapping[str, Any] = answer["found"]
        return found

    async def _check(self, since: datetime | None, tables: Mapping[str, Any] | None) -> None:
        """What can be refused without starting a process. Raises Refused and HistoryUnavailable."""
        if since is not None and since.tzinfo is None:
            raise Refused(Kind.INVALID, DOING, "since has no time zone", "end it with Z for UTC", "since")
        try:
            checked(tables or {}, self._kind(), CALL)
        except SettingsError as error:
            raise Refused(Kind.INVALID, DOING, str(error), REMEDY, "tables") from error
        if not await self._history.recordings.select(since=since, node=self._history.node, limit=1):
            remedy = "store.recording_hours must not be 0, and `since` not too late"
            raise Refused(Kind.CONFLICT, DOING, "nothing is recorded", remedy, None if since is None else "since")

    async def _ask(self, question: bytes) -> dict[str, Any]:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", JOB, stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                out, err = await self._process.communicate(question)
        except TimeoutError as error:
            reason = f"it takes longer than {LIMIT_S:g} s"
            remedy = "ask for a later `since`, or use `vllm-governor replay --db`"
            raise Refused(Kind.UNAVAILABLE, DOING, reason, remedy) from error
        finally:
            await self.close()
        try:
            answer: dict[str, Any] = json.loads(out)
        except ValueError as error:
            logger.error("replay: it failed: %s", err.decode(errors="replace").strip())
            reason = "its process failed"
            raise Refused(Kind.UNAVAILABLE, DOING, reason, "the daemon's log says why") from error
        return answer

    async def close(self) -> None:
        """End one that is under way."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
