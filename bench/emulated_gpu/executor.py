"""The executor vLLM drives instead of a GPU. Only the adapter belongs here; what it answers with lives beside it.

Use it with vLLM 0.27 .. 0.32::

    vllm serve DIR --load-format dummy --distributed-executor-backend bench.emulated_gpu.executor.EmulatedGpuExecutor

``bench`` must be importable in the server (``PYTHONPATH``); ``bench.emulated_gpu.settings`` says how the device is set.
With ``VLLM_DISABLE_REQUEST_ID_RANDOMIZATION=1`` a completion sent with the header ``X-Request-Id: x`` is the request
``cmpl-x-0`` (a chat completion ``chatcmpl-x``), so that a client can check its answer with ``TokenRule.answer``.
One device, no tensor or pipeline parallelism, no speculative decoding, no LoRA, no log-probabilities.

A step is answered by a future that is done when the device would be. The device runs one step at a time: with two
batches in flight the second starts when the first ends, whenever it was handed over.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput

from bench.emulated_gpu import presets
from bench.emulated_gpu.clock import Clock, RealClock
from bench.emulated_gpu.ledger import DeviceStep, Ledger
from bench.emulated_gpu.nvml_feed import NvmlFeed
from bench.emulated_gpu.settings import EmulatedGpu, load

_NOTHING_TO_DO = frozenset(
    {
        "add_lora", "check_health", "initialize_from_config", "list_loras", "pin_lora", "profile", "remove_lora",
        "reset_encoder_cache", "reset_mm_cache", "shutdown", "sleep", "update_max_model_len", "wake_up",
    }
)  # fmt: skip
"""Worker calls that mean nothing to a device without memory or weights."""


class DeviceFuture(Future[Any]):
    """A result that is there once the device's clock has reached a moment. Waiting sleeps on that clock."""

    def __init__(self, value: Any, ready_at_s: float, clock: Clock) -> None:
        super().__init__()
        self._ready_at_s = ready_at_s
        self._clock = clock
        self.set_result(value)

    def done(self) -> bool:
        return self._clock.now_s() >= self._ready_at_s

    def result(self, timeout: float | None = None) -> Any:
        self._clock.sleep_until(self._ready_at_s)
        return super().result(timeout)


class EmulatedGpuExecutor(Executor):  # type: ignore[misc]  # vLLM is untyped here
    """One emulated GPU under vLLM's engine core."""

    uses_ray: bool = False
    supports_pp: bool = False
    clock: ClassVar[Clock] = RealClock()

    @classmethod
    def on_clock(cls, clock: Clock) -> type[EmulatedGpuExecutor]:
        """The same executor on another clock, as a class, since vLLM makes the instance."""
        return type(cls.__name__, (cls,), {"clock": clock, "__module__": cls.__module__})

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return True

    @property
    def max_concurrent_batches(self) -> int:
        """Batches vLLM may have in flight; asked of the executor by older versions, of the config by newer ones."""
        return 2 if self.scheduler_config.async_scheduling else 1

    def _init_executor(self) -> None:
        self.gpu: EmulatedGpu = load(self.vllm_config.additional_config, os.environ)
        self._ledger = Ledger(self.gpu.tokens)
        self._handed_over: deque[DeviceFuture] = deque()
        self._free_at_s = self.clock.now_s()
        self.steps = 0
        """Steps with tokens in them so far."""
        self.last_step: DeviceStep | None = None
        """The latest of those steps."""
        self.busy_s = 0.0
        """Seconds the device has been, or is known to be going to be, at work."""
        self.computing_s = 0.0
        """Those of them that tokens took, not reading weights or the KV cache: what a power model tells apart."""
        self.speed = 1.0
        """Share of its speed the device runs at; below 1 it is throttled. May be set at any time."""
        self._feed = self._shown_in_nvml()

    def _shown_in_nvml(self) -> NvmlFeed | None:
        if not self.gpu.nvml_script:
            return None
        preset, memory_gib = presets.by_name(self.gpu.card), presets.CARDS[self.gpu.card].memory_gb
        feed = NvmlFeed(Path(self.gpu.nvml_script), preset.nvml_name, memory_gib, preset.power, self, self.clock)
        feed.start()
        return feed

    # -- start-up: what the engine core asks once

    def determine_available_memory(self) -> list[int]:
        return [self.gpu.kv_cache_mib << 20]

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        model, parallel = self.model_config, self.parallel_config
        # DeepSeek's attention keeps one latent vector per token instead of keys and values per head.
        spec = (MLAAttentionSpec if model.use_mla else FullAttentionSpec)(
            block_size=self.cache_config.block_size,
            num_kv_heads=model.get_num_kv_heads(parallel),
            head_size=model.get_head_size(),
            dtype=model.dtype,
        )
        return [{f"model.layers.{n}.self_attn.attn": spec for n in range(model.get_num_layers(parallel))}]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        return [["LBHNC", "LBNHC"]]

    def set_kv_cache_layout(self, layout_name: str) -> None:
        pass

    def initialize_from_config(self, kv_cache_configs: list[Any]) -> None:
        pass

    def compile_or_warm_up_model(self) -> None:
        pass

    @property
    def supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    # -- one step

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Takes a step over. Without tokens it is answered at once, else by the next ``sample_tokens``."""
        step = self._ledger.run(scheduler_output)
        if step.tokens:
            self._handed_over.append(self._start(step))
            return self._answer(None, non_block)
        return self._answer(ModelRunnerOutput(req_ids=[], req_id_to_index={}), non_block)

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        """The tokens of the oldest step taken over and not yet asked about; the grammar, if any, is not followed."""
        future = self._handed_over.popleft()
        return future if non_block else future.result()

    def execute_dummy_batch(self) -> None:
        """A step that keeps pace with other data-parallel ranks: takes the base time, produces nothing."""
        self.clock.sleep_until(self._occupy(self.gpu.step.base_ms * 1e-3))

    def take_draft_token_ids(self) -> None:
        return None

    def _start(self, step: DeviceStep) -> DeviceFuture:
        output = ModelRunnerOutput(
            req_ids=step.request_ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(step.request_ids)},
            sampled_token_ids=step.sampled,
        )
        self.steps += 1
        self.last_step = step
        self.computing_s += self.gpu.step.token_s(step.tokens) / self.speed
        ready_at_s = self._occupy(self.gpu.step.step_s(step.tokens, step.context_tokens) / self.speed)
        return DeviceFuture(output, ready_at_s, self.clock)

    def _occupy(self, duration_s: float) -> float:
        """Puts work behind what the device is doing already and returns when it will be done."""
        self._free_at_s = max(self._free_at_s, self.clock.now_s()) + duration_s
        self.busy_s += duration_s
        return self._free_at_s

    def _answer(self, value: Any, non_block: bool) -> Any:
        return DeviceFuture(value, self.clock.now_s(), self.clock) if non_block else value

    # -- the rest

    def check_health(self) -> None:
        pass

    def shutdown(self) -> None:
        self._handed_over.clear()
        if self._feed is not None:
            self._feed.close()

    def collective_rpc(
        self,
        method: str | Callable[..., Any],
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        non_block: bool = False,
    ) -> Any:
        """Answers for the one worker there would be. Raises ``NotImplementedError`` for a call it does not know."""
        if callable(method):
            return self._answer([method(self, *args, **(kwargs or {}))], non_block)
        if method not in _NOTHING_TO_DO:
            raise NotImplementedError(f"cannot run {method!r}: the emulated GPU has no worker to run it")
        return self._answer([None], non_block)
