"""Objectives for an engine whose operator set none, from how it serves when little is asked of it.

Belongs here: which ticks count as quiet, and what is proposed from them. Never: configured objectives, when one is in
force (controller/objectives/chooser.py).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import Field

from domain.decision import Evidence
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_SEQS
from domain.slo import Latency, Slo
from domain.view import View
from policies.base import PolicySettings

Histograms = Mapping[Latency, Histogram]


class ProposalSettings(PolicySettings):
    """`[slo.propose]`: what is proposed while neither `[slo]` nor `[[slo.schedule]]` holds an objective."""

    enabled: bool = True
    percentile: float = Field(default=95.0, gt=0, lt=100, description="of every objective proposed")
    time_to_first_token_factor: float = Field(default=4.0, ge=1, le=100, description="times the quiet percentile")
    inter_token_latency_factor: float = Field(default=2.0, ge=1, le=100, description="times the quiet percentile")
    e2e_request_latency_factor: float = Field(default=3.0, ge=1, le=100, description="times the quiet percentile")
    warm_up_s: float = Field(default=60.0, ge=0, le=3600, description="left out after a boot of the engine was met")
    settle_s: float = Field(default=15.0, ge=0, le=600, description="quiet lasts this long before it counts")
    quiet_running_ratio: float = Field(default=0.5, gt=0, le=1, description="of the cap that runs at most when quiet")
    min_quiet_s: float = Field(default=120.0, ge=1, le=86400, description="of quiet load before anything is proposed")
    min_samples: int = Field(default=200, ge=20, le=1_000_000, description="of a latency before it gets an objective")
    busy_s: float = Field(
        default=600.0, ge=10, le=86400, description="of other load before inter-token latency alone is proposed"
    )

    def factors(self) -> Mapping[Latency, float]:
        """By latency, in the order in which objectives are listed."""
        return {
            Latency.TTFT: self.time_to_first_token_factor,
            Latency.ITL: self.inter_token_latency_factor,
            Latency.E2E: self.e2e_request_latency_factor,
        }


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen of one boot of the engine so far. Plain values."""

    boot_id: str | None = None
    met_s: float | None = None
    quiet_since_s: float | None = None
    quiet_s: float = 0.0
    """Seconds of quiet load that `quiet` rests on."""
    busy_s: float = 0.0
    quiet: Histograms = field(default_factory=dict)
    busy: Histograms = field(default_factory=dict)
    """Of ticks that were not quiet inter-token latency alone: the others hold the queue's time."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """`provisional`: from a busy engine, so a quiet one's takes its place when there is one."""

    slos: tuple[Slo, ...]
    sentence: str
    evidence: Evidence = field(default_factory=dict)
    provisional: bool = False


def watch_on(watch: Watch, view: View, settings: ProposalSettings) -> Watch:
    """Take one view in. What is not known is neither quiet nor busy."""
    if view.runtime is None:
        return replace(watch, quiet_since_s=None)
    if view.runtime.boot_id != watch.boot_id:
        return Watch(view.runtime.boot_id, view.now_s)
    warm = watch.met_s is not None and view.now_s - watch.met_s >= settings.warm_up_s
    quiet = _quiet(view, settings) if warm else None
    if not quiet:
        watch = replace(watch, quiet_since_s=None)
        return watch if quiet is None else _with_busy(watch, view)
    since_s = view.now_s if watch.quiet_since_s is None else watch.quiet_since_s
    watch = replace(watch, quiet_since_s=since_s)
    if view.now_s - since_s < settings.settle_s:
        return watch  # what finishes now still ran beside the load before
    return _with_quiet(watch, view, settings)


