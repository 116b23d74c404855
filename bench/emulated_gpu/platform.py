"""vLLM's CPU platform with the scheduler's settings left as asked. What makes the CPU behave as a GPU belongs here.

vLLM's own CPU platform switches async scheduling off. The emulated GPU has no reason to: with this platform the engine
runs ``AsyncScheduler`` with two batches in flight, as it does on a GPU, unless ``--no-async-scheduling`` is given. Nor
does it let the CPU's attention for DeepSeek-style models (MLA) switch chunked prefill and prefix caching off.

In a server: put the folder that ``python -m bench.emulated_gpu.plugin_path DIR`` prints on ``PYTHONPATH`` beside
``bench``. In this process: call ``select()``, at any time before the engine's configuration is made. When
``VLLM_PLUGINS`` is set it must name ``emulated_gpu``, and ``VLLM_TARGET_DEVICE=cpu`` must not be set: it makes vLLM
skip every platform plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm.platforms.cpu import CpuPlatform


class EmulatedGpuPlatform(CpuPlatform):  # type: ignore[misc]  # vLLM is untyped here
    """The CPU, minus its objections where no CPU computes."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        asked = [(config, name, getattr(config, name)) for config, name in _settings(vllm_config)]
        super().check_and_update_config(vllm_config)
        for config, name, value in asked:
            setattr(config, name, value)


def _settings(vllm_config: Any) -> Iterator[tuple[Any, str]]:
    yield vllm_config.scheduler_config, "async_scheduling"
    model = vllm_config.model_config
    if model is not None and model.use_mla and _is_emulated(vllm_config.parallel_config.distributed_executor_backend):
        yield vllm_config.scheduler_config, "enable_chunked_prefill"
        yield vllm_config.scheduler_config, "max_num_batched_tokens"
        yield vllm_config.cache_config, "enable_prefix_caching"
        yield vllm_config.cache_config, "block_size"


def _is_emulated(executor: object) -> bool:
    named = executor if isinstance(executor, str) else getattr(executor, "__module__", "")
    return named.startswith("bench.emulated_gpu.")


def register() -> str:
    """Entry point of the group ``vllm.platform_plugins``: the class to use, by name."""
    return f"{__name__}.{EmulatedGpuPlatform.__name__}"


def select() -> None:
    """Makes this process's current platform an ``EmulatedGpuPlatform``, for all who hold a reference to it already.

    Raises ``RuntimeError`` when vLLM runs on something else than its plain CPU platform.
    """
    from vllm.platforms import current_platform

    if isinstance(current_platform, EmulatedGpuPlatform):
        return
    if type(current_platform) is not CpuPlatform:
        raise RuntimeError(f"cannot emulate a GPU on {type(current_platform).__name__}: only on vLLM's CPU platform")
    current_platform.__class__ = EmulatedGpuPlatform
