"""A real vLLM engine core in this process, on the emulated GPU. Building and stepping it belong here; tests never do.

::

    with InProcessEngine(EngineSettings(async_scheduling=True, num_blocks=64)) as engine:
        engine.add_request("a", prompt_token_ids=range(100), max_tokens=20)
        assert engine.run_until_idle() == {"a": engine.expected("a", 20)}

Importing this module does not load vLLM; the first engine does (seconds), those after it cost some ten milliseconds.
The first engine also fixes the environment for the process: vLLM reads its variables once and for all.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from bench.emulated_gpu.clock import Clock, VirtualClock
from bench.emulated_gpu.settings import CONFIG_KEY, EmulatedGpu
from bench.tiny_model import MAX_POSITIONS, tiny_model


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The engine's start-up settings. Names and meanings are vLLM's unless said otherwise."""

    async_scheduling: bool = False
    """Two batches in flight (``AsyncScheduler``), as GPUs run by default."""
    prefix_caching: bool = True
    chunked_prefill: bool = True
    """When off, ``max_num_batched_tokens`` must be at least ``max_model_len``."""
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    max_model_len: int = 2048
    num_blocks: int = 4096
    """KV cache blocks; vLLM keeps one of them back as the null block."""
    block_size: int = 16
    """Tokens per block."""
    long_prefill_token_threshold: int = 0
    scheduling_policy: str = "fcfs"
    log_stats: bool = False
    """Whether the scheduler makes statistics at every step."""
    gpu: EmulatedGpu = field(default_factory=EmulatedGpu)
    """The device."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments for vLLM's ``EngineArgs``, by its names."""


class InProcessEngine:
    """One engine core. Use it as a context manager, or ``close`` it."""

    def __init__(
        self,
        settings: EngineSettings | None = None,
        *,
        clock: Clock | None = None,
        model: str | None = None,
        executor_class: type[Any] | None = None,
    ) -> None:
        """Starts an engine on ``clock`` (a new ``VirtualClock`` by default) for ``model`` (a tiny one by default).

        With an ``executor_class`` of vLLM's own the model really runs, on the CPU: then the answers are the model's and
        time is the machine's.
        """
        self.settings = EngineSettings() if settings is None else settings
        self.clock: Clock = VirtualClock() if clock is None else clock
        core_module = _load_vllm()
        from bench.emulated_gpu.executor import EmulatedGpuExecutor

        executor_class = executor_class or EmulatedGpuExecutor.on_clock(self.clock)
        config = _engine_config(self.settings, _default_model() if model is None else model, executor_class)
        with _nothing_frozen(core_module):
            self.core: Any = core_module.EngineCore(config, executor_class, log_stats=self.settings.log_stats)
        self.finish_reasons: dict[str, str] = {}
        """Why each finished request ended, by id; an aborted one is not in it, since vLLM reports none."""

    @property
    def scheduler(self) -> Any:
        """vLLM's scheduler: ``AsyncScheduler`` or ``Scheduler``."""
        return self.core.scheduler

    @property
    def executor(self) -> Any:
        """The ``EmulatedGpuExecutor``; ``steps``, ``last_step`` and ``busy_s`` tell what the device did."""
        return self.core.model_executor

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: Iterable[int],
        max_tokens: int,
        *,
        priority: int = 0,
        arrived_at: float | None = None,
    ) -> None:
        """Queues a request that ends after exactly ``max_tokens`` tokens (or at the model's length).

        ``arrived_at`` is the time of the day that vLLM keeps as its arrival; without it the machine's.

        The id must not be that of a request still in the engine or, after an abort, in a batch in flight: vLLM would
        take the old one's token for the new one's.
        """
        from vllm.v1.request import Request

        request = Request(
            request_id=request_id,
            prompt_token_ids=list(prompt_token_ids),
            sampling_params=_sampling_params(max_tokens),
            pooling_params=None,
            priority=priority,
            arrival_time=arrived_at,
            block_hasher=self.core.request_block_hasher,
        )
        self.core.add_request(request)

    def abort(self, *request_ids: str) -> None:
        """Aborts requests, waiting or running; an unknown or finished id is ignored, as vLLM does."""
        self.core.abort_requests(list(request_ids))

    def step(self) -> dict[str, list[int]]:
        """One turn of the engine's loop; returns the new tokens by request.

        With two batches in flight a turn that only fills the pipeline returns nothing.
        """
        if not self.busy:
            return {}
        outputs, executed = self.core.step_fn()
        self.core.post_step(executed)
        new_tokens: dict[str, list[int]] = {}
        for per_client in (outputs or {}).values():
            for output in per_client.outputs:
                if output.new_token_ids:
                    new_tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
                if output.finish_reason is not None:
                    self.finish_reasons[output.request_id] = str(output.finish_reason)
        return new_tokens

    @property
    def busy(self) -> bool:
        """Whether a turn of the loop has anything to do: requests, or batches in flight."""
        return bool(self.core.scheduler.has_requests() or self.core.batch_queue)

    def run_until_idle(self, max_steps: int = 1_000_000) -> dict[str, list[int]]:
        """Steps until nothing is left and returns all tokens that came out, by request.

        Raises ``RuntimeError`` after ``max_steps``: something waits that is never scheduled.
        """
        collected: dict[str, list[int]] = {}
        for _ in range(max_steps):
            if not self.busy:
                return collected
            for request_id, tokens in self.step().items():
                collected.setdefault(request_id, []).extend(tokens)
        raise RuntimeError(
            f"cannot get idle: after {max_steps} steps {len(self.scheduler.running)} requests run "
            f"and {len(self.scheduler.waiting)} wait"
        )

    def expected(self, request_id: str, length: int) -> list[int]:
        """The first ``length`` tokens this request must be answered with."""
        return self.settings.gpu.tokens.answer(request_id, length)

    def close(self) -> None:
        """Ends the engine. It cannot be used afterwards; its memory goes at the next garbage collection."""
        self.core.model_executor.shutdown()
        self.core.scheduler.shutdown()
        _forget_groups()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _engine_config(settings: EngineSettings, model: str, executor_class: type[Any]) -> Any:
    from vllm.engine.arg_utils import EngineArgs

    arguments: dict[str, Any] = {
        "model": model,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "distributed_executor_backend": executor_class,
        "async_scheduling": settings.async_scheduling,
        "enable_prefix_caching": settings.prefix_caching,
        "enable_chunked_prefill": settings.chunked_prefill,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "max_model_len": settings.max_model_len,
        "hf_overrides": {"max_position_embeddings": max(MAX_POSITIONS, settings.max_model_len)},
        "num_gpu_blocks_override": settings.num_blocks,
        "block_size": settings.block_size,
        "long_prefill_token_threshold": settings.long_prefill_token_threshold,
        "scheduling_policy": settings.scheduling_policy,
        "disable_log_stats": not settings.log_stats,
        "additional_config": {CONFIG_KEY: settings.gpu.to_dict()},
        **settings.extra,
    }
    return EngineArgs(**arguments).create_engine_config()


