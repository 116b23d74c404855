"""vLLM was started with room for the GPU's batch, and not much more.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import profile_of, startup
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from domain.knobs import MAX_NUM_SEQS
from policies.profiles import A100_80G


def _look(around: Surroundings) -> Found:
    value = startup(around, MAX_NUM_SEQS)
    fixed = around.settings.policies.static.fixed_batch_size
    if value <= fixed:
        cure = f"vllm serve MODEL --max-num-seqs {_wide(around)}"
        why = f"vLLM was started with --max-num-seqs {value:g}, the rollback's fixed batch is {fixed}: nowhere to grow"
        return Found(FAIL, why, cure)
    profile = profile_of(around)
    cure = f"vllm serve MODEL --max-num-seqs {profile.max_num_seqs}"
    told = f"vLLM was started with --max-num-seqs {value:g}, the {profile.name}'s batch goes to {profile.max_num_seqs}"
    if value < profile.max_num_seqs:
        return Found(WARN, f"{told}: the cap cannot be raised so far", cure)
    if value > profile.max_num_seqs:
        return Found(WARN, f"{told}: graphs and buffers for more are held and never used", cure)
    return Found(PASS, told)


def _wide(around: Surroundings) -> int:
    """For a GPU without a row of its own, the row in the middle."""
    try:
        return profile_of(around).max_num_seqs
    except (DoesNotApply, NotKnown):
        return A100_80G.max_num_seqs


CHECK = Check(
    "envelope_cap",
    "--max-num-seqs is the GPU's recommended batch: A100-80G 64, RTX 4090 32, H100-PCIE-80G 128",
    "seed 1, hardware table",
    frozenset({PASS, WARN, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
