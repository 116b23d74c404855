"""The body of an HTTP answer, up to a cap: the other end may be anything.

Belongs here: reading bytes. Never: what they mean, requests.
"""

from __future__ import annotations

import aiohttp

MAX_BYTES = 16 * 1024 * 1024
"""An ordinary scrape has 60 kB, the plugin's statistics 200 kB for each engine core; LoRA rows that accumulate in a
scrape have made 4 MB.
"""


async def body(response: aiohttp.ClientResponse) -> bytes | None:
    """The whole body, None when it is longer than MAX_BYTES."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BYTES:
            response.close()  # what is still to come must not be waited for
            return None
        parts.append(part)
    return b"".join(parts)
