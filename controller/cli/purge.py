"""`vllm-governor purge`: evict cached blocks that nobody uses.

Belongs here: the arguments, the calls, the confirmation. Never: what a purge does.
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.confirming import confirm
from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from domain.errors import DaemonRefused


def purge(
    ratio: Annotated[
        float, typer.Option(min=0, max=1, help="This share of the free cached blocks of each engine core.")
    ] = 0.5,
    preempt: Annotated[
        int, typer.Option(min=0, help="Also put back so many running requests of each core: they are computed anew.")
    ] = 0,
    comment: Annotated[str, typer.Option(help="Why, for the audit.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Evict free cached blocks of the KV cache, after saying what that does.

    Examples:

      vllm-governor purge --dry-run

      vllm-governor purge --ratio 0.5 --yes --comment "before the nightly batch"
    """
    where = Where(config, url, token_file)
    plan = ask(where, "GET", "purge", query={"ratio": ratio, "preempt": preempt})
    if dry_run:
        if as_json:
            typer.echo(dumps(plan))
            return
        for line in plan["effects"]:
            typer.echo(line)
        if plan["refusal"]:
            typer.echo(f"It would be refused: {plan['refusal']}")
        return
    if plan["refusal"]:
        raise DaemonRefused(plan["refusal"])
    confirm("purge", plan["effects"], agreed=yes)
    done = ask(where, "POST", "purge", {"ratio": ratio, "preempt": preempt, "comment": comment})
    typer.echo(dumps(done) if as_json else done["sentence"])
