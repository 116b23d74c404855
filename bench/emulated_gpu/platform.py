"""vLLM's CPU platform with async scheduling left as asked. Only what makes the CPU behave as a GPU would belongs here.

vLLM's own CPU platform switches async scheduling off. The emulated GPU has no reason to: with this platform the engine
runs ``AsyncScheduler`` with two batches in flight, as it does on a GPU, unless ``--no-async-scheduling`` is given.

In a server: put the folder that ``python -m bench.emulated_gpu.plugin_path DIR`` prints on ``PYTHONPATH`` beside
``bench``. In this process: call ``select()``, at any time before the engine's configuration is made. When
``VLLM_PLUGINS`` is set it must name ``emulated_gpu``, and ``VLLM_TARGET_DEVICE=cpu`` must not be set: it makes vLLM
skip every platform plugin.
"""

from __future__ import annotations

from typing import Any

from vllm.platforms.cpu import CpuPlatform


class EmulatedGpuPlatform(CpuPlatform):  # type: ignore[misc]  # vLLM is untyped here
    """The CPU, minus the objection to async scheduling."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        wanted = vllm_config.scheduler_config.async_scheduling
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.async_scheduling = wanted


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
