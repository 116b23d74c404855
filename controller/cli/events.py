"""`vllm-governor events`: what happens, as it happens.

Belongs here: the arguments, coming again after a break, each event as a line. Never: what is worth telling.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from controller.cli.daemon import Config, Daemon, Token, Url, Where
from controller.cli.event_words import said
from controller.cli.plain_json import dumps
from controller.cli.sse import messages
from domain.errors import DaemonUnreachable

QUIET = ("tick",)
"""What is left out unless it was asked for: one each second."""
AGAIN_S = 2.0


def events(
    kind: Annotated[
        list[str] | None, typer.Option(help="Only these, as decision or alert; all but tick without it.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on with what comes.")] = True,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Begin after this event.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line: id, kind, data.")] = False,
) -> None:
    """Show decisions, outcomes, alerts, and what operators do, as it happens; a break is bridged.

    Examples:

      vllm-governor events

      vllm-governor events --kind decision --kind outcome --json | jq .data.sentence

      vllm-governor events --no-follow
    """
    daemon = Daemon(Where(config, url, token_file))
    tail = _Tail(daemon, kind or [], after, count, follow=follow, as_json=as_json)
    try:
        asyncio.run(tail.run())
    except KeyboardInterrupt:
        raise typer.Exit from None


class _Tail:
    """One run of the command."""

    def __init__(
        self, daemon: Daemon, kinds: list[str], after: str | None, count: int | None, *, follow: bool, as_json: bool
    ) -> None:
        self._daemon = daemon
        self._kinds = kinds
        self._place = after
        self._left = count
        self._follow = follow
        self._as_json = as_json

    async def run(self) -> None:
        """Until it is enough. Raises what the first connection raises; later ones are tried again."""
        connected = False
        while True:
            try:
                async with self._daemon.stream("events", self._query(), self._place) as stream:
                    connected = True
                    async for message in messages(stream):
                        self._place = message.id or self._place
                        if message.data and self._shown(message.kind, json.loads(message.data)):
                            return
                if not self._follow:
                    return
                typer.echo("The daemon ended the stream; it is asked again.", err=True)
            except DaemonUnreachable as error:
                if not connected:
                    raise
                typer.echo(f"vllm-governor: {error}; it is tried again", err=True)
            await asyncio.sleep(AGAIN_S)

    def _query(self) -> dict[str, str | int | float | list[str]]:
        return {"follow": "true" if self._follow else "false", **({"kind": self._kinds} if self._kinds else {})}

    def _shown(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Print one; answers whether it was the last that is wanted."""
        if kind in QUIET and kind not in self._kinds:
            return False
        if self._as_json:
            typer.echo(dumps({"id": self._place, "kind": kind, "data": data}))
        else:
            typer.echo(f"{kind:<9} {said(kind, data)}")
        if self._left is not None:
            self._left -= 1
        return self._left == 0
