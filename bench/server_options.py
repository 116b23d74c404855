"""How a vLLM of the bench is started: its arguments and its environment, made from options.

Values in, values out. Starting it never belongs here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Fine enough that a quantile is off by 12 % at most: 1 ms .. 2 s, geometric.
ITL_BUCKETS_S = tuple(round(0.001 * 1.12**step, 6) for step in range(68))
#: vLLM's own executor that runs the model inside the engine's process. A CPU vLLM would start one more process that
#: polls for work, and three polling processes on two cores measure each other.
IN_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
FIRST_WITH_BUCKETS = (0, 32)


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """The envelope and shape of one server. `executor` None leaves the choice to vLLM; `port` None takes a free one."""

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    max_model_len: int = 2048
    num_gpu_blocks: int = 4096
    block_size: int = 32
    itl_buckets_s: tuple[float, ...] = ITL_BUCKETS_S
    executor: str | None = IN_PROCESS
    plugin: bool = True
    port: int | None = None
    threads: int = 1
    kv_cache_gib: int = 1
    served_name: str = "tiny"
    extra_args: tuple[str, ...] = ()
    extra_env: Mapping[str, str] = field(default_factory=dict)


def arguments(options: VllmOptions, *, model: Path, port: int, version: tuple[int, int]) -> list[str]:
    """The arguments of `vllm`."""
    made = ["serve", str(model), "--served-model-name", options.served_name, "--host", "127.0.0.1", "--port", str(port)]
    made += ["--load-format", "dummy", "--enforce-eager", "--disable-uvicorn-access-log"]
    # In bfloat16, on a CPU with AMX, vLLM's attention uses tiles that nobody has asked the kernel for: the engine dies.
    made += ["--dtype", "float32"]
    for name, value in (
        ("--max-num-seqs", options.max_num_seqs),
        ("--max-num-batched-tokens", options.max_num_batched_tokens),
        ("--max-model-len", options.max_model_len),
        ("--num-gpu-blocks-override", options.num_gpu_blocks),
        ("--block-size", options.block_size),
    ):
        made += [name, str(value)]
    if options.executor is not None:
        made += ["--distributed-executor-backend", options.executor]
    if options.itl_buckets_s and version >= FIRST_WITH_BUCKETS:
        made += ["--custom-histogram-buckets", json.dumps({"inter_token_latency": options.itl_buckets_s})]
    return [*made, *options.extra_args]


def environment(
    options: VllmOptions, *, token_file: Path, overlay: Path | None, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the server: the caller's, without what steers another vLLM, and what this one needs."""
    made = {name: value for name, value in inherited.items() if not name.startswith(("VLLM_", "GOVERNOR_"))}
    threads = str(options.threads)
    made |= {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "governor",
        "VLLM_GOVERNOR_TOKEN_FILE": str(token_file),
        "VLLM_CPU_KVCACHE_SPACE": str(options.kv_cache_gib),
        # The API process, the engine and a load share few cores: threads that wait for each other only take turns.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
    }
    if overlay is not None:
        before = inherited.get("PYTHONPATH", "")
        made["PYTHONPATH"] = f"{overlay}{os.pathsep}{before}" if before else str(overlay)
    return made | dict(options.extra_env)
