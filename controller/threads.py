"""A blocking call that may never return, beside an event loop that must go on.

Belongs here: one daemon thread at a time, which the interpreter does not wait for at its end (asyncio's own pool does).
Never: what is called.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedCall(Generic[T]):
    """At most one call at a time. While an earlier one hangs no new one begins, and the answer is None."""

    def __init__(self, name: str, call: Callable[[], T]) -> None:
        self._name = name
        self._call = call
        self._pending: asyncio.Future[T] | None = None

    @property
    def busy(self) -> bool:
        """Whether a call goes on."""
        return self._pending is not None and not self._pending.done()

    async def __call__(self, limit_s: float) -> T | None:
        """The call's answer, None when it takes longer. Raises what the call raises."""
        if self._pending is None or not self.busy:
            self._pending = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._run, args=(self._pending,), name=self._name, daemon=True).start()
        done, _ = await asyncio.wait({self._pending}, timeout=limit_s)
        return self._pending.result() if done else None

    def _run(self, future: asyncio.Future[T]) -> None:
        try:
            result, error = self._call(), None
        except Exception as caught:
            result, error = None, caught
        try:
            future.get_loop().call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:
            return  # the loop has ended meanwhile


def _settle(future: asyncio.Future[T], result: T | None, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)  # type: ignore[arg-type]
