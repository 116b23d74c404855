"""The GPUs that comparisons run on, by name: how fast a step is, how much KV cache there is, what it draws.

Each is a roofline of published figures: data sheet for the card, architecture for the model, and the two shares of the
data sheet's peak that serving reaches. Belongs here: those figures with their sources. Never: a measurement of this
project.

Sources. Cards: NVIDIA's data sheets "A100 80GB SXM" (2,039 GB/s, 312 TFLOPS BF16 dense, 400 W), "H100 PCIe" (2,000
GB/s, 756 TFLOPS BF16 dense, 350 W), "GeForce RTX 4090" with the Ada architecture paper (1,008 GB/s, 165 TFLOPS FP16
dense with FP32 accumulation, 450 W). Model: Llama-3.1-8B's config.json (32 layers, 8 KV heads of 128, 8.03e9
parameters), 16-bit weights and KV cache. Shares: decoding reaches about 80 % of the memory's bandwidth, prefill about
60 % of the arithmetic's peak, the round figures of published serving measurements; nobody's in particular.

What is left out, and which way it errs: attention of a prompt over its own context is charged per context token and
not per pair, so prompts over some 10,000 tokens are too cheap; a step's fixed cost of kernel launches and sampling is
in no figure, so small steps are some 1 to 3 ms too cheap; arithmetic and memory traffic add up and never overlap, so
mixed steps are too dear by up to the smaller of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.emulated_gpu.power import PowerModel
from bench.emulated_gpu.step_model import StepModel

BLOCK_TOKENS = 16
"""Tokens per KV block, vLLM's default on GPUs."""
BANDWIDTH_SHARE = 0.8
"""Of the memory's peak bandwidth, reached by decoding."""
ARITHMETIC_SHARE = 0.6
"""Of the dense 16-bit peak, reached by prefill."""
MEMORY_UTILIZATION = 0.9
"""vLLM's default `--gpu-memory-utilization`."""
ACTIVATIONS_GB = 2.0
"""Activations, CUDA graphs and NCCL buffers beside weights and KV cache."""
MEMORY_POWER_SHARE = 0.5
"""Power of decoding, of the way from idle to the limit."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card as its data sheet has it. GB are 1e9 bytes."""

    nvml_name: str
    memory_gb: float
    bandwidth_gb_per_s: float
    tflops: float
    idle_w: float
    """Loaded and without work, as nvidia-smi shows such cards; no data sheet gives it."""
    cap_w: float


@dataclass(frozen=True, slots=True)
class Model:
    """A dense model in 16 bit."""

    name: str
    parameters: float
    layers: int
    kv_heads: int
    head_size: int

    @property
    def weight_gb(self) -> float:
        """Weights, GB."""
        return 2 * self.parameters / 1e9

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token, all layers."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_size


@dataclass(frozen=True, slots=True)
class Preset:
    """An emulated GPU with a model on it."""

    name: str
    nvml_name: str
    """NVML's name of the card, by which the daemon finds its profile."""
    step: StepModel
    power: PowerModel
    num_blocks: int
    """KV cache, blocks of `block_tokens`."""
    block_tokens: int = BLOCK_TOKENS
    kv_gb: float = 0.0
    """The same cache in GB."""


LLAMA_8B = Model("Llama-3.1-8B", 8.03e9, 32, 8, 128)
CARDS = {
    "A100-80G": Card("NVIDIA A100-SXM4-80GB", 80, 2039, 312, idle_w=60, cap_w=400),
    "H100-PCIE-80G": Card("NVIDIA H100 PCIe", 80, 2000, 756, idle_w=50, cap_w=350),
    "RTX-4090": Card("NVIDIA GeForce RTX 4090", 24, 1008, 165, idle_w=25, cap_w=450),
}


def roofline(name: str, card: Card, model: Model = LLAMA_8B) -> Preset:
    """Any card with any dense model. Raises ValueError when the weights leave no room for a KV cache."""
    bytes_per_s = card.bandwidth_gb_per_s * 1e9 * BANDWIDTH_SHARE
    pool_gb = card.memory_gb * MEMORY_UTILIZATION - model.weight_gb - ACTIVATIONS_GB
    if pool_gb <= 0:
        raise ValueError(
            f"cannot put {model.name} on {name}: its weights take {model.weight_gb:.1f} of {card.memory_gb:g} GB; "
            "take a smaller model or a larger card"
        )
    return Preset(
        name=name,
        nvml_name=card.nvml_name,
        step=StepModel(
            base_ms=round(model.weight_gb * 1e9 / bytes_per_s * 1e3, 2),
            per_token_us=round(2 * model.parameters / (card.tflops * 1e12 * ARITHMETIC_SHARE) * 1e6, 1),
            per_context_token_ns=round(model.kv_bytes_per_token / bytes_per_s * 1e9, 1),
        ),
        power=PowerModel(card.idle_w, card.idle_w + MEMORY_POWER_SHARE * (card.cap_w - card.idle_w), card.cap_w),
        num_blocks=int(pool_gb * 1e9 / model.kv_bytes_per_token / BLOCK_TOKENS),
        kv_gb=round(pool_gb, 2),
    )


def by_name(name: str) -> Preset:
    """The preset of that name. Raises ValueError that lists those there are."""
    if name not in CARDS:
        raise ValueError(f"cannot emulate {name}: known are {', '.join(CARDS)}")
    return roofline(name, CARDS[name])
