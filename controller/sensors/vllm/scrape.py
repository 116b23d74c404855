"""One GET of `/metrics`.

Belongs here: HTTP, the time cap, faults as sentences. Never: the text's meaning, how often to ask.
"""

from __future__ import annotations

import asyncio

import aiohttp

from controller.bodies import MAX_BYTES, body
from domain.errors import BadReading, EngineUnreachable

MAX_REDIRECTS = 3
HEADERS = {
    "Accept": "text/plain",
    "Accept-Encoding": "identity",  # beside the engine, packing costs it more than sending
}


async def fetch(session: aiohttp.ClientSession, url: str, timeout_s: float) -> str:
    """The text at `url`. Raises EngineUnreachable, or BadReading when the answer is of no use.

    A connection that vLLM closed while it lay in the pool is replaced once, by aiohttp, which does so for calls that
    change nothing and for no others.
    """
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.get(url, headers=HEADERS, max_redirects=MAX_REDIRECTS) as response,
        ):
            if response.status != 200:
                raise BadReading(_refusal(url, response.status))
            text = await body(response)
            if text is None:
                raise BadReading(
                    f"cannot use {url}: the answer is longer than {MAX_BYTES} bytes; look which series has so many "
                    "rows, and restart vLLM to be rid of those that pile up"
                )
            return text.decode("utf-8", errors="replace")
    except TimeoutError as error:
        raise EngineUnreachable(
            f"cannot scrape {url}: no answer within {timeout_s:g} s; raise engine.timeout_s if vLLM is merely slow"
        ) from error
    except aiohttp.TooManyRedirects as error:
        raise BadReading(f"cannot scrape {url}: it redirects in a circle; engine.url must name vLLM itself") from error
    except (aiohttp.ClientError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise EngineUnreachable(f"cannot scrape {url}: {reason}; check that vLLM is up and engine.url right") from error


def _refusal(url: str, status: int) -> str:
    if status >= 500:
        return (
            f"cannot see the engine at {url}: it answers HTTP {status}; look into vLLM's log, and where "
            "PROMETHEUS_MULTIPROC_DIR is set whether that folder is there and vLLM may write to it"
        )
    return f"cannot see the engine at {url}: it answers HTTP {status}; engine.url must name vLLM itself"
