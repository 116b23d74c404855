"""One API process of vLLM with everything of ours that lives in it.

Here: putting the parts together and owning their tasks. Never here: what a part does. Starting never raises.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from vllm_governor_engine import errors
from vllm_governor_engine.log import get_logger

from . import unix_socket
from .connection_close import ConnectionClose
from .follower import Ask, Follower
from .gate import Gate
from .keep_alive import KeepAlive
from .queue_limit import QueueLimit


class ApiProcess:
    """The parts of this process, started once vLLM's application has an engine."""

    def __init__(self, endpoint: Any, app: Any, state: Any, engine_client: Any, ask: Ask) -> None:
        """`endpoint` answers the routes; `app` and `state` are vLLM's, `engine_client` its AsyncLLM."""
        self._endpoint = endpoint
        self.gate = Gate(app)
        self.index = _index(engine_client)
        parts = (
            QueueLimit(engine_client, self.gate, self.index),
            KeepAlive(state),
            ConnectionClose(self.gate),
        )
        self.follower = Follower(ask, parts, self.index, lambda: self.gate.rejected_total)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to follow the engine cores, and to serve on the Unix socket if one is wanted."""
        self._spawn(self.follower.run(), "governor follower")
        path = unix_socket.wanted_path()
        if path and self.index == 0:  # any API process reaches every engine core, so one socket is enough
            self._spawn(self._serve(path), "governor socket")

    async def _serve(self, path: str) -> None:
        try:
            await unix_socket.serve(self._endpoint, path, os.environ.get(unix_socket.GROUP_VARIABLE))
        except Exception as error:
            why = f"cannot serve on the socket {errors.shown(path, 200)}: {errors.shown(str(error), 200)}"
            self.follower.problems.append(why)
            get_logger().warning("governor: %s; vLLM goes on without it", why)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            get_logger().error("%s ended: %s; vLLM goes on without it", task.get_name(), errors.shown(error))


def _index(engine_client: Any) -> int:
    """This process's place among vLLM's API processes; 0 where it cannot be told."""
    try:
        return int(getattr(engine_client.engine_core, "client_index", 0) or 0)
    except Exception:
        return 0
