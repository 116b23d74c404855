"""From errors and costs to rows and JSON. Values in, values out; measuring never belongs here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import fmean, median

from bench.sensors.emulated import Emulated
from bench.sensors.replay import Case
from bench.sensors.tick import Cost
from bench.sensors.truth import Error


def row(case: Case) -> str:
    """One case as a line: its last estimate, and the worst over all of its scrapes."""
    bounds, last = "objective" if case.on_bound else "vLLM", case.errors[-1]
    said = f"{case.shape:<12} {case.latency.value:<22} {bounds:<9} {last.samples:>6} {last.p99_s:>10.4f} "
    said += f"{last.estimate_s:>10.4f} " if not last.beyond else f"{f'>{last.estimate_s:g}':>10} "
    inside = [error for error in case.errors if not error.beyond]
    if inside:
        worst = max(inside, key=lambda error: error.relative)
        width = f"{last.bucket_s:.3f}" if not last.beyond else "-"
        said += f"{width:>9} {worst.relative:>11.1%} {max(error.of_bucket for error in inside):>9.3f}"
    else:
        said += f"{'-':>9} {'at least':>11} {'-':>9}"
    return f"{said} {max(error.over_abs for error in case.errors):>9.4f}"


def of_replay(cases: Sequence[Case]) -> dict[str, object]:
    """The worst over all cases; an exact P99 beyond the highest bound has no error, only "at least"."""
    everything = list(chain.from_iterable(case.errors for case in cases))
    inside = [error for error in everything if not error.beyond]
    beyond = [error for error in everything if error.beyond]
    exact = [error.over_abs for case in cases if case.on_bound for error in case.errors]
    between = [error.over_abs for case in cases if not case.on_bound for error in case.errors]
    return {
        "p99_rel_error": _round(max(error.relative for error in inside)),
        "p99_rel_error_median": _round(median(error.relative for error in inside)),
        "p99_error_of_bucket": _round(max(error.of_bucket for error in inside)),
        "p99_above_bounds": len(beyond),
        "p99_above_bounds_told": sum(error.saturated for error in beyond),
        "p99_within_bounds_told_above": sum(error.saturated for error in inside),
        "violation_abs_error": max(exact),
        "violation_abs_error_vllm_bounds": _round(max(between)),
        "estimates": len(everything),
        "cases": [_case(case) for case in cases],
    }


def _case(case: Case) -> dict[str, object]:
    inside = [error for error in case.errors if not error.beyond]
    last = case.errors[-1]
    return {
        "load": case.shape,
        "latency": case.latency.value,
        "bound_on_objective": case.on_bound,
        "objective_s": case.slo_s,
        "samples": last.samples,
        "p99_s": _round(last.p99_s),
        "estimate_s": _round(last.estimate_s),
        "above_bounds": last.beyond,
        "p99_rel_error": _round(max((error.relative for error in inside), default=None)),
        "p99_error_of_bucket": _round(max((error.of_bucket for error in inside), default=None)),
        "violation_abs_error": _round(max(error.over_abs for error in case.errors)),
    }


def of_tick(costs: Sequence[Cost]) -> dict[str, object]:
    """CPU milliseconds a tick; the first is the headline."""
    cost = costs[0]
    return {
        "tick_cpu_ms": round(fmean(cost.whole_ms), 2),
        "tick_cpu_ms_p95": round(p95(cost.whole_ms), 2),
        "tick_parts_ms": {
            name: {what: round(value, 2) for what, value in one.items()} for name, one in parts(cost).items()
        },
        "tick_cpu_ms_by_records": {str(one.records): round(fmean(one.whole_ms), 2) for one in costs},
        "ticks": len(cost.whole_ms),
        "metrics_kb": round(cost.metrics_bytes / 1e3, 1),
        "gpus": cost.gpus,
    }


def parts(cost: Cost) -> dict[str, dict[str, float]]:
    """Mean and 95th percentile of each part, ms."""
    return {name: {"mean": fmean(values), "p95": p95(values)} for name, values in cost.parts_ms.items()}


def p95(values: Iterable[float]) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def emulated_rows(name: str, one: Emulated) -> list[str]:
    """A line for each truth."""
    lines = []
    for truth, error in (("client's times", one.client), ("engine's records", one.records)):
        if error is None:
            lines.append(f"  bounds {name:<13} {truth:<17} not comparable: fewer were timed than the histogram holds")
            continue
        lines.append(
            f"  bounds {name:<13} {truth:<17} n {error.samples:>4}, P99 {error.p99_s:.4f} s, estimate "
            f"{error.estimate_s:.4f} s, error {error.relative:.1%} of it and {error.of_bucket:.3f} of the bucket; "
            f"share above the objective {error.over:.4f}, off by {error.over_abs:.4f}"
        )
    return lines


def of_emulated(one: Emulated) -> dict[str, object]:
    """Both truths, or null where there is none."""
    return {"client": _error(one.client), "records": _error(one.records)}


def _error(error: Error | None) -> dict[str, object] | None:
    if error is None:
        return None
    return {
        "samples": error.samples,
        "p99_s": _round(error.p99_s),
        "estimate_s": _round(error.estimate_s),
        "p99_rel_error": _round(error.relative),
        "p99_error_of_bucket": _round(error.of_bucket),
        "violation": _round(error.over),
        "violation_abs_error": _round(error.over_abs),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
