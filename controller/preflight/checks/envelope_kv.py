"""The KV cache holds as many requests as the cap lets in.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import GIB, LEAST_SAMPLES, gpus, reading, startup
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from domain.knobs import MAX_NUM_SEQS


def _look(around: Surroundings) -> Found:
    pool = _pool_tokens(around)
    cap = startup(around, MAX_NUM_SEQS)
    length = _mean_tokens(around)
    fit = pool / length
    told = (
        f"the KV cache holds {pool:g} tokens{_bytes(around)}: {fit:.0f} requests of {length:.0f} tokens, the mean; "
        f"--max-num-seqs is {cap:g}"
    )
    cure = f"vllm serve MODEL --max-num-seqs {max(1, int(fit))}"
    if fit < 1:
        return Found(FAIL, f"{told}: not one fits", "vllm serve MODEL --gpu-memory-utilization 0.95")
    if fit < cap:
        return Found(WARN, f"{told}: at the cap they preempt each other", cure)
    return Found(PASS, told)


def _pool_tokens(around: Surroundings) -> float:
    reading(around)
    config = around.engine.cache_config
    if config.get("is_attention_free") == "True":
        raise DoesNotApply("this model has no attention, so it needs no KV cache")
    told, blocks, block_size = (config.get(n, "") for n in ("kv_cache_size_tokens", "num_gpu_blocks", "block_size"))
    if told.isdecimal():
        return float(told)
    if blocks.isdecimal() and block_size.isdecimal():
        return float(blocks) * float(block_size)
    raise NotKnown("vLLM's metrics do not tell the size of the KV cache (vllm:cache_config_info)")


def _mean_tokens(around: Surroundings) -> float:
    found = reading(around)
    prompts, outputs = found.prompt_lengths, found.output_lengths
    samples = 0.0 if prompts is None else prompts.samples
    if prompts is None or outputs is None or samples < LEAST_SAMPLES or prompts.mean is None or outputs.mean is None:
        raise NotKnown(f"{samples:g} requests have finished; it takes {LEAST_SAMPLES} to tell how long they are")
    return max(1.0, prompts.mean + outputs.mean)


def _bytes(around: Surroundings) -> str:
    """The pool beside what else a wide envelope costs: weights, activations of a full step and graphs."""
    pool = around.engine.pool_bytes
    if pool is None:
        return ""
    try:
        memories = [device.memory for device in gpus(around).devices]
    except (DoesNotApply, NotKnown):
        return f", {pool / GIB:.3g} GiB"
    used = sum(memory.used_bytes for memory in memories if memory is not None)
    rest = used - pool
    if None in memories or rest <= 0:
        return f", {pool / GIB:.3g} GiB"
    return f", {pool / GIB:.3g} GiB beside {rest / GIB:.3g} GiB for weights, activations of a full step and graphs"


CHECK = Check(
    "envelope_kv",
    "the KV cache holds --max-num-seqs requests of the mean length",
    "seed 1, max_num_seqs against memory; field case R5",
    frozenset({PASS, WARN, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
