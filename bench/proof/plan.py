"""Which comparisons make up the proof. Belongs here: scenario, GPU and who takes part. Never: how they are run.

The fixed settings are the best that are known of each scenario; `bench compare` without `--contenders` searches the
whole grid, which takes some minutes each.
"""

from __future__ import annotations

from dataclasses import dataclass

_OTHERS = ("vllm_default", "seed", "aimd", "gradient", "model")
_WITHOUT_LIMITERS = ("vllm_default", "seed", "model")
"""Where the cap never binds, both limiters are vLLM's default to the last digit (docs/compare.md)."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run of `bench compare`."""

    scenario: str
    contenders: tuple[str, ...]
    gpu: str = "A100-80G"

    def arguments(self) -> list[str]:
        """What `bench compare` is told."""
        return ["--scenario", self.scenario, "--gpu", self.gpu, "--contenders", ",".join(self.contenders)]


PLAN = (
    Comparison("shift55", ("fixed-128-256", "fixed-128-384", *_WITHOUT_LIMITERS)),
    Comparison("shift80", ("fixed-128-384", "fixed-128-512", *_WITHOUT_LIMITERS)),
    Comparison("shift120", ("fixed-128-768", "fixed-128-1024", *_WITHOUT_LIMITERS)),
    Comparison("daynight", ("fixed-128-512", "fixed-128-1024", "fixed-128-2048", *_OTHERS)),
    Comparison("throttle", ("fixed-128-384", "fixed-128-512", "fixed-128-768", *_OTHERS)),
    Comparison("contextgrow", ("fixed-16-256", "fixed-32-256", "fixed-128-256", *_OTHERS), gpu="RTX-4090"),
    Comparison("steady", ("vllm_default", "model")),
    Comparison("idle", ("vllm_default", "model")),
    Comparison("flash", ("fixed-128-512", "fixed-128-768", *_OTHERS)),
)
