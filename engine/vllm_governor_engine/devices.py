"""Which GPUs this engine core computes on.

Here: asking the process and vLLM's configuration. Never here: the driver; nothing in this process calls NVML for us.
"""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_devices(vllm_config: Any) -> str | None:
    """Written as CUDA_VISIBLE_DEVICES is, whose value it is unless vLLM assigns devices itself; None: all of them.

    Newer vLLM gives each data-parallel rank its share, and carries --device-ids out, without setting the variable.
    """
    try:
        assigned = vllm_config.parallel_config.assigned_physical_gpu_ids
        if assigned is not None:
            return ",".join(str(device) for device in assigned)
    except Exception:  # an older vLLM sets the variable
        return os.environ.get(VARIABLE)
    return os.environ.get(VARIABLE)
