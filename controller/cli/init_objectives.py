"""Objectives for a new settings file, from all that an engine has served since it started.

Belongs here: whether that time was quiet, and the words. Never: which bound follows (policies/objectives.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from domain.readings.vllm import VllmReading
from domain.slo import Latency, Slo
from policies.objectives import ProposalSettings, Watch, propose

WAITED = 0.1
"""Quiet: the queue's part of the time to the first token, at the 95th percentile, is no more."""
PERCENTILE = 0.95


@dataclass(frozen=True, slots=True)
class Suggested:
    """`why` says what they rest on, or why there are none."""

    slos: tuple[Slo, ...]
    why: str


def suggest(reading: VllmReading | None) -> Suggested:
    """By the rules of [slo.propose]. A busy engine's latencies hold the queue's time, so it gets one of inter-token
    latency alone.
    """
    if reading is None:
        return Suggested((), "The engine did not answer, so no objective could be proposed.")
    settings = ProposalSettings()
    quiet = _was_quiet(reading)
    kind = "quiet" if quiet else "busy"
    served = {latency: reading.latencies[latency] for latency in settings.factors() if latency in reading.latencies}
    watch = (
        Watch(quiet=served, quiet_s=math.inf)
        if quiet
        else Watch(busy={Latency.ITL: served[Latency.ITL]} if Latency.ITL in served else {}, busy_s=math.inf)
    )
    made = propose(watch, settings)
    if made is None:
        return Suggested(
            (),
            f"The engine has served too little for a proposal (it takes {settings.min_samples} samples of a latency): "
            "the daemon proposes objectives by itself once it has seen enough.",
        )
    bounds = ", ".join(
        f"{slo.latency} P{slo.percentile:g} was {made.evidence[f'{slo.latency}_{kind}_s']:.3g} s" for slo in made.slos
    )
    load = "Requests hardly waited in that time" if quiet else "Requests waited in that time, so only this is proposed"
    return Suggested(
        made.slos,
        f"Proposed from all that the engine has served since it started: {bounds}. {load}; the factors of "
        "[slo.propose] leave room, and each bound is one of vLLM's buckets. Put in what you promise your users, or "
        "take the tables away and the daemon proposes objectives by itself.",
    )


def _was_quiet(reading: VllmReading) -> bool:
    queue, first = reading.latencies.get(Latency.QUEUE), reading.latencies.get(Latency.TTFT)
    waited = None if queue is None else queue.quantile(PERCENTILE)
    took = None if first is None else first.quantile(PERCENTILE)
    if queue is None or waited is None or took is None:
        return False
    edges = queue.bucket(PERCENTILE)
    in_the_first = edges is not None and edges[0] == 0.0  # the bucket says no more than that
    return in_the_first or waited <= WAITED * took
