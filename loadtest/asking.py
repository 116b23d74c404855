"""One request: sent, its answer read as it comes, told to locust.

Belongs here: what locust is told of it. Never: the stream's format (answer.py), when to send.
"""

from __future__ import annotations

import time
from typing import Any

from locust.contrib.fasthttp import FastHttpSession
from locust.stats import RequestStats

from loadtest.answer import Answer, read
from loadtest.options import ENDPOINTS, Common
from loadtest.prompts import Prompt
from loadtest.target import headers

TTFT, ITL = "TTFT", "ITL"
"""locust's type of the entries: time to the first token, and between two tokens, in ms as all of locust's times."""
SHOWN = 120
"""Characters of a refusal that are kept as its cause."""


def ask(client: FastHttpSession, stats: RequestStats, options: Common, prompt: Prompt, due_s: float) -> Answer:
    """Sends one prompt and reads the answer. `due_s` is `time.perf_counter()`: what the request waited before it was
    sent is in its times. Raises nothing.
    """
    answer = Answer()
    with client.post(
        ENDPOINTS[options.endpoint],
        data=prompt.body,
        headers=headers(options),
        name=prompt.kind,
        stream=True,
        catch_response=True,
    ) as response:
        if response.status_code == 200:
            try:
                read(answer, response.stream, due_s)
            except Exception as error:  # what the HTTP client raises has no common base
                answer.cause = f"the stream broke: {type(error).__name__}"
        else:
            answer.cause = _refusal(response)
        answer.took_s = time.perf_counter() - due_s
        response.request_meta |= {"response_time": answer.took_s * 1e3, "response_length": answer.tokens}
        if answer.cause is None:
            response.success()
        else:
            response.failure(answer.cause)
    if answer.first_s is not None:
        # Not by locust's event, which would count each as a request in the sum of all.
        stats.get(prompt.kind, TTFT).log(round(answer.first_s * 1e3), 0)
        for gap_s in answer.gaps_s:
            stats.get(prompt.kind, ITL).log(round(gap_s * 1e3), 0)
    return answer


def _refusal(response: Any) -> str:
    if response.status_code == 0:
        return f"no answer: {type(response.error).__name__}"
    try:
        body = (response.stream.read() or b"").decode(errors="replace")
    except Exception:  # the status says enough
        body = ""
    return f"HTTP {response.status_code}: {' '.join(body.split())}"[:SHOWN].rstrip(": ")
