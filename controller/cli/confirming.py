"""Asking a person before something is done that cannot be taken back.

Belongs here: the question. Never: what will happen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer

from domain.errors import SettingsError


def confirm(what: str, effects: Iterable[str], *, agreed: bool) -> None:
    """Say what will happen and go on only if that is wanted. `agreed`: it was said on the command line.

    Raises SettingsError where nobody can be asked, Abort where the answer is no.
    """
    for line in effects:
        typer.echo(f"  {line}", err=True)
    if agreed:
        return
    if not sys.stdin.isatty():
        raise SettingsError(f"cannot {what}: nobody is there to confirm it; add --yes")
    typer.confirm(f"{what[:1].upper()}{what[1:]}?", abort=True, err=True)
