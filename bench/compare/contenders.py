"""Who takes part: where each starts, and who steers it.

Belongs here: names, starting values, settings of the daemon's policies. Never: a run, a score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CAPS = (8, 16, 32, 64, 96, 128)
BUDGETS = (256, 384, 512, 768, 1024, 2048, 8192)
DEFAULT = (128, 2048)
"""vLLM's default cap and budget."""
H100_DEFAULT = (128, 8192)
"""The same on an H100."""
SEED_START = (48, 8192)
"""The seeds' golden set and their `max_num_batched_tokens`."""
SEED_SLA_S = 20.0
"""The seeds name no SLA_THRESHOLD for answers of hundreds of tokens: the P99 of the Azure conversation trace's answers
(601 tokens) at 30 ms and two seconds to the first token."""

_NO_TIERS: dict[str, Any] = {"cache_ratio": {"enabled": False}}
_UNFITTED = {"capacity": {"min_windows": 1_000_000}}
"""A capacity model that is never trusted: then the seeds' table alone gives the budget."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One of those compared. Nobody steers where `policies` and `limiter` are None."""

    name: str
    cap: int
    budget: int
    policies: Mapping[str, Any] | None = None
    """Settings of the daemon's policies: the daemon steers."""
    limiter: str | None = None
    """A key of `limiters.LIMITERS`."""
    switches: tuple[tuple[float, int, int], ...] = field(default=())
    """(from which second on, cap, budget): set by an oracle that knows the phases."""


def fixed(cap: int, budget: int) -> Contender:
    """A setting that stays."""
    return Contender(f"fixed-{cap}-{budget}", cap, budget)


def oracle(switches: tuple[tuple[float, int, int], ...]) -> Contender:
    """The best fixed setting of each phase, switched at the moment the phase begins."""
    _, cap, budget = switches[0]
    return Contender("oracle", cap, budget, switches=switches)


STEERED = {
    one.name: one
    for one in (
        Contender("vllm_default", *DEFAULT),
        Contender("h100_default", *H100_DEFAULT),
        Contender(
            "seed",
            *SEED_START,
            policies={
                **_NO_TIERS,
                **_UNFITTED,
                "batch_resize": {"algorithm": "seed", "seed": {"sla_s": SEED_SLA_S}},
                "load_shed": {"enabled": False},
            },
        ),
        Contender("aimd", *DEFAULT, limiter="aimd"),
        Contender("gradient", *DEFAULT, limiter="gradient"),
        Contender("rules", *DEFAULT, policies={**_NO_TIERS, "batch_resize": {"algorithm": "rules"}}),
        Contender("model", *DEFAULT, policies={**_NO_TIERS, "batch_resize": {"algorithm": "model"}}),
        Contender("tiers", *DEFAULT, policies={"batch_resize": {"algorithm": "model"}}),
    )
}
"""All but the fixed settings and the oracle. `model` searches nothing and starts at vLLM's default; `tiers` is the
daemon as shipped."""


def by_name(name: str) -> Contender:
    """One of `STEERED`, or `fixed-CAP-BUDGET`. Raises ValueError for anything else."""
    if name in STEERED:
        return STEERED[name]
    parts = name.split("-")
    if len(parts) == 3 and parts[0] == "fixed" and parts[1].isdigit() and parts[2].isdigit():
        return fixed(int(parts[1]), int(parts[2]))
    raise ValueError(f"cannot compare {name}: known are {', '.join(STEERED)} and fixed-CAP-BUDGET, as fixed-64-512")