def propose(watch: Watch, settings: ProposalSettings) -> Proposed | None:
    """What may be proposed now; None: not enough has been seen."""
    requests = max(_samples(watch.quiet, latency) for latency in (Latency.TTFT, Latency.E2E))
    if watch.quiet_s >= settings.min_quiet_s and requests >= settings.min_samples:
        return _make(watch.quiet, f"{watch.quiet_s:.0f} s of quiet load ({requests:.0f} requests)", "quiet", settings)
    if watch.busy_s >= settings.busy_s:
        seen = f"{watch.busy_s:.0f} s of load that was not quiet, until quiet minutes come"
        made = _make(watch.busy, seen, "busy", settings)
        return replace(made, provisional=True) if made is not None else None
    return None


def _quiet(view: View, settings: ProposalSettings) -> bool | None:
    """Nobody waits for room, few run, nothing was thrown back. Without a cap the queue alone tells."""
    demand = view.demand if view.demand is not None else view.waiting
    running, preemptions_per_s = view.running, view.preemptions_per_s
    if view.asleep or not view.completed_s or demand is None or running is None or preemptions_per_s is None:
        return None
    few = running <= settings.quiet_running_ratio * _slots(view)
    return demand == 0 and preemptions_per_s == 0 and few


def _slots(view: View) -> float:
    runtime = view.runtime
    cap = runtime.knob(MAX_NUM_SEQS) if runtime is not None else None
    return math.inf if runtime is None or cap is None or cap.value is None else cap.value * len(runtime.cores)


def _with_quiet(watch: Watch, view: View, settings: ProposalSettings) -> Watch:
    gained = {latency: view.completed[latency] for latency in settings.factors() if latency in view.completed}
    if not any(one.samples for one in gained.values()):
        return watch
    return replace(watch, quiet=_sum(watch.quiet, gained), quiet_s=watch.quiet_s + (view.completed_s or 0.0))


def _with_busy(watch: Watch, view: View) -> Watch:
    gained = view.completed.get(Latency.ITL)
    if gained is None or not gained.samples:
        return watch
    busy = _sum(watch.busy, {Latency.ITL: gained})
    return replace(watch, busy=busy, busy_s=watch.busy_s + (view.completed_s or 0.0))


def _sum(so_far: Histograms, gained: Histograms) -> Histograms:
    """By latency; one whose bounds are others now starts afresh."""
    summed = dict(so_far)
    for latency, one in gained.items():
        before = summed.get(latency)
        summed[latency] = (before.add(one) if before is not None else None) or one
    return summed


def _samples(histograms: Histograms, latency: Latency) -> float:
    found = histograms.get(latency)
    return 0.0 if found is None else found.samples


def _make(histograms: Histograms, seen: str, kind: str, settings: ProposalSettings) -> Proposed | None:
    slos: list[Slo] = []
    said: list[str] = []
    evidence: dict[str, float | str | None] = {}
    for latency, factor in settings.factors().items():
        histogram = histograms.get(latency)
        if histogram is None or histogram.samples < settings.min_samples:
            continue
        found = _bound(histogram, settings.percentile / 100.0, factor)
        if found is None:
            continue
        quantile_s, bound_s = found
        slos.append(Slo(latency, settings.percentile, bound_s, proposed=True))
        said.append(
            f"{latency} P{settings.percentile:g} within {bound_s:g} s ({factor:g} times the {kind} {quantile_s:.3g} s)"
        )
        evidence[f"{latency}_{kind}_s"] = quantile_s
        evidence[f"{latency}_samples"] = histogram.samples
        evidence[f"{latency}_bound_s"] = bound_s
    if not slos:
        return None
    sentence = f"No objective is configured; proposed from {seen}: {', '.join(said)}"
    return Proposed(tuple(slos), sentence, evidence)


def _bound(histogram: Histogram, q: float, factor: float) -> tuple[float, float] | None:
    """The quantile, and the bucket bound at or past `factor` times it; None where only a least value is known."""
    quantile_s = histogram.quantile(q)
    if quantile_s is None or histogram.saturated(q):
        return None
    index = bisect_left(histogram.bounds, factor * quantile_s)
    bound_s = histogram.bounds[index] if index < len(histogram.bounds) else math.inf
    return (quantile_s, bound_s) if math.isfinite(bound_s) else None
