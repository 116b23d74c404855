"""`vllm-governor knobs`, `set` and `lift`: the engine's knobs, and an operator's word on them.

Belongs here: the arguments, the calls, their answers in words. Never: bounds, what an override is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from controller.cli.words import length, seconds, value, wanted
from domain.errors import SettingsError
from domain.knobs import PREEMPT, PURGE, TRAITS

KNOBS = tuple(name for name in TRAITS if name not in (PURGE, PREEMPT))


def _complete(incomplete: str) -> list[str]:
    return [name for name in KNOBS if name.startswith(incomplete)]


def _complete_change(incomplete: str) -> list[str]:
    return [f"{name}=" for name in KNOBS if name.startswith(incomplete)]


def knobs(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Show each knob: what the engine reads, its bounds, what was asked of it and by whom.

    Examples:

      vllm-governor knobs
    """
    found = ask(Where(config, url, token_file), "GET", "knobs")
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import knobs_table  # the daemon, which lists this command too, draws no tables

        knobs_table.show(found)


def set_(
    changes: Annotated[
        list[str], typer.Argument(metavar="KNOB=VALUE...", help="All or none.", autocompletion=_complete_change)
    ],
    lasting: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d; from 1m to 7d.")] = "1h",
    comment: Annotated[str, typer.Option(help="Why, for the audit.")] = "",
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Override knobs for a time. It goes before every policy, is read back, and survives a restart of the daemon.

    Examples:

      vllm-governor set max_num_seqs=32 --for 30m --comment "load test"

      vllm-governor set max_num_seqs=32 max_num_queued_reqs=no-limit
    """
    values: dict[str, float | str] = {}
    for change in changes:
        name, sign, text = change.partition("=")
        if not sign:
            raise SettingsError(f"cannot use {change}: write KNOB=VALUE, as max_num_seqs=32")
        values[name.strip()] = wanted(text, change)
    body = {"values": values, "ttl_s": seconds(lasting, "--for"), "comment": comment}
    found = ask(Where(config, url, token_file), "PATCH", "knobs", body)
    if as_json:
        typer.echo(dumps(found))
        return
    for name, decision in found["decisions"].items():
        typer.echo(_said(name, decision))
    for line in _overrides(found["now"]["knobs"], values):
        typer.echo(line)


def lift(
    names: Annotated[list[str], typer.Argument(metavar="KNOB...", autocompletion=_complete)],
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """End overrides before their time: the policies decide on these knobs again.

    Examples:

      vllm-governor lift max_num_seqs
    """
    where = Where(config, url, token_file)
    for name in names:
        found = ask(where, "DELETE", f"knobs/{quote(name, safe='')}/override")
        if not as_json:
            knob = next((one for one in found["knobs"] if one["name"] == name), None)
            now = "" if knob is None else f" It reads {value(knob['value'])}."
            typer.echo(f"{name}: the override is lifted.{now}")
    if as_json:
        typer.echo(dumps(found))


def _said(name: str, decision: Mapping[str, Any]) -> str:
    """What came of it."""
    match decision["status"]:
        case "applied":
            return f"{name}: {value(decision['old'])} -> {value(decision['observed'])}, read back."
        case "hold":
            return f"{name}: it reads {value(decision['old'])} already."
        case status:
            why = decision["error"] or "; ".join(decision["guards"]) or decision["sentence"]
            reads = decision["old"] if decision["observed"] is None else decision["observed"]
            return f"{name}: {status}, it reads {value(reads)}: {why}."


def _overrides(knobs_now: Iterable[Mapping[str, Any]], asked: Mapping[str, Any]) -> Iterable[str]:
    for knob in knobs_now:
        override = knob["override"]
        if knob["name"] not in asked or override is None:
            continue
        yield f"{knob['name']}: overridden for another {length(override['left_s'])}."
        if override["withheld"]:
            yield f"  Not in force: {override['withheld']}."
        if not override["survives_restart"]:
            yield "  The history cannot be written: a restart of the daemon would not know of it."
