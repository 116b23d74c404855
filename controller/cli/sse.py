"""Server-sent events, as a reader of lines gives them.

Belongs here: the wire format. Never: what an event means.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple


class Message(NamedTuple):
    """`id` is what to resume from; without `data` it only moves that on."""

    id: str | None
    kind: str
    data: str


async def messages(lines: AsyncIterable[bytes]) -> AsyncIterator[Message]:
    """Each as it is complete, until the stream ends; comments are left out."""
    number, kind, data = None, "message", list[str]()
    async for raw in lines:
        line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        if not line:
            if data or number is not None:
                yield Message(number, kind, "\n".join(data))
            number, kind, data = None, "message", []
            continue
        name, _, text = line.partition(":")
        text = text.removeprefix(" ")
        if name == "id":
            number = text
        elif name == "event":
            kind = text
        elif name == "data":
            data.append(text)
