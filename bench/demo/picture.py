"""The run as a picture: what the clients got, where the cap stood, how many tokens were over the objective.

Belongs here: drawing. Never: measuring.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.demo.screen import Live

BLUE, ORANGE, RED, GREY = "#1f5fa8", "#c4661f", "#b3261e", "#7a7a7a"


def draw(lines: Sequence[Live], starts: Sequence[tuple[str, float]], bound_s: float | None, file: Path) -> None:
    """Write an SVG of the live lines; `starts` are the phases with the second they began in."""
    figure = Figure(figsize=(10, 7.2), layout="constrained")
    axes: list[Axes] = list(figure.subplots(3, 1, sharex=True))
    seconds = [line.elapsed_s for line in lines]
    axes[0].plot(seconds, [_or_gap(line.requests_per_s) for line in lines], color=BLUE)
    axes[0].set_ylabel("requests/s", color=BLUE)
    tail = axes[0].twinx()
    tail.plot(seconds, [_or_gap(line.p99_s) for line in lines], color=ORANGE, linewidth=1)
    tail.set_ylabel("P99 s", color=ORANGE)
    tail.set_ylim(bottom=0)
    axes[1].step(seconds, [_or_gap(line.cap) for line in lines], where="post", color=BLUE, label="cap (max_num_seqs)")
    axes[1].plot(seconds, [_or_gap(line.running) for line in lines], color=GREY, linewidth=1, label="running")
    axes[1].plot(seconds, [_or_gap(line.waiting) for line in lines], color=ORANGE, linewidth=1, label="waiting")
    axes[1].legend(loc="center left", fontsize=8)
    axes[1].set_ylabel("requests")
    over = [_or_gap(None if line.over_ratio is None else 100 * line.over_ratio) for line in lines]
    axes[2].plot(seconds, over, color=RED)
    axes[2].set_ylabel("% of tokens over\n" + ("the objective" if bound_s is None else f"{bound_s * 1000:.3g} ms"))
    axes[2].set_xlabel("seconds")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, color="#e4e4e4")
        for _, start_s in starts:
            axis.axvline(start_s, color=GREY, linewidth=0.8, linestyle="--")
    for name, start_s in starts:
        axes[0].annotate(name, (start_s, 1.02), xycoords=("data", "axes fraction"), fontsize=9)
    figure.savefig(file, format="svg", metadata={"Date": None})


def _or_gap(value: float | None) -> float:
    """Unknown leaves a gap in the line."""
    return float("nan") if value is None else value
