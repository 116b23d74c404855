"""What the demonstration prints: one line a second, each decision, the summary.

Belongs here: words and layout. Never: measuring.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from controller.cli.decision_table import STYLES
from domain.decision import Decision


@dataclass(frozen=True, slots=True)
class Live:
    """One line: what the clients see and what the engine reads. None is shown as "-"."""

    elapsed_s: float
    phase: str
    requests_per_s: float | None
    p99_s: float | None
    running: int | None
    waiting: int | None
    cap: float | None
    budget: float | None
    over_ratio: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A phase's figures, its warm-up left out."""

    requests_per_s: float | None
    p99_s: float | None
    itl_over_ratio: float | None
    window_s: float


class Screen:
    """A console of any width; without a terminal it prints plain lines."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text)

    def phase(self, name: str, explanation: str) -> None:
        self.console.print(f"\n[bold]{name}[/bold]: {explanation}")
        self.console.print(
            f"[dim]{'time':>6}  {'phase':<13} {'req/s':>6} {'P99 s':>6} {'run':>4} {'wait':>4} {'cap':>4} {'budget':>6}"
            f" {'over SLO':>8}[/dim]"
        )

    def live(self, line: Live) -> None:
        over = "-" if line.over_ratio is None else f"{line.over_ratio:.1%}"
        self.console.print(
            f"{line.elapsed_s:5.0f}s  {line.phase:<13} {_number(line.requests_per_s, '.0f'):>6} "
            f"{_number(line.p99_s, '.2f'):>6} {_number(line.running, 'd'):>4} {_number(line.waiting, 'd'):>4} "
            f"{_number(line.cap, '.0f'):>4} {_number(line.budget, '.0f'):>6} {over:>8}"
        )

    def decision(self, decision: Decision) -> None:
        style = STYLES[decision.status]
        note = "".join(f" [{text}]" for text in (*decision.guards, decision.error) if text)
        self.console.print(
            f"        [{style}]{decision.status}[/{style}] {decision.knob}: {escape(decision.sentence + note)}"
        )

    def summary(self, rows: dict[str, Measured], *, bound_s: float | None, decisions: int, applied: int) -> None:
        table = Table(title="Summary (warm-up left out)", title_justify="left")
        for name in ("phase", "measured", "requests/s", "P99"):
            table.add_column(name, justify="left" if name == "phase" else "right")
        table.add_column(
            "tokens over the objective" + (f" ({bound_s * 1000:.3g} ms)" if bound_s else ""), justify="right"
        )
        for name, row in rows.items():
            over = "-" if row.itl_over_ratio is None else f"{row.itl_over_ratio:.1%}"
            p99 = "-" if row.p99_s is None else f"{row.p99_s:.3f} s"
            table.add_row(name, f"{row.window_s:.0f} s", _number(row.requests_per_s, ".1f"), p99, over)
        self.console.print()
        self.console.print(table)
        self.console.print(f"{decisions} decisions, {applied} applied and read back from the engine.")

    def look_further(self, history: Path, folder: Path) -> None:
        self.console.print(
            f"History: {history}\n"
            f"Picture: {folder / 'run.svg'}\n"
            f"Logs:    {folder}\n"
            f"Look further: .venv/bin/vllm-governor decisions --db {history} --changes\n"
            f"              .venv/bin/vllm-governor decisions --db {history} --json"
        )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
