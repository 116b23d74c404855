"""CUDA-graph padding, where vLLM measures it (`--cudagraph-metrics`).

Here: sums of padded and real tokens. Never here: an estimate.
"""

from __future__ import annotations

from typing import Any


class Padding:
    """The sums since the collection began; None until vLLM has reported a step."""

    def __init__(self, vllm_config: Any) -> None:
        self._steps = self._real = self._padded = 0
        settings = getattr(vllm_config, "observability_config", None)
        self.measured = bool(getattr(settings, "cudagraph_metrics", False))
        """Whether vLLM was told to measure it: else nobody has to look at every step for nothing."""

    def ended(self, model_output: Any) -> None:
        """A step has ended with this ModelRunnerOutput."""
        measured = model_output.cudagraph_stats
        if measured is not None:
            self._steps += 1
            self._real += int(measured.num_unpadded_tokens)
            self._padded += int(measured.num_padded_tokens)

    def read(self) -> dict[str, Any] | None:
        """See Collector. `padded_tokens` counts the real ones too."""
        if not self._steps:
            return None
        return {"steps": self._steps, "real_tokens": self._real, "padded_tokens": self._padded}

    def stop(self) -> None:
        """See Collector."""
