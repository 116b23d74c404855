"""Settings and how long they were in force, in a terminal.

Belongs here: words and a table. Never: figures of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.cli.times import Setting, Times
from controller.cli.words import limit

MOST = 20


def show(found: Times) -> None:
    """Print it to the standard output."""
    terminal = console()
    terminal.print(f"From {found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC.")
    if not found.measured_s:
        terminal.print("Nothing was measured in that time.")
        return
    same = _same([setting for setting, _ in found.settings if setting])
    if same:
        terminal.print(escape(f"All the time: {_words(same)}."))
    table = Table()
    for name in ("time", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("setting", ratio=1)
    for setting, seconds in found.settings[:MOST]:
        table.add_row(_time(seconds), f"{seconds / found.measured_s:.1%}", escape(_differing(setting, same)))
    terminal.print(table)
    if len(found.settings) > MOST:
        rest = sum(seconds for _, seconds in found.settings[MOST:])
        terminal.print(f"{len(found.settings) - MOST} more settings, {_time(rest)} together; --json lists them.")


def _same(settings: Sequence[Setting]) -> Setting:
    """What all of them have."""
    if not settings:
        return {}
    return {name: value for name, value in settings[0].items() if all((name, value) in one.items() for one in settings)}


def _differing(setting: Setting, same: Setting) -> str:
    if not setting:
        return "not known"
    return _words({name: value for name, value in setting.items() if name not in same}) or "the same all the time"


def _words(setting: Setting) -> str:
    return ", ".join(f"{name} = {limit(value)}" for name, value in setting.items())


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
