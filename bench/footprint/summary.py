"""From looks at a process to the figures. Values in, values out; measuring never belongs here."""

from __future__ import annotations

from collections.abc import Sequence

from bench.footprint.process import Sample

SETTLED_S = 60.0
"""Growth is fitted over what comes after this: first uses of code still take memory before."""


def summarise(samples: Sequence[Sample], start_up_cpu_s: float) -> dict[str, object]:
    """CPU share of one core and memory over the samples, which begin once start-up is over. Needs two samples."""
    first, last = samples[0], samples[-1]
    wall_s = last.at_s - first.at_s
    settled = [sample for sample in samples if sample.at_s - first.at_s >= SETTLED_S]
    growth = slope_per_s([(sample.at_s, sample.rss_mb) for sample in settled])
    return {
        "cpu_share": round((last.cpu_s - first.cpu_s) / wall_s, 5),
        "rss_mb": round(max(sample.rss_mb for sample in samples), 1),
        "minutes": round(wall_s / 60, 2),
        "start_up_cpu_s": round(start_up_cpu_s, 2),
        "cpu_share_by_minute": [round(share, 5) for share in shares(samples, 60.0)],
        "rss_mb_first": round(first.rss_mb, 1),
        "rss_mb_last": round(last.rss_mb, 1),
        "rss_growth_mb_per_min": None if growth is None else round(growth * 60, 3),
    }


def shares(samples: Sequence[Sample], every_s: float) -> list[float]:
    """CPU share of each whole span of `every_s` seconds."""
    found: list[float] = []
    start = samples[0]
    for sample in samples[1:]:
        if sample.at_s - start.at_s >= every_s:
            found.append((sample.cpu_s - start.cpu_s) / (sample.at_s - start.at_s))
            start = sample
    return found


def slope_per_s(points: Sequence[tuple[float, float]]) -> float | None:
    """Least squares slope; None below ten points, which would be noise."""
    if len(points) < 10:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None
