"""Requests are about as long as each other.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import prompts
from controller.preflight.result import PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings

MOST = 2.0


def _look(around: Surroundings) -> Found:
    found = prompts(around)
    short, long = found.quantile(0.1), found.quantile(0.9)
    if not short or long is None:
        raise NotKnown("vLLM's buckets do not tell how long the shortest tenth of the prompts are")
    spread = long / short
    told = f"nine tenths of the prompts have up to {long:.0f} tokens, one tenth up to {short:.0f}: {spread:.1f} times"
    if spread > MOST:
        return Found(
            WARN, f"{told}, more than {MOST:g}: short ones wait for long ones", "vllm-governor set length_grouping=1"
        )
    return Found(PASS, f"{told}, at most {MOST:g}")


CHECK = Check(
    "length_spread",
    "long prompts are at most twice as long as short ones (90th percentile over 10th)",
    "seed 1, applicability 1",
    frozenset({PASS, WARN, UNKNOWN}),
    _look,
)
