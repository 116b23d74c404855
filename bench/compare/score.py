"""What a run was worth, from its per-request records. Belongs here: the figures. Never: a goal, a comparison.

A request is good when it was let in, answered, and kept every objective in force when it came. Goodput is good requests
a second over the seconds in which they came, so a request that is turned away or never ends counts as asked and not as
good.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from bench.compare.run import Job
from bench.compare.scenario import SETTLE_S, Scenario
from bench.virtual.timeline import Served, Timeline
from domain.decision import Status
from domain.slo import Latency

PEAK_S = 10.0
"""`qps_peak` is the best of stretches this long."""
PHASE_SETTLE_S = 15.0
"""Figures that a phase is held to once it has settled leave out what came before."""


@dataclass(frozen=True, slots=True)
class Score:
    """One run. Seconds, requests/s, watts; shares from 0 to 1. None: nothing to measure it by."""

    goodput: float
    goodput_after_30s: float
    good_ratio: float
    """Good requests of all that were asked for."""
    good_ratio_after_30s: float
    """The same of those that came after 30 s."""
    offered: float
    """Requests asked for a second."""
    phase_goodput: tuple[float, ...]
    """By phase of the scenario."""
    phase_p99_ttft_s: tuple[float | None, ...]
    """By phase, of the admitted who came when it had lasted PHASE_SETTLE_S."""
    phase_rejected_ratio: tuple[float, ...]
    """By phase, of those who came when it had lasted so long."""
    qps_mean: float
    qps_peak: float
    p99_ttft_s: float | None
    p99_itl_s: float | None
    """Of all times between two tokens, from a histogram with vLLM's bounds and one on each objective."""
    p99_e2e_s: float | None
    p99_request_itl_s: float | None
    """The 99th percentile, over requests, of what 95 % of a request's times between tokens keep."""
    preemptions: int
    rejected_ratio: float
    hit_rate: float | None
    """Share of prompt tokens found in the prefix cache."""
    kv_reuse: float | None
    """Share of all KV entries that requests needed, answers included, that were found and not computed."""
    fragmentation: float | None
    """Mean share of empty slots in allocated KV blocks (the plugin's figure)."""
    kv_usage: float | None
    """Mean share of the KV cache's blocks that requests held."""
    power_w: float
    qps_per_w: float
    j_per_token: float | None
    """Joules per generated token."""
    busy_ratio: float | None
    """Share of the time in which the device was in a step, while load came; so is the KV cache's."""
    changes: int
    """Changes of knobs that were carried out."""
    reversals: int
    """Of these, against the direction of the one before of the same knob."""
    most_running: int

    def to_json(self) -> dict[str, object]:
        """Plain types, floats to six digits."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def good(record: Served, scenario: Scenario) -> bool:
    """Whether it kept the objectives of the moment it came."""
    aim = scenario.at(record.at_s).objectives
    return record.ttft_s <= aim.ttft_s and record.p95_gap_s <= aim.itl_s


def score(job: Job, timeline: Timeline) -> Score:
    """All figures of one run."""
    scenario, served, seconds = job.scenario, timeline.served, job.scenario.seconds
    kept = [one.at_s for one in served if good(one, scenario)]
    arrivals = [ask.at_s for ask in scenario.asks(job.seed)]
    asked, settle_s = len(arrivals), min(SETTLE_S, seconds / 2)
    kept_rate, asked_rate = rate(kept, settle_s, seconds), rate(arrivals, settle_s, seconds)
    ends = [(begin_s, begin_s + phase.seconds) for begin_s, phase in scenario.begins()]
    settled = [(min(begin_s + PHASE_SETTLE_S, end_s), end_s) for begin_s, end_s in ends]
    done = [one.at_s + one.e2e_s for one in served if one.at_s + one.e2e_s < seconds]
    answers = sum(one.answer_tokens for one in served)
    device, cache = timeline.device, timeline.cache
    loaded = [tick.view for tick in timeline.ticks if tick.at_s < seconds]
    energy_j = job.gpu.power.energy_j(timeline.seconds, device.busy_s, device.computing_s)
    changes, reversals = _moves(timeline)
    qps, power_w = len(done) / seconds, energy_j / timeline.seconds
    itl = timeline.latencies[Latency.ITL]
    return Score(
        goodput=len(kept) / seconds,
        goodput_after_30s=kept_rate,
        good_ratio=len(kept) / asked if asked else 1.0,
        good_ratio_after_30s=kept_rate / asked_rate if asked_rate else 1.0,
        offered=asked / seconds,
        phase_goodput=tuple(rate(kept, begin_s, end_s) for begin_s, end_s in ends),
        phase_p99_ttft_s=tuple(percentile(_late(served, *one), 0.99) for one in settled),
        phase_rejected_ratio=tuple(_rejected(timeline, *one) for one in settled),
        qps_mean=qps,
        qps_peak=_peak(done),
        p99_ttft_s=percentile([one.ttft_s for one in served], 0.99),
        p99_itl_s=itl.quantile(0.99),
        p99_e2e_s=percentile([one.e2e_s for one in served], 0.99),
        p99_request_itl_s=percentile([one.p95_gap_s for one in served], 0.99),
        preemptions=timeline.preemptions,
        rejected_ratio=timeline.refused / asked if asked else 0.0,
        hit_rate=cache.hit_tokens / cache.prompt_tokens if cache.prompt_tokens else None,
        kv_reuse=cache.hit_tokens / (cache.prompt_tokens + answers) if cache.prompt_tokens else None,
        fragmentation=_mean(tick.view.kv_fragmentation_ratio for tick in timeline.ticks),
        kv_usage=_mean(view.kv_cache_usage_ratio for view in loaded),
        power_w=power_w,
        qps_per_w=qps / power_w,
        j_per_token=energy_j / answers if answers else None,
        busy_ratio=_mean(view.gpu_utilization_ratio for view in loaded),
        changes=changes,
        reversals=reversals,
        most_running=timeline.most_running,
    )


def percentile(values: Sequence[float], q: float) -> float | None:
    """The smallest of the values that a share `q` of them does not exceed; None of no values."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)] if values else None


