"""What a change did: the ticks before it against those after, at the same load.

Belongs here: what counts as better or worse. Never: when a change is judged (policies/outcomes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pydantic import Field

from domain.outcome import Outcome, Verdict
from domain.slo import Latency, Slo
from policies.base import PolicySettings
from policies.evidence import JUDGED, Load, Tick, load_of, matching, pooled, series
from policies.rank_test import p_value, shift

P99 = 0.99


class JudgementSettings(PolicySettings):
    """How a change is judged, and for how long a bad one is remembered: `[outcomes]`."""

    enabled: bool = True
    before_s: float = Field(default=60.0, ge=10.0, le=600.0, description="longest stretch before a change")
    after_s: float = Field(default=20.0, ge=5.0, le=600.0, description="shortest stretch after its effect delay")
    after_max_s: float = Field(
        default=120.0, ge=10.0, le=3600.0, description="with too little evidence by then it is unclear"
    )
    min_ticks: int = Field(default=10, ge=5, description="comparable ticks on either side")
    min_samples: int = Field(default=50, ge=1, description="latencies on either side, for an objective")
    load_tolerance_ratio: float = Field(
        default=0.2, gt=0.0, le=1.0, description="ticks whose load differs by more are left out"
    )
    significance: float = Field(default=0.01, gt=0.0, le=0.2, description="largest p of the rank test that counts")
    slo_margin_ratio: float = Field(
        default=0.5, ge=0.0, le=10.0, description="a share over the bound that moved by less of the allowed is the same"
    )
    throughput_ratio: float = Field(
        default=0.05, ge=0.0, le=1.0, description="a throughput that moved by less is the same"
    )
    latency_ratio: float = Field(default=0.1, ge=0.0, le=1.0, description="and a mean latency")
    refuted_s: float = Field(
        default=600.0, ge=0.0, description="how long a setting that was undone is avoided, doubled each time"
    )
    refuted_max_s: float = Field(default=4 * 3600.0, ge=0.0)


@dataclass(frozen=True, slots=True)
class Moved:
    """One figure before and after. `by` is absolute for a share, else relative; 0 where noise may explain it."""

    name: str
    before: float
    after: float
    by: float
    p: float

    def numbers(self) -> dict[str, float | str | None]:
        """For the record."""
        values = {"before": self.before, "after": self.after, "shift": self.by, "p": self.p}
        return {f"{self.name}_{what}": value for what, value in values.items()}


def compare(
    before: Sequence[Tick], after: Sequence[Tick], slos: Iterable[Slo], settings: JudgementSettings
) -> tuple[Outcome, bool]:
    """The verdict, and whether there was enough to reach one. Both stretches come with every tick of theirs."""
    load = load_of(before)
    numbers: dict[str, float | str | None] = {"before_ticks": len(before), "after_ticks": len(after)}
    if load is None:
        return Outcome(Verdict.UNCLEAR, "Unclear: nothing was measured before the change.", numbers), False
    early, late = (matching(side, load, settings.load_tolerance_ratio) for side in (before, after))
    numbers |= _load_numbers(load, load_of(after), early, late)
    if min(len(early), len(late)) < settings.min_ticks:
        sentence = (
            f"Unclear: {len(early)} of {len(before)} ticks before and {len(late)} of {len(after)} after had the same "
            f"load (about {load.per_s:.3g} requests/s, {load.inside:.3g} inside); {settings.min_ticks} are needed."
        )
        return Outcome(Verdict.UNCLEAR, sentence, numbers), False
    shares = [share for slo in slos if (share := _share(slo, early, late, settings)) is not None]
    figures = _figures(early, late, settings)
    for one in (*(share for _, share in shares), *figures):
        numbers |= one.numbers()
    numbers |= _tails(early, late)
    return _verdict(shares, figures, settings, _drift(before, settings), numbers), True


def _load_numbers(
    load: Load, later: Load | None, early: Sequence[Tick], late: Sequence[Tick]
) -> dict[str, float | str | None]:
    return {
        "before_matched_ticks": len(early),
        "after_matched_ticks": len(late),
        "arrivals_per_s_before": load.per_s,
        "arrivals_per_s_after": later.per_s if later is not None else None,
        "inside_before": load.inside,
        "inside_after": later.inside if later is not None else None,
    }


def _share(
    slo: Slo, early: Sequence[Tick], late: Sequence[Tick], settings: JudgementSettings
) -> tuple[Slo, Moved] | None:
    """The share over an objective's bound; None with too few samples."""
    sides = (pooled(early, slo.latency), pooled(late, slo.latency))
    if any(side is None or side.samples < settings.min_samples for side in sides):
        return None
    before, after = (side.fraction_above(slo.bound_s) or 0.0 for side in sides if side is not None)
    each = (series(early, lambda t: _over(t, slo)), series(late, lambda t: _over(t, slo)))
    p = p_value(*each)
    by = after - before if p <= settings.significance else 0.0
    return slo, Moved(f"{slo.latency.value}_over_ratio", before, after, by, p)


