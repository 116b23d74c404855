"""`vllm-governor check`: is this machine, this vLLM and this daemon set up as the load needs it.

Belongs here: the arguments, the exit status. Never: a check (controller/preflight), how it looks (check_table.py).
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.plain_json import dumps
from domain.errors import SettingsError

if TYPE_CHECKING:
    from controller.preflight.result import Report

Config = Annotated[
    Path | None, typer.Option(envvar="VLLM_GOVERNOR_CONFIG", help="The settings: which vLLM, which files.")
]
STATUS = {"pass": 0, "warn": 1, "fail": 2}


def _names() -> list[str]:
    from controller.preflight.checks import CHECKS  # the daemon, which lists this command too, has its own

    return [check.name for check in CHECKS]


def _complete(incomplete: str) -> list[str]:
    return [name for name in _names() if name.startswith(incomplete)]


def check(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this check; may be given again.", autocompletion=_complete),
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look whether this machine, this vLLM and the daemon's settings are as the load needs them. It changes nothing.

    No daemon is needed. Exit status: 0 no warning and no failure, 1 warnings, 2 failures.

    Examples:

      vllm-governor check --config /etc/vllm-governor/config.toml

      vllm-governor check --only driver --only bar1 --json
    """
    names = _names()
    for name in only or ():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else "without --only all are shown"
            raise SettingsError(f"cannot check {name}: there is no check of that name; {hint}")
    report = asyncio.run(_look(config, only or ()))
    if as_json:
        typer.echo(dumps(to_json(report)))
    else:
        from controller.cli import check_table

        check_table.show(report)
    raise typer.Exit(STATUS[report.state])


async def _look(config: Path | None, only: Collection[str]) -> Report:
    from controller import settings as settings_module
    from controller.preflight import gathering
    from controller.preflight.running import Runner

    settings = settings_module.load(config)
    around = await gathering.gather(settings, partial(gathering.see_gpus, settings))
    if not only or "expected_qps" in only:
        around = await gathering.measured(around)
    return await Runner().run(around, only)


def to_json(report: Report) -> dict[str, Any]:
    """As GET /api/v1/check; what was good before only the daemon knows."""
    return {
        "at": report.at.isoformat(),
        "state": report.state.value,
        "worse": [],
        "results": [
            {
                "name": one.name,
                "state": one.state.value,
                "why": one.why,
                "cure": one.cure,
                "asks": one.asks,
                "source": one.source,
            }
            for one in report.results
        ],
    }
