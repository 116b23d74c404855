"""A report in a terminal.

Belongs here: words and tables. Never: figures of its own.
"""

from __future__ import annotations

import math
from collections import Counter

from rich.markup import escape
from rich.table import Table

from controller.cli.report_figures import Gain, Report, verdict_counts
from controller.cli.terminal import console
from controller.history.recording import TICKS_A_CHUNK
from domain.knobs import MAX_NUM_BATCHED_TOKENS

JUST_BEGUN_S = 300.0
"""The first of a recording is there after TICKS_A_CHUNK ticks, which last up to ten seconds as a rule."""


def show(made: Report) -> None:
    """Print it to the standard output."""
    terminal = console()
    terminal.print(f"From {made.since:%Y-%m-%d %H:%M} to {made.until:%Y-%m-%d %H:%M} UTC.")
    for line in _watched(made):
        terminal.print(line)
    if made.wishes:
        terminal.print(_wishes(made))
    else:
        terminal.print("No change was wanted.")
    for gain in made.gains.values():
        terminal.print(escape(_gain(gain)))
    if made.gains:
        terminal.print(_evidence(made))
    if made.verdicts:
        terminal.print(_outcomes(made))


def _watched(made: Report) -> list[str]:
    watched = made.watched
    if watched.seconds <= 0:
        return [_nothing(made)]
    lines = [
        f"Recorded {_time(watched.seconds)}: requests ran {_share(watched.busy_s, watched.seconds)} of it, some waited "
        f"for room {_share(watched.short_s, watched.seconds)}; {watched.requests:.0f} finished."
    ]
    for latency, (over, samples, allowed) in watched.over.items():
        if samples:
            lines.append(
                f"{latency.value}: {over / samples:.2%} of {samples:.0f} samples were over the objective's bound, "
                f"{allowed:.2%} allowed."
            )
    return lines


def _nothing(made: Report) -> str:
    """Of the load: no recording reaches into the stretch."""
    ago_s = math.inf if made.began is None else (made.until - made.began).total_seconds()
    if ago_s < JUST_BEGUN_S:
        return (
            f"The daemon began {ago_s:.0f} s ago. What it sees is written every {TICKS_A_CHUNK} ticks: ask again in a "
            "minute or two. Let it run for some hours of your usual load, best a day, before you go by what is said."
        )
    return (
        "Nothing was recorded: no daemon ran in this time, it began less than a minute ago, or store.recording_hours "
        "is 0. So nothing can be said of the load."
    )


def _wishes(made: Report) -> Table:
    table = Table(title="What was wanted", title_justify="left")
    for name in ("policy", "knob"):
        table.add_column(name, no_wrap=True)
    for name in ("times", "applied", "open for", "values"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why")
    table.add_column("withheld by", ratio=1)
    for one in made.wishes:
        table.add_row(
            one.policy,
            one.knob,
            str(one.times),
            str(one.applied),
            _time(one.lasted_s),
            _values(one.lowest, one.highest),
            _counted(one.reasons),
            escape(_counted(one.withheld)) or "-",
        )
    return table


def _gain(gain: Gain) -> str:
    """One knob's prediction as a sentence or two."""
    if gain.open_s <= 0:
        return f"{gain.knob}: what it would have gained is unknown, no tick of that time was recorded."
    unknown = ", ".join(f"{why} ({_time(seconds)})" for why, seconds in gain.unknown_s.items())
    now, then = gain.step_s(wanted=False), gain.step_s(wanted=True)
    if now is None or then is None:
        return f"{gain.knob}: what it would have gained is unknown: {unknown}."
    step = "the longest step" if gain.knob == MAX_NUM_BATCHED_TOKENS else "a step, which is the inter-token latency,"
    said = f"{gain.knob}: over {_time(gain.known_s)} {step} would have taken {_ms(then)} in place of {_ms(now)}"
    if gain.throughput_ratio is not None:
        said += f" and {gain.throughput_ratio:+.0%} tokens would have come"
    return f"{said}." + (f" Unknown for {_time(gain.open_s - gain.known_s)}: {unknown}." if unknown else "")


def _evidence(made: Report) -> str:
    watched = made.watched
    if watched.model_s <= 0:
        return "Predictions rest on the capacity model, which could not be held against what was measured."
    return (
        f"Predictions rest on the capacity model; at the values in force it missed the measured tokens a second by "
        f"{watched.model_error_s / watched.model_s:.0%} on average, over {_time(watched.model_s)}."
    )


def _outcomes(made: Report) -> Table:
    table = Table(title=f"What came of the changes ({made.undone} undone)", title_justify="left")
    for name in ("policy", "knob"):
        table.add_column(name, no_wrap=True)
    rows = {key: verdict_counts(counts) for key, counts in made.verdicts.items()}
    for name in next(iter(rows.values())):
        table.add_column(name, justify="right")
    for (policy, knob), counts in rows.items():
        table.add_row(policy, knob, *map(str, counts.values()))
    return table


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{what} ({times})" for what, times in counts.most_common())


def _values(lowest: float | None, highest: float | None) -> str:
    if lowest is None or highest is None:
        return "-"
    return f"{lowest:g}" if lowest == highest else f"{lowest:g} .. {highest:g}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