def _over(tick: Tick, slo: Slo) -> float | None:
    histogram = tick.completed.get(slo.latency)
    return None if histogram is None else histogram.fraction_above(slo.bound_s)


def _figures(early: Sequence[Tick], late: Sequence[Tick], settings: JudgementSettings) -> list[Moved]:
    """Throughput and mean latency, each by the median of the differences."""
    measures: dict[str, Callable[[Tick], float | None]] = {
        "tokens_per_s": Tick.tokens_per_s,
        "requests_per_s": lambda tick: tick.finished / tick.seconds,
    }
    for kind in JUDGED:
        measures[f"{kind.value}_mean_s"] = lambda tick, kind=kind: (  # type: ignore[misc]
            tick.completed[kind].mean if kind in tick.completed else None
        )
    found: list[Moved] = []
    for name, measure in measures.items():
        before, after = series(early, measure), series(late, measure)
        moved = shift(before, after)
        if moved is None:
            continue
        middle, p = median(before), p_value(before, after)
        by = moved / middle if p <= settings.significance and middle > 0 else 0.0
        found.append(Moved(name, middle, median(after), by, p))
    return found


def _tails(early: Sequence[Tick], late: Sequence[Tick]) -> dict[str, float | str | None]:
    """P99 of all that completed: said, not judged, since a P99 is mostly noise."""
    return {
        f"{kind.value}_p99_{when}_s": side.quantile(P99) if (side := pooled(ticks, kind)) is not None else None
        for kind in JUDGED
        for when, ticks in (("before", early), ("after", late))
    }


def _drift(before: Sequence[Tick], settings: JudgementSettings) -> float:
    """By which part the number inside was already growing (or, negative, shrinking) before the change; 0 when not."""
    half = len(before) // 2
    if half < 2:
        return 0.0
    first, second = (median(tick.inside for tick in part) for part in (before[:half], before[half:]))
    grown = (second - first) / max(first, 1.0)
    return grown if abs(grown) > settings.load_tolerance_ratio else 0.0


def _verdict(
    shares: Sequence[tuple[Slo, Moved]],
    figures: Sequence[Moved],
    settings: JudgementSettings,
    drift: float,
    numbers: Mapping[str, float | str | None],
) -> Outcome:
    """Objectives first, then throughput, then latency. What helps one objective and harms another is neither."""
    margin = settings.slo_margin_ratio
    broken = [(s, m) for s, m in shares if m.after > s.allowed_ratio and m.by > margin * s.allowed_ratio]
    eased = [(s, m) for s, m in shares if -m.by > margin * s.allowed_ratio]
    if broken and eased:
        sentence = f"Neutral, a trade: {_said(*broken[0])}, while {_said(*eased[0])}."
        return Outcome(Verdict.NEUTRAL, sentence, numbers)
    if broken or eased:
        slo, moved = (broken or eased)[0]
        if (drift > 0) if broken else (drift < 0):
            way = "growing" if drift > 0 else "shrinking"
            sentence = f"Unclear: {_said(slo, moved)}, but the number of requests inside was already {way}."
            return Outcome(Verdict.UNCLEAR, sentence, numbers)
        verdict = Verdict.WORSE if broken else Verdict.BETTER
        return Outcome(verdict, f"{verdict.value.capitalize()}: {_said(slo, moved)}.", numbers, undo=bool(broken))
    by_name = {moved.name: moved for moved in figures}
    throughput = by_name.get("tokens_per_s") or by_name.get("requests_per_s")
    if throughput is not None and abs(throughput.by) >= settings.throughput_ratio:
        verdict = Verdict.BETTER if throughput.by > 0 else Verdict.WORSE
        return Outcome(verdict, f"{verdict.value.capitalize()}: {_figure(throughput)}.", numbers)
    latency = by_name.get(f"{Latency.E2E.value}_mean_s")
    if latency is not None and abs(latency.by) >= settings.latency_ratio and (latency.by < 0 or not shares):
        verdict = Verdict.BETTER if latency.by < 0 else Verdict.WORSE
        return Outcome(verdict, f"{verdict.value.capitalize()}: {_figure(latency)}.", numbers)
    most = max(shares, key=lambda one: abs(one[1].after - one[1].before) / one[0].allowed_ratio, default=None)
    rest = _said(*most) if most is not None else _figure(throughput) if throughput is not None else "nothing moved"
    return Outcome(Verdict.NEUTRAL, f"Neutral: {rest}, which noise explains or which is too little to count.", numbers)


def _said(slo: Slo, moved: Moved) -> str:
    return (
        f"{slo.latency.value} over {slo.bound_s:g} s went from {moved.before:.2%} to {moved.after:.2%} of the samples "
        f"({slo.allowed_ratio:.2%} allowed, p {moved.p:.2g})"
    )


def _figure(moved: Moved) -> str:
    return f"{moved.name} went from {moved.before:.4g} to {moved.after:.4g} ({moved.by:+.1%}, p {moved.p:.2g})"
