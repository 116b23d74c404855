"""`vllm-governor mode`: which mode is in force and why, and switching it.

Belongs here: the arguments, the calls, their answers in words. Never: what a mode does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from controller.cli.words import moment


class ModeAsked(StrEnum):
    """The modes, and the settings file's."""

    AUTO = "auto"
    OBSERVE = "observe"
    STATIC = "static"
    MANUAL = "manual"
    PAUSED = "paused"
    FILE = "file"


def mode(
    wanted: Annotated[
        ModeAsked | None, typer.Argument(help="The mode to switch to; `file`: the one in the settings file.")
    ] = None,
    comment: Annotated[str, typer.Option(help="Why, for the audit.")] = "",
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show the mode and what each would do, or switch it: at once, and over restarts until `mode file`.

    Examples:

      vllm-governor mode

      vllm-governor mode observe --comment "looking on for a day"

      vllm-governor mode file
    """
    where = Where(config, url, token_file)
    if wanted is None:
        found = ask(where, "GET", "mode")
    elif wanted is ModeAsked.FILE:
        found = ask(where, "DELETE", "mode")
    else:
        found = ask(where, "PUT", "mode", {"mode": wanted.value, "comment": comment})
    if as_json:
        typer.echo(dumps(found))
        return
    _print(found, effects=wanted is None)


def _print(found: Mapping[str, Any], *, effects: bool) -> None:
    typer.echo(f"Mode: {found['in_force']}.")
    if found["because"]:
        typer.echo(f"It is not {found['configured']}, the configured one: {found['because']}.")
    if (changed := found["changed"]) is not None:
        why = f" ({changed['comment']})" if changed["comment"] else ""
        typer.echo(
            f"{found['configured']} was set at run time by {changed['actor']} at {moment(changed['at'])} UTC{why}; the "
            f"settings file says {found['file']}."
        )
        if not found["survives_restart"]:
            typer.echo("The history cannot be written: a restart of the daemon would not know of it.")
    if found["maintenance"] is not None:
        typer.echo(f"Maintenance window {found['maintenance']} until {moment(found['maintenance_until'])} UTC.")
    if effects:
        for name, effect in found["effects"].items():
            typer.echo(f"  {name:<8} {effect}")
