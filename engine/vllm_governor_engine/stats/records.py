"""One record per finished request, the newest few thousand of them, read with a cursor.

Here: the ring and how it is read. Never here: how a request is followed; that is `requests`.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

KEPT = 8192
"""Records kept; older ones are gone, which a reader sees by `first`."""
PER_READ = 1000
"""Records in one answer at most, about 1.5 us of the engine's thread each."""

FIELDS = (
    "finished_at", "reason", "prompt_tokens", "output_tokens", "hit_tokens", "preemptions",
    "queue_s", "ttft_s", "e2e_s", "tpot_s",
)  # fmt: skip
"""The columns of a row. Times are seconds; `finished_at` is a time of the day (Unix)."""

Row = tuple[float, Any, int, int, int, int, float, float | None, float]
"""What is kept: as FIELDS, but without the last, and `reason` as vLLM's status."""


class Records:
    """The ring. The first record ever has the number 1."""

    def __init__(self, kept: int = KEPT) -> None:
        self._rows: deque[Row] = deque(maxlen=kept)
        self.total = 0

    def add(self, row: Row) -> None:
        """Keep one more, at the price of the oldest."""
        self._rows.append(row)
        self.total += 1

    def read(self, since: int, limit: int = PER_READ) -> dict[str, Any]:
        """The oldest `limit` records with a number above `since`, as far as they are still kept.

        `first` is the number of the oldest record kept (records between `since` and it are lost), `next` what to ask
        for the next time, `more` whether there is more already.
        """
        first = self.total - len(self._rows) + 1
        # A number that was never given out is of another life of the engine.
        start = 0 if since > self.total else max(0, since - first + 1)
        rows = [_shown(row) for row in itertools.islice(self._rows, start, start + limit)]
        last = first + start + len(rows) - 1
        return {"fields": list(FIELDS), "first": first, "next": last, "more": last < self.total, "rows": rows}


def _shown(row: Row) -> list[Any]:
    at, status, prompt, output, hit, preemptions, queue_s, ttft_s, e2e_s = row
    between_s = None if ttft_s is None or output < 2 else round((e2e_s - ttft_s) / (output - 1), 6)
    ttft_s = None if ttft_s is None else round(ttft_s, 6)
    shown_s = (round(queue_s, 6), ttft_s, round(e2e_s, 6), between_s)
    return [round(at, 3), _reason(status), int(prompt), int(output), int(hit), int(preemptions), *shown_s]


def _reason(status: Any) -> str | None:
    """vLLM's own word for why a request ended (stop, length, abort, error ...)."""
    try:
        return str(type(status).get_finished_reason(status))
    except Exception:
        return None
