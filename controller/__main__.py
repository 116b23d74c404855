"""argv to exit code: 0 done, 1 the work failed or was refused, 2 the arguments or settings cannot be used, 3 the daemon
does not answer.

Belongs here: the list of commands, and errors as sentences. Never: a command's body.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from controller import __version__
from controller.cli import alerts, db, gpu, policies
from controller.cli.at import at
from controller.cli.audit import audit
from controller.cli.check import check
from controller.cli.cost import cost
from controller.cli.decisions import decisions
from controller.cli.events import events
from controller.cli.explain import explain
from controller.cli.init import init
from controller.cli.install import install, uninstall
from controller.cli.knobs import knobs, lift, set_
from controller.cli.mode import mode
from controller.cli.outcomes import outcomes
from controller.cli.purge import purge
from controller.cli.replay import replay
from controller.cli.report import report
from controller.cli.rollback import rollback, undo
from controller.cli.run import run
from controller.cli.settings import reload, settings
from controller.cli.signals import signals
from controller.cli.status import status
from controller.cli.times import times
from controller.cli.top import top
from domain.errors import DaemonUnreachable, GovernorError, SettingsError

app = typer.Typer(
    name="vllm-governor",
    help="Retunes a running vLLM server, closed loop, without a restart.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
LOOKING, STEERING, PAST, DAEMON = "Looking", "Steering", "The past", "The daemon"
for panel, commands in (
    (DAEMON, (init, check, install, uninstall, run, settings, reload)),
    (LOOKING, (status, top, signals, knobs, events)),
    (STEERING, (mode, set_, lift, purge, rollback, undo)),
    (PAST, (decisions, explain, outcomes, at, times, report, cost, replay, audit)),
):
    for command in commands:
        app.command(command.__name__.rstrip("_"), rich_help_panel=panel)(command)
app.add_typer(policies.app, name="policies", rich_help_panel=STEERING)
app.add_typer(gpu.app, name="gpu", rich_help_panel=STEERING)
app.add_typer(alerts.app, name="alerts", rich_help_panel=LOOKING)
app.add_typer(db.app, name="db", rich_help_panel=PAST)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vllm-governor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Retunes a running vLLM server, closed loop, without a restart."""


def main() -> None:
    """The console script."""
    try:
        app()
    except SettingsError as error:
        sys.exit(_fail(error, 2))
    except DaemonUnreachable as error:
        sys.exit(_fail(error, 3))
    except GovernorError as error:
        sys.exit(_fail(error, 1))


def _fail(error: GovernorError, code: int) -> int:
    typer.echo(f"vllm-governor: {error}", err=True)
    return code


if __name__ == "__main__":
    main()
