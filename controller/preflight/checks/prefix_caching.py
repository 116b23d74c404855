"""vLLM keeps the KV of prompts that come again.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import reading
from controller.preflight.result import FAIL, PASS, UNKNOWN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings


def _look(around: Surroundings) -> Found:
    reading(around)
    said = around.engine.cache_config.get("enable_prefix_caching")
    if said not in ("True", "False"):
        raise NotKnown("vLLM's metrics do not tell whether prefix caching is on (vllm:cache_config_info)")
    if said == "False":
        cure = "vllm serve MODEL --enable-prefix-caching"
        return Found(FAIL, "prefix caching is off: nothing is reused, and there is no hot tier", cure)
    return Found(PASS, "prefix caching is on")


CHECK = Check(
    "prefix_caching",
    "prefix caching is on",
    "seed 1, hot and cold paths",
    frozenset({PASS, FAIL, UNKNOWN}),
    _look,
)
