"""Which comparisons make up the proof. Belongs here: scenario, GPU and who takes part. Never: how they are run.

The fixed settings are the best that are known of each scenario; `bench compare` without `--contenders` searches the
whole grid, which takes some minutes each.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    Comparison("shift55", ("fixed-128-384", *_WITHOUT_LIMITERS)),
    Comparison("shift80", ("fixed-128-512", *_WITHOUT_LIMITERS)),
    Comparison("shift120", ("fixed-128-1024", *_WITHOUT_LIMITERS)),
    Comparison("daynight", ("fixed-128-2048", *_OTHERS)),
    Comparison("throttle", ("fixed-128-512", *_OTHERS)),
    Comparison("contextgrow", ("fixed-128-512", "fixed-128-768", *_WITHOUT_LIMITERS)),
    Comparison("steady", ("vllm_default", "model")),
    Comparison("idle", ("vllm_default", "model")),
    Comparison("flash", ("fixed-128-512", "fixed-128-768", *_OTHERS)),
)
TABLES: Mapping[str, tuple[str, ...]] = {
    "batching": ("--table", "batching", "--quick"),
    "load": ("--table", "load", "--seeds", "1"),
    "cpu": ("--table", "cpu", "--quick", "--seeds", "1"),
    "real": (
        *("--clock", "real", "--scenario", "flash", "--quick", "--seeds", "1"),
        *("--contenders", "fixed-128-512,model"),
    ),
}
"""The others, by name: the seeds' first two tables, the order on a real CPU, finalists in real time. What they say of
seeds and length holds against the proof's own options, since two of them take as long as they take.
"""
LOAD = "load"
SEEDS_TABLES = ("batching", LOAD)
"""Of these docs/benchmarks.md has tables, in the seeds' shape; docs/compare.md has none of the load's."""
