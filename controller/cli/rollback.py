"""`vllm-governor rollback` and `vllm-governor undo`: the emergency brake of a running daemon.

Belongs here: the call and its answer in words. Never: what a rollback does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from controller.cli.words import moment, value

Comment = Annotated[str, typer.Option(help="Why, for the audit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")]


def rollback(
    comment: Comment = "",
    dry_run: DryRun = False,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Go back to a static batch of 8, at most 4096 tokens a step, at most 100 waiting, keep-alive off.

    It asks nothing: it is the emergency brake. It stays until `vllm-governor undo`, through restarts of the daemon,
    and is what the engine falls back to when the daemon dies.

    Examples:

      vllm-governor rollback --config /etc/vllm-governor/config.toml

      vllm-governor rollback --dry-run
    """
    _run("rollback", "enter", comment, dry_run, Where(config, url, token_file), as_json)


def undo(
    comment: Comment = "",
    dry_run: DryRun = False,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """End a rollback: the values from before it, then the mode that is configured.

    Examples:

      vllm-governor undo --config /etc/vllm-governor/config.toml
    """
    _run("undo", "undo", comment, dry_run, Where(config, url, token_file), as_json)


def _run(path: str, what: str, comment: str, dry_run: bool, where: Where, as_json: bool) -> None:
    standing = ask(where, "GET", "rollback") if dry_run else ask(where, "POST", path, {"comment": comment})
    if as_json:
        typer.echo(dumps(standing))
    elif dry_run:
        _plan(standing, what)
    else:
        _print(standing)


def _plan(standing: Mapping[str, Any], what: str) -> None:
    """What a call would do, if it is the one that is possible now."""
    current = standing["current"]
    if (what == "enter") == (current is not None):
        typer.echo("A rollback is in force already." if current is not None else "There is nothing to undo.")
        return
    for line in standing["effects"]:
        typer.echo(line)
    for step in standing[what]:
        typer.echo(f"  {step['knob']}: {value(step['now'])} -> {value(step['then'])}")


def _print(standing: Mapping[str, Any]) -> None:
    current = standing["current"]
    if current is None:
        typer.echo(f"No rollback is in force. Mode: {standing['mode']}.")
    elif current["undoing"]:
        typer.echo("The rollback is being undone; the values from before are not all in force yet.")
    else:
        typer.echo(f"Rolled back since {moment(current['since'])} UTC, until it is undone. Mode: {standing['mode']}.")
        if not current["survives_restart"]:
            typer.echo("The history cannot be written: a restart of the daemon would not know of it.")
    if not standing["engine_answers"]:
        typer.echo("The engine does not answer; the values are set as soon as it does.")
    for knob in standing["knobs"]:
        typer.echo(f"  {knob['knob']} = {value(knob['observed'])}" + (f" ({knob['error']})" if knob["error"] else ""))