@functools.cache
def _load_vllm() -> Any:
    """Imports vLLM's engine core module with the emulated platform; an environment variable already set stays."""
    for name, value in (("HF_HUB_OFFLINE", "1"), ("VLLM_NO_USAGE_STATS", "1"), ("VLLM_LOGGING_LEVEL", "ERROR")):
        os.environ.setdefault(name, value)
    core_module = importlib.import_module("vllm.v1.engine.core")
    importlib.import_module("bench.emulated_gpu.platform").select()
    gc.collect()
    gc.freeze()  # the modules live as long as the process: without this every full collection walks them for 0.3 s
    return core_module


@contextlib.contextmanager
def _nothing_frozen(core_module: Any) -> Iterator[None]:
    """Keeps a starting engine from freezing the heap: a search makes thousands and each must be collectable."""
    freeze = getattr(core_module, "freeze_gc_heap", None)
    if freeze is None:
        yield
        return
    core_module.freeze_gc_heap = lambda: None
    try:
        yield
    finally:
        core_module.freeze_gc_heap = freeze


@functools.cache
def _default_model() -> str:
    directory = tempfile.mkdtemp(prefix="tiny-model-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return str(tiny_model(directory))


@functools.lru_cache(maxsize=1024)
def _sampling_params(max_tokens: int) -> Any:
    from vllm import SamplingParams

    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, temperature=0.0, detokenize=False)


def _forget_groups() -> None:
    """A worker that computed leaves vLLM's process-wide groups behind, and those of one model do not fit the next."""
    parallel_state = importlib.import_module("vllm.distributed.parallel_state")
    parallel_state.destroy_model_parallel()
    parallel_state.destroy_distributed_environment()
