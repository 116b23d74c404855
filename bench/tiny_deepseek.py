"""A DeepSeek-style model small enough for tests: latent attention (MLA), a mixture of experts, no weights.

Its shape belongs here; the tokenizer and how the files are written are `bench.tiny_model`'s. vLLM's MLA takes a few
sizes of the latent vector only, so that one is as large as the real models'.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bench.tiny_model import MAX_POSITIONS, VOCAB_SIZE, tiny_model

CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    # attention
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "attention_bias": False,
    # experts: the first layer has none
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_shared_experts": 1,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    # the rest
    "hidden_act": "silu",
    "max_position_embeddings": MAX_POSITIONS,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}


def tiny_deepseek(directory: str | os.PathLike[str]) -> Path:
    """Returns ``directory`` holding the model, writing it first when it is not there; see ``tiny_model``."""
    return tiny_model(directory, _write_config)


def _write_config(directory: Path) -> None:
    (directory / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")
