"""The soak as a picture: what the clients got, where cap and budget stood, when each fault was.

Belongs here: drawing. Never: measuring.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.soak.plan import Kind
from bench.soak.screen import Line, Met

BLUE, ORANGE, GREY = "#1f5fa8", "#c4661f", "#7a7a7a"
SHADES = {"engine": "#e8a1a1", "daemon": "#c9b3e6", "metrics": "#f2d79b", "admin": "#a9d6c4", "change": "#a3c4ea"}


def draw(lines: Sequence[Line], faults: Sequence[Met], file: Path) -> None:
    """Write an SVG; a fault is a shaded span from its beginning until the governor was back."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes: list[Axes] = list(figure.subplots(3, 1, sharex=True))
    seconds = [line.elapsed_s for line in lines]
    axes[0].plot(seconds, [line.requests_per_s for line in lines], color=BLUE)
    axes[0].set_ylabel("requests/s", color=BLUE)
    axes[1].step(seconds, [_or_gap(line.cap) for line in lines], where="post", color=BLUE, label="cap (max_num_seqs)")
    axes[1].step(seconds, [line.clients for line in lines], where="post", color=ORANGE, linewidth=1, label="clients")
    axes[1].plot(seconds, [_or_gap(line.running) for line in lines], color=GREY, linewidth=1, label="running")
    axes[1].legend(loc="upper right", fontsize=8)
    axes[1].set_ylabel("requests")
    axes[2].step(seconds, [_or_gap(line.budget) for line in lines], where="post", color=BLUE)
    axes[2].set_ylabel("budget\n(max_num_batched_tokens)")
    axes[2].set_xlabel("seconds")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, color="#e4e4e4")
        for met in faults:
            _mark(axis, met)
    for met in faults:
        if met.kind != Kind.LOAD:
            axes[0].annotate(
                met.what,
                (met.began_s, 0.98),
                xycoords=("data", "axes fraction"),
                fontsize=7,
                rotation=90,
                verticalalignment="top",
            )
    figure.savefig(file, format="svg", metadata={"Date": None})


def _mark(axis: Axes, met: Met) -> None:
    if met.kind == Kind.LOAD:
        axis.axvline(met.began_s, color=ORANGE, linewidth=0.6, linestyle=":")
        return
    ended_s = met.began_s if met.ended_s is None else met.ended_s
    axis.axvspan(met.began_s, max(ended_s, met.began_s + 1.0), color=SHADES[met.kind.split()[0].rstrip(":")], alpha=0.6)
    if met.recovered_s is not None:
        axis.axvline(ended_s + met.recovered_s, color=GREY, linewidth=0.8)


def _or_gap(value: float | None) -> float:
    """Unknown leaves a gap in the line."""
    return float("nan") if value is None else value
