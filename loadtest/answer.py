"""One streamed answer: read as it comes, and timed.

Belongs here: the stream's format, which moments are timed, what makes an answer a failed one. Never: sending
(asking.py), locust, which changes Python's sockets wherever it is imported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

DONE = b"[DONE]"
SHOWN = 120
"""Characters of an error that are kept as its cause."""


@dataclass(slots=True)
class Answer:
    """What came. Seconds; `cause` None: it is a good answer."""

    cause: str | None = None
    first_s: float | None = None
    """From when the request was due to the first text."""
    gaps_s: list[float] = field(default_factory=list)
    took_s: float = 0.0
    """From when the request was due to the end of its answer."""

    @property
    def tokens(self) -> int:
        """Pieces of the stream with text in them: servers send one token in each, or a few."""
        return 0 if self.first_s is None else 1 + len(self.gaps_s)


class Lines(Protocol):
    """What the answer's body is read from: a line with its end, b"" at the end of the body."""

    def readline(self, sep: bytes) -> bytes: ...


def read(answer: Answer, lines: Lines, due_s: float, clock: Callable[[], float] = time.perf_counter) -> None:
    """Takes the stream of server-sent events into `answer`, to its end."""
    last_s = due_s
    answer.cause = "the stream ended before its [DONE]"
    while line := lines.readline(b"\n"):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == DONE:
            answer.cause = None if answer.tokens else "the answer has no token"
            continue  # to the end of the body, so that the connection can be used again
        text, fault = _piece(data)
        if fault is not None:
            answer.cause = fault
            return
        if text:
            now_s = clock()
            if answer.first_s is None:
                answer.first_s = now_s - due_s
            else:
                answer.gaps_s.append(now_s - last_s)
            last_s = now_s


def _piece(data: bytes) -> tuple[bool, str | None]:
    """Whether an event holds text, and what is wrong with it."""
    try:
        event: Any = json.loads(data)
        if "error" in event:
            return False, f"error in the stream: {event['error']}"[:SHOWN]
        choice = event["choices"][0] if event["choices"] else {}
    except (ValueError, KeyError, TypeError):
        return False, f"the stream holds no completion: {data[:40].decode(errors='replace')}"
    # A token may decode to no text; it is one all the same until the last event, which has a reason to finish.
    delta = choice.get("delta", {})
    said = choice.get("text", delta.get("content"))
    return bool(said) or (said is not None and choice.get("finish_reason") is None and "role" not in delta), None
