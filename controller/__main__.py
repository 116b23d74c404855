"""argv to exit code: 0 done, 1 the work failed, 2 the arguments or settings cannot be used.

Belongs here: the list of commands, and errors as sentences. Never: a command's body.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from controller import __version__
from controller.cli.decisions import decisions
from controller.cli.run import run
from domain.errors import GovernorError, SettingsError

app = typer.Typer(
    name="vllm-governor",
    help="Retunes a running vLLM server, closed loop, without a restart.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(decisions)


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
    except GovernorError as error:
        sys.exit(_fail(error, 1))


def _fail(error: GovernorError, code: int) -> int:
    typer.echo(f"vllm-governor: {error}", err=True)
    return code


if __name__ == "__main__":
    main()
