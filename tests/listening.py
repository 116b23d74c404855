"""Events as one listener is told of them, for tests that are not about silence."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from controller.operations.events import Event, Events


async def told(events: Events, last_id: str | None = None) -> AsyncGenerator[Event]:
    """From now on, or after `last_id`."""
    async with aclosing(events.listen(last_id)) as listened:
        async for event in listened:
            if event is not None:
                yield event
