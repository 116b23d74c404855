"""`vllm-governor alerts`: what fires, silences, trying a receiver out, checking rules before they count.

Belongs here: arguments, calls, answers in words. Never: what an alert, a silence or a rule is, how it looks
(alerts_table.py).
"""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from controller.cli.daemon import AsJson, Config, Daemon, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from controller.cli.words import seconds

app = typer.Typer(help="What fires, silences, receivers, rules.", no_args_is_help=True)
rules_app = typer.Typer(help="The rules of a settings file.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")


@app.command("list")
def show(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Show what is pending or fires, the silences, and how the receivers fare.

    Examples:

      vllm-governor alerts list --config /etc/vllm-governor/config.toml
    """
    found = asyncio.run(_all(Where(config, url, token_file)))
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import alerts_table  # the daemon, which lists this command too, draws no tables

        alerts_table.show(found)


async def _all(where: Where) -> Mapping[str, Any]:
    daemon, found = Daemon(where), dict[str, Any]()
    for resource in ("alerts", "silences", "receivers"):
        found |= await daemon.get(resource)
    return found


@app.command("test")
def try_out(
    receiver: Annotated[str, typer.Argument(help="Its name in alerts.receivers.")],
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """Have the daemon send a receiver a made-up alert, at once and once.

    Examples:

      vllm-governor alerts test ops --config /etc/vllm-governor/config.toml
    """
    ask(Where(config, url, token_file), "POST", f"receivers/{quote(receiver, safe='')}/test")
    typer.echo(f"{receiver} took it.")


@app.command()
def silence(
    matchers: Annotated[
        list[str], typer.Argument(help="""Which alerts, as 'alertname="kv_cache_full"'; all must hold.""")
    ],
    lasting: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d.")] = "2h",
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """Tell nobody of some alerts for a time. What still fires when it ends is told then.

    Examples:

      vllm-governor alerts silence 'alertname="kv_cache_full"' --for 2h --comment "load test"

      vllm-governor alerts silence 'severity=~"info|warning"' --for 1d
    """
    wanted = {
        "matchers": matchers,
        "seconds": seconds(lasting, "--for"),
        "comment": comment,
        "created_by": getpass.getuser(),
    }
    made = ask(Where(config, url, token_file), "POST", "silences", wanted)
    typer.echo(f"Silence {made['id']} until {made['ends_at']}: {', '.join(made['matchers'])}.")


@app.command()
def unsilence(
    number: Annotated[int, typer.Argument(help="Its number, as `alerts list` shows it.", min=1)],
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """End a silence before its time.

    Examples:

      vllm-governor alerts unsilence 3 --config /etc/vllm-governor/config.toml
    """
    ask(Where(config, url, token_file), "DELETE", f"silences/{number}")
    typer.echo(f"Silence {number} has ended.")


@rules_app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Settings in TOML; of them policies.alert_thresholds and alerts.")],
    as_json: AsJson = False,
) -> None:
    """Check rules and receivers before a reload, without a daemon; show the rules as they would count.

    Examples:

      vllm-governor alerts rules check /etc/vllm-governor/config.toml
    """
    from controller.cli import rules_check

    checked = rules_check.read(file)
    if as_json:
        typer.echo(dumps(rules_check.to_json(checked)))
    else:
        from controller.cli import alerts_table

        alerts_table.show_rules(checked)
