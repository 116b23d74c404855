"""`vllm-governor install` and `uninstall`: the daemon as a service of systemd.

Belongs here: the arguments, saying the steps. Never: the steps (install_steps.py), the files (install_files.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from controller.cli.install_steps import Step

ROOT = Path("/")

Apply = Annotated[bool, typer.Option("--apply", help="Do it; without this the steps are only printed.")]
Instance = Annotated[
    str | None, typer.Option(help="Several vLLMs on one host: the name of this one, as in vllm-governor@NAME.service.")
]
VllmUnit = Annotated[
    str | None, typer.Option(help="vLLM's own unit; else vllm.service, with --instance vllm@NAME.service.")
]
Force = Annotated[bool, typer.Option("--force", help="Files that were changed by hand too.")]
Root = Annotated[Path, typer.Option(help="The folder of an image that is being made, in place of this machine.")]


def install(
    apply: Apply = False, instance: Instance = None, vllm_unit: VllmUnit = None, force: Force = False, root: Root = ROOT
) -> None:
    """Make the daemon a service of systemd: print the steps, or do them with --apply.

    It writes the unit, a drop-in for vLLM's own unit that loads the plugin, the service's user and its folder; makes
    tokens where there are none; enables the service, and starts it where there are settings. vLLM is not restarted.
    Run again it changes nothing; a file that was changed by hand is kept, and said (exit status 1), and so is a vLLM
    whose unit systemd does not have.

    Examples:

      vllm-governor install

      vllm-governor install --apply

      vllm-governor install --apply --instance chat --vllm-unit vllm-chat.service
    """
    from controller.cli import install_files, install_steps  # the daemon, which lists this command too, needs neither

    target = install_files.Target(root.absolute(), instance, vllm_unit)
    _go(install_steps.to_install(target, force=force), install_steps.left_to_install(target), apply=apply)


def uninstall(
    apply: Apply = False, instance: Instance = None, vllm_unit: VllmUnit = None, force: Force = False, root: Root = ROOT
) -> None:
    """Take the service away again: print the steps, or do them with --apply.

    Settings, tokens, history and the user stay; it says how they are removed. The engine goes back to its start-up
    values when the lease runs out.

    Examples:

      vllm-governor uninstall

      vllm-governor uninstall --apply --instance chat
    """
    from controller.cli import install_files, install_steps  # the daemon, which lists this command too, needs neither

    target = install_files.Target(root.absolute(), instance, vllm_unit)
    _go(install_steps.to_uninstall(target, force=force), install_steps.left_to_uninstall(target), apply=apply)


def _go(steps: Iterable[Step], left: Iterable[str], *, apply: bool) -> None:
    kept = False
    for step in steps:
        typer.echo(step.words)
        kept |= step.kept
        if apply and step.do is not None:
            step.do()
    typer.echo("Done. Left to you:" if apply else "Nothing was done: --apply does it. Then it is left to you:")
    for line in left:
        typer.echo(f"  {line}")
    if kept:
        raise typer.Exit(1)
