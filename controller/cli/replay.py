"""`vllm-governor replay`: decide once more over what was recorded, with the settings of then or with others.

Without --db the daemon does it, over its own history. Belongs here: the arguments, the file of settings to try, the
exit code. Never: deciding, comparing (controller/history/replayed.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from controller import clock
from controller.cli.daemon import LONG_S, Config, Token, Url, Where, ask
from controller.cli.histories import Db, moment, one_node, reading
from controller.cli.plain_json import dumps
from domain.errors import SettingsError

NOT_REPRODUCED = 1


def replay(
    db: Db = None,
    policy: Annotated[Path | None, typer.Option(help="TOML with the tables to try: policies.NAME and guards.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Compare from here on: 8h, 30m, 2d, or a time as 2026-01-31T08:00.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="Of this node, where several share the history; with --db.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """Run the policies over the recorded views again and show where they decide differently.

    Without --policy the recorded settings are used, and the decisions have to come out as they were written: exit
    status 1 if they do not. With --policy its tables are laid over the recorded settings. The engine is not played:
    each tick shows it as it was, so what is found are other wishes at the same moments, with the effect that the
    capacity model predicts.

    Examples:

      vllm-governor replay

      vllm-governor replay --db /var/lib/vllm-governor/vllm-governor.db

      vllm-governor replay --policy try.toml --since 2h
    """
    after = None if since is None else moment(since, clock.now().wall)
    if db is not None:
        found = asyncio.run(_load(db, policy, after, node))
    elif node is not None:
        raise SettingsError(f"cannot use --node {node} on the running daemon: it replays its own; name --db")
    else:
        found = _ask(Where(config, url, token_file), policy, after)
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import replay_table  # the daemon, which lists this command too, draws no tables

        replay_table.show(found, tries=policy is not None)
    if policy is None and found["not_reproduced"]:
        raise typer.Exit(NOT_REPRODUCED)


async def _load(db: str, policy: Path | None, since: datetime | None, node: str | None) -> Mapping[str, Any]:
    from controller.deciding import extensions  # no other command waits for all policies
    from controller.history.replayed import checked, document, replayed

    kind = extensions.find().settings
    read = _tables(policy)
    tables = None if read is None else checked(read, kind, str(policy))
    async with reading(db) as history:
        found = document(await replayed(history, kind, tables, since, await one_node(history, node, since)))
    plain: Mapping[str, Any] = json.loads(dumps(found))
    return plain


def _ask(where: Where, policy: Path | None, since: datetime | None) -> Mapping[str, Any]:
    """The daemon checks the tables: it knows the policies of others that it loaded."""
    body = {"since": None if since is None else since.isoformat(), "tables": _tables(policy)}
    return ask(where, "POST", "replay", body, limit_s=LONG_S)


def _tables(policy: Path | None) -> Mapping[str, Any] | None:
    if policy is None:
        return None
    from controller.settings import read_toml

    return read_toml(policy, "policy")
