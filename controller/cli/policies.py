"""`vllm-governor policies`: which there are, switching them, their parameters.

Belongs here: the arguments, the calls, their answers in words. Never: a parameter's bounds (each policy's schema).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from domain.errors import SettingsError

app = typer.Typer(help="The policies: switch them, change their parameters, at run time.", no_args_is_help=True)


def _complete(incomplete: str) -> list[str]:
    from policies.registry import PoliciesSettings

    return [name for name in PoliciesSettings.model_fields if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="As `policies list` names it.", autocompletion=_complete)]
Comment = Annotated[str, typer.Option(help="Why, for the audit.")]


@app.command("list")
def list_(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Show the policies: whether they run, and what was changed at run time.

    Examples:

      vllm-governor policies list
    """
    found = ask(Where(config, url, token_file), "GET", "policies")
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import policies_table  # the daemon, which lists this command too, draws no tables

        policies_table.show_all(found["policies"])


@app.command()
def show(name: Name, config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Show one policy: its parameters, their defaults, what each means.

    Examples:

      vllm-governor policies show batch_resize
    """
    _tell(ask(Where(config, url, token_file), "GET", _path(name)), as_json=as_json)


@app.command()
def enable(
    name: Name,
    comment: Comment = "",
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Switch a policy on, from the next tick on and over restarts, until `policies reset`.

    Examples:

      vllm-governor policies enable load_shed
    """
    _switch(Where(config, url, token_file), name, "enable", comment, as_json=as_json)


@app.command()
def disable(
    name: Name,
    comment: Comment = "",
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Switch a policy off, from the next tick on and over restarts, until `policies reset`.

    Examples:

      vllm-governor policies disable load_shed --comment "known overload tonight"
    """
    _switch(Where(config, url, token_file), name, "disable", comment, as_json=as_json)


@app.command("set")
def set_(
    name: Name,
    changes: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Values as in TOML; all or none.")],
    comment: Comment = "",
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Change parameters of a policy, over restarts, until `policies reset`.

    Examples:

      vllm-governor policies set batch_resize shrink_factor=0.8 seed.growth_factor=1.4

      vllm-governor policies set batch_resize algorithm=rules
    """
    body = {"values": _values(changes), "comment": comment}
    found = ask(Where(config, url, token_file), "PATCH", _path(name), body)
    _changed(found, as_json=as_json)


@app.command()
def reset(
    name: Name,
    key: Annotated[str | None, typer.Argument(help="This key alone, as seed.growth_factor.")] = None,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Take back what was changed at run time: the settings file counts again.

    Examples:

      vllm-governor policies reset batch_resize

      vllm-governor policies reset batch_resize shrink_factor
    """
    query = {} if key is None else {"key": key}
    found = ask(Where(config, url, token_file), "DELETE", f"{_path(name)}/changes", query=query)
    _changed(found, as_json=as_json)


def _path(name: str) -> str:
    return f"policies/{quote(name, safe='')}"


def _values(changes: list[str]) -> dict[str, Any]:
    """`seed.growth_factor=1.4` as nested tables. Raises SettingsError."""
    found: dict[str, Any] = {}
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign or not key.strip():
            raise SettingsError(f"cannot use {change}: write KEY=VALUE, as shrink_factor=0.8")
        *above, last = key.strip().split(".")
        table = found
        for part in above:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise SettingsError(f"cannot use {change}: {part} is given a value of its own")
        table[last] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    """As TOML reads it; what TOML cannot read is a word without its quotes, and `none` is null."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _tell(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import policies_table  # the daemon, which lists this command too, draws no tables

        policies_table.show(found)


def _switch(where: Where, name: str, way: str, comment: str, *, as_json: bool) -> None:
    found = ask(where, "POST", f"{_path(name)}/{way}", {"comment": comment})
    if as_json:
        typer.echo(dumps(found))
        return
    state = "on" if found["enabled"] else "off"
    runs = "it runs" if found["runs"] else "it does not run in the mode that is in force" if found["enabled"] else ""
    typer.echo(f"{found['name']} is {state}{f'; {runs}' if runs else ''}.")


def _changed(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(dumps(found))
        return
    if not found["changed"]:
        typer.echo(f"{found['name']}: all as the settings file says.")
    for one in found["changed"]:
        now, file = dumps(one["value"]), dumps(one["file"])
        typer.echo(f"{found['name']}.{one['key']} = {now} at run time, the file says {file}.")
