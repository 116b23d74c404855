"""A load on a real server: each request leaves at its moment, whatever became of those before it.

Belongs here: sending, and the times of the tokens. Never: which load, what the times are worth.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import aiohttp

from bench.virtual.timeline import Served
from bench.virtual.workload import Ask

LIMIT_S = 120.0
"""One answer."""


@dataclass(slots=True)
class Asked:
    """What came of a load. `gaps_s`: between two pieces of an answer. `late_s`: how late each request left; a machine
    that is too busy shows here first.
    """

    served: list[Served] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    turned_away: list[float] = field(default_factory=list)
    failed: int = 0
    late_s: list[float] = field(default_factory=list)


async def ask_all(url: str, model: str, asks: Iterable[Ask]) -> Asked:
    """All of them, in real time from now on; returns when the last is answered."""
    found, began_s = Asked(), time.monotonic()
    timeout = aiohttp.ClientTimeout(total=LIMIT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session, asyncio.TaskGroup() as tasks:
        for ask in asks:
            await asyncio.sleep(began_s + ask.at_s - time.monotonic())
            found.late_s.append(time.monotonic() - began_s - ask.at_s)
            tasks.create_task(_ask(session, f"{url}/v1/completions", model, ask, began_s, found))
    return found


async def _ask(session: aiohttp.ClientSession, url: str, model: str, ask: Ask, began_s: float, found: Asked) -> None:
    body = {
        "model": model,
        "prompt": ask.prompt,
        "max_tokens": ask.answer_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    moments: list[float] = []
    try:
        async with session.post(url, data=json.dumps(body), headers={"Content-Type": "application/json"}) as answer:
            if answer.status == 503 and "Retry-After" in answer.headers:
                found.turned_away.append(ask.at_s)
                return
            tokens = 0
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    chunk = json.loads(line[6:])
                    if chunk.get("choices"):
                        moments.append(time.monotonic() - began_s)
                    tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        tokens = 0
    if answer_is_whole := tokens == ask.answer_tokens and bool(moments):
        found.served.append(served(ask, moments, tokens))
        found.gaps_s += [b - a for a, b in pairwise(moments)]
    found.failed += not answer_is_whole


def served(ask: Ask, moments: list[float], tokens: int) -> Served:
    """As the virtual clock's records are. A busy server sends several tokens in one piece: the gap before a piece is
    one gap, and the tokens behind the first of it came at once.
    """
    gaps_s = [b - a for a, b in pairwise(moments)]
    gaps_s = sorted([0.0] * max(0, tokens - 1 - len(gaps_s)) + gaps_s)
    return Served(
        request_id=ask.request_id,
        at_s=ask.at_s,
        queue_s=0.0,
        ttft_s=moments[0] - ask.at_s,
        e2e_s=moments[-1] - ask.at_s,
        worst_gap_s=gaps_s[-1] if gaps_s else 0.0,
        p95_gap_s=gaps_s[math.ceil(0.95 * len(gaps_s)) - 1] if gaps_s else 0.0,
        prompt_tokens=len(ask.prompt),
        answer_tokens=tokens,
    )
