"""vLLM was started with a token budget that the seeds' table fits in, and that the card bears.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import cards, startup
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, Found
from controller.preflight.surroundings import Surroundings
from domain.knobs import MAX_NUM_BATCHED_TOKENS
from policies.profiles import A100_80G, of_engine

LEAST, MOST = 4096, 8192
"""The rows of the seeds' table; on an A100-80G its last is the physical limit too."""


def _look(around: Surroundings) -> Found:
    value = startup(around, MAX_NUM_BATCHED_TOKENS)
    profile = of_engine(card.name for card in cards(around))
    told = f"vLLM was started with --max-num-batched-tokens {value:g}"
    if value < LEAST:
        cure = f"vllm serve MODEL --max-num-batched-tokens {LEAST}"
        return Found(WARN, f"{told}: no row of the seeds' table ({LEAST} to {MOST}) can be set", cure)
    if profile is A100_80G and value > MOST:
        cure = f"vllm serve MODEL --max-num-batched-tokens {MOST}"
        why = f"{told}, more than {MOST}, which is what an A100-80G bears: activations take the KV cache's memory"
        return Found(WARN, why, cure)
    return Found(PASS, f"{told}; the seeds' table has {LEAST} to {MOST}")


CHECK = Check(
    "envelope_budget",
    "--max-num-batched-tokens is 4096 or more, and on an A100-80G 8192 or less",
    "seed 1, fault tree 2; seed 2, get_batch_config",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
