"""All knobs, in the order in which they are reported and set.

Here: the registry. A new knob is a new file and a line in KNOBS. Never here: what a knob does.
"""

from __future__ import annotations

from vllm_governor_engine.errors import shown

from .admission_cap import AdmissionCap
from .admission_delay import AdmissionDelay
from .api_side import ConnectionClose, KeepAlive, QueueLimit
from .base import Engine, Knob, OffKnob
from .hot_cache import ColdTtl, HotCacheMinSize, HotCacheRatio, HotTtl, ReclaimThreshold
from .length_grouping import LengthGrouping
from .long_prefill import LongPrefill
from .token_budget import TokenBudget
from .watermark import Watermark

KNOBS: tuple[type[Knob], ...] = (
    AdmissionCap,
    TokenBudget,
    LongPrefill,
    AdmissionDelay,
    LengthGrouping,
    Watermark,
    HotCacheRatio,
    HotCacheMinSize,
    HotTtl,
    ColdTtl,
    ReclaimThreshold,
    QueueLimit,
    KeepAlive,
    ConnectionClose,
)
"""The class of each knob."""


def build_knobs(engine: Engine) -> dict[str, Knob | OffKnob]:
    """Every knob by name, probed against the live engine. One that cannot be built is there and off."""
    knobs: dict[str, Knob | OffKnob] = {}
    for build in KNOBS:
        try:
            knobs[build.name] = build(engine)
        except Exception as error:  # an unknown vLLM costs the knob, never the rest
            knobs[build.name] = OffKnob(build.name, f"it does not fit this vLLM ({shown(error)})")
    return knobs
