"""vLLM splits long prompts over several steps.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import runtime
from controller.preflight.result import FAIL, PASS, UNKNOWN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from domain.knobs import LONG_PREFILL_TOKEN_THRESHOLD
from domain.runtime import Support

OFF = "chunked prefill is off"
"""How the plugin's reason begins (engine/vllm_governor_engine/knobs/long_prefill.py)."""


def _look(around: Surroundings) -> Found:
    knobs = [core.knobs.get(LONG_PREFILL_TOKEN_THRESHOLD) for core in runtime(around).cores]
    for knob in knobs:
        if knob is None or (knob.support is Support.OFF and not (knob.reason or "").startswith(OFF)):
            raise NotKnown(f"the plugin does not tell: {'an older one' if knob is None else knob.reason}")
        if knob.support is Support.OFF:
            return Found(
                FAIL, f"{OFF}: one long prompt holds up all others", "vllm serve MODEL --enable-chunked-prefill"
            )
    return Found(PASS, "chunked prefill is on")


CHECK = Check(
    "chunked_prefill",
    "chunked prefill is on",
    "seed 1, enable_chunked_prefill; seed 2, --enable-chunked-prefill",
    frozenset({PASS, FAIL, UNKNOWN}),
    _look,
)
