"""What the soak prints: a line now and then, each fault as it comes and goes, the tables at the end.

Belongs here: words and layout. Never: measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.soak.accounting import Account
from bench.soak.reversals import Reversals

GOAL_RECOVER_S = 60.0
GOAL_REVERSALS_PER_MIN = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One look at the run. None is shown as "-"."""

    elapsed_s: float
    clients: int
    requests_per_s: float
    running: int | None
    cap: float | None
    budget: float | None
    state: str


@dataclass(slots=True)
class Met:
    """A fault that was made; seconds from the start. `recovered_s` counts from its end, None: not within the limit.

    `calls` are those of the daemon that a fault in between has met; 0 for one that was made elsewhere.
    """

    what: str
    kind: str
    began_s: float
    ended_s: float | None = None
    recovered_s: float | None = None
    calls: int = 0


class Screen:
    """A console of any width; without a terminal it prints plain lines."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def header(self) -> None:
        self.say(f"{'time':>6}  {'clients':>7} {'req/s':>6} {'run':>4} {'cap':>4} {'budget':>6}  state")

    def line(self, line: Line) -> None:
        self.say(
            f"{line.elapsed_s:5.0f}s  {line.clients:>7} {line.requests_per_s:>6.0f} {_number(line.running):>4} "
            f"{_number(line.cap):>4} {_number(line.budget):>6}  {line.state}"
        )

    def event(self, elapsed_s: float, text: str) -> None:
        self.console.print(f"{elapsed_s:5.0f}s  [bold]{text}[/bold]")

    def faults(self, faults: Sequence[Met]) -> None:
        table = Table(title="Faults", title_justify="left")
        table.add_column("fault", no_wrap=True)
        for name in ("began", "lasted", "calls met", f"back after (goal {GOAL_RECOVER_S:.0f} s)"):
            table.add_column(name, justify="right")
        for met in faults:
            lasted = "-" if met.ended_s is None else f"{met.ended_s - met.began_s:.1f} s"
            back = "not seen" if met.recovered_s is None else f"{met.recovered_s:.1f} s"
            table.add_row(met.what, f"{met.began_s:.0f} s", lasted, str(met.calls or "-"), back)
        self.console.print()
        self.console.print(table)

    def knobs(self, reversals: Reversals) -> None:
        table = Table(title="Knobs", title_justify="left")
        table.add_column("knob", no_wrap=True)
        for name in ("changes", "turns", f"a minute (goal {GOAL_REVERSALS_PER_MIN:g})", "most in one"):
            table.add_column(name, justify="right")
        for knob, changes in sorted(reversals.changes.items()):
            table.add_row(
                knob,
                str(changes),
                str(reversals.reversals.get(knob, 0)),
                f"{reversals.per_min.get(knob, 0.0):.2f}",
                str(reversals.most_in_a_minute.get(knob, 0)),
            )
        self.console.print(table)

    def requests(self, account: Account) -> None:
        self.say(
            f"Requests: {account.ok} answered, {account.failed} failed (goal 0), {account.shed} turned away by a "
            f"recorded limit, {account.restart} cut off by a restart of the engine."
        )
        self.causes(account.causes)

    def causes(self, causes: Mapping[str, int]) -> None:
        for cause, count in sorted(causes.items(), key=lambda item: -item[1]):
            self.say(f"  {count:>6}  {cause}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