def rate(moments: Iterable[float], from_s: float, to_s: float) -> float:
    """A second, of the moments from `from_s` on and before `to_s`."""
    return sum(from_s <= at_s < to_s for at_s in moments) / (to_s - from_s)


def _late(served: Iterable[Served], from_s: float, to_s: float) -> list[float]:
    return [one.ttft_s for one in served if from_s <= one.at_s < to_s]


def _rejected(timeline: Timeline, from_s: float, to_s: float) -> float:
    refused = sum(from_s <= at_s < to_s for at_s in timeline.turned_away)
    asked = refused + len(_late(timeline.served, from_s, to_s))
    return refused / asked if asked else 0.0


def _peak(moments: Iterable[float]) -> float:
    return max(Counter(int(at_s // PEAK_S) for at_s in moments).values(), default=0) / PEAK_S


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _moves(timeline: Timeline) -> tuple[int, int]:
    """Changes that were carried out by the daemon, or seen of the cap where another steers; and reversals."""
    moved: list[tuple[str, float, float]] = [
        (d.knob, d.old, d.observed)
        for tick in timeline.ticks
        for d in tick.decisions
        if d.status is Status.APPLIED and d.old is not None and d.observed is not None and d.old != d.observed
    ]
    if not moved:
        names = sorted({name for tick in timeline.ticks for name in tick.knobs})
        seen = {name: [value for _, value in timeline.knob(name)] for name in names}
        moved = [(name, a, b) for name, values in seen.items() for a, b in pairwise(values) if a != b]
    last: dict[str, bool] = {}
    reversals = 0
    for knob, old, new in moved:
        reversals += last.get(knob, new > old) != (new > old)
        last[knob] = new > old
    return len(moved), reversals


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return [_rounded(one) for one in value] if isinstance(value, tuple) else value
