"""`vllm-governor init`: a settings file fitted to what is there.

Belongs here: the arguments, what is chosen for what was found, writing the file. Never: asking the machine
(init_probe.py), the file's text (init_text.py).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller import __version__, clock
from controller.token_file import TokenUnreadable, read_token
from domain.errors import CannotWrite, SettingsError
from policies.trial import shown

if TYPE_CHECKING:
    from controller.cli.init_probe import Found

STDOUT = "-"
ENGINE, PROMETHEUS = "http://127.0.0.1:8000", "http://127.0.0.1:9090"


def init(
    path: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - is the standard output.")] = (
        "vllm-governor.toml"
    ),
    engine: Annotated[str, typer.Option(help="Where vLLM listens.")] = ENGINE,
    engine_token_file: Annotated[
        Path | None, typer.Option(help="The file with the token of the plugin (VLLM_GOVERNOR_TOKEN_FILE).")
    ] = None,
    prometheus: Annotated[str, typer.Option(help="Where a Prometheus might listen.")] = PROMETHEUS,
    api_token_file: Annotated[
        Path | None,
        typer.Option(help="The file with the daemon's own token; one is made there where there is none (mode 0600)."),
    ] = None,
    store: Annotated[Path | None, typer.Option(help="The history's file, or where the unit's is.")] = None,
) -> None:
    """Write commented settings for the vLLM that runs here, and say what was found.

    It looks for the engine, its plugin, the GPUs and a Prometheus, proposes objectives from what the engine has served,
    and starts in mode observe. It overwrites nothing.

    Examples:

      vllm-governor init

      vllm-governor init config.toml --engine-token-file /etc/vllm-governor/token --api-token-file api-token
    """
    from controller.cli import init_probe  # the daemon, which lists this command too, probes nothing

    engine, prometheus = _address(engine, "--engine"), _address(prometheus, "--prometheus")
    if path != STDOUT and Path(path).exists():
        raise SettingsError(f"cannot write {path}: it is there already; name another file, or move it away")
    if engine_token_file is not None:
        _token(engine_token_file, "--engine-token-file")
    found = asyncio.run(init_probe.probe(engine, engine_token_file, prometheus))
    if api_token_file is not None:
        if not api_token_file.exists():
            _write(api_token_file, secrets.token_urlsafe(32) + "\n", 0o600)
        _token(api_token_file, "--api-token-file")
    text = compose(found, engine_token_file, api_token_file, clock.now().wall, store)
    if path == STDOUT:
        typer.echo(text, nl=False)
        return
    _write(Path(path), text, 0o644)
    for line in said(found, engine_token_file):
        typer.echo(line)
    typer.echo(f"Written: {path}. Look through it, then: vllm-governor run --config {path}")


def compose(
    found: Found, engine_token: Path | None, api_token: Path | None, at: datetime, store: Path | None = None
) -> str:
    """The file. Raises SettingsError where what it says could not be used, which is a fault of this command."""
    from controller import settings as settings_module
    from controller.cli import init_text
    from controller.cli.init_objectives import suggest

    suggested = suggest(found.engine.reading)
    chosen: dict[str, Any] = {"mode": "observe", "engine.url": found.engine.url}
    if engine_token is not None:
        chosen["engine.token_file"] = engine_token.absolute()
    if api_token is not None:
        chosen["api.token_file"] = api_token.absolute()
    if store is not None:
        chosen["store.url"] = store.absolute()
    for slo in suggested.slos:
        chosen |= {f"slo.{slo.latency}.percentile": slo.percentile, f"slo.{slo.latency}.bound_s": slo.bound_s}
    chosen |= _prometheus(found)
    notes = {
        "": [
            f"Settings of vllm-governor, written by `vllm-governor init` {__version__} on {at:%Y-%m-%d}.",
            *said(found, engine_token),
        ],
        "mode": [
            "It begins by looking on: `vllm-governor report` says what it would have done and what that would have "
            "gained. Then set auto."
        ],
        "slo": [suggested.why],
        "prometheus": _other_engines(found),
    }
    text = init_text.write(settings_module.Settings, chosen, notes)
    settings_module.Settings.model_validate(tomllib.loads(text))
    return text


def said(found: Found, engine_token: Path | None) -> list[str]:
    """What was found, a sentence each; `engine_token` is what the plugin was shown."""
    engine = found.engine
    if engine.absence is not None:
        lines = [f"Engine: none was seen at {engine.url} ({engine.absence})."]
    else:
        lines = [f"Engine: vLLM {engine.version or 'of an unknown version'} at {engine.url}."]
        lines.append(_plugin(found, engine_token))
    lines.append(f"GPUs: {', '.join(found.gpus) or found.no_gpus}.")
    there = found.prometheus
    lines.append("Prometheus: none was seen." if there is None else f"Prometheus: {there.version} at {there.url}.")
    return lines


def _plugin(found: Found, token: Path | None) -> str:
    engine = found.engine
    if engine.runtime is None:
        if engine.plugin_there and token is not None:
            return f"Plugin: it is there, and {token} holds another token than vLLM's ({engine.plugin})."
        if engine.plugin_there:
            return f"Plugin: it is there, and its token is needed: name it with --engine-token-file ({engine.plugin})."
        return f"Plugin: none, so nothing can be steered ({engine.plugin})."
    envelope = ", ".join(f"{name} {shown(value)}" for name, value in engine.runtime.envelope.items() if value < 1e15)
    return f"Plugin: {engine.runtime.plugin_version}; the engine was started with {envelope}."


def _prometheus(found: Found) -> Mapping[str, Any]:
    there = found.prometheus
    if there is None:
        return {}
    if len(there.engines) != 1:
        return {"prometheus.url": there.url}
    selector = ",".join(f'{name}="{value}"' for name, value in there.engines[0].items())
    return {"prometheus.url": there.url, "prometheus.vllm_selector": selector}


def _other_engines(found: Found) -> list[str]:
    there = found.prometheus
    if there is None or len(there.engines) == 1:
        return []
    if not there.engines:
        return ["It scrapes no vLLM yet: docs/prometheus.md has the scrape configuration."]
    listed = "; ".join(", ".join(f'{name}="{value}"' for name, value in one.items()) for one in there.engines)
    return [f"It scrapes several vLLM: set vllm_selector to the labels of this one. There are {listed}."]


def _address(url: str, option: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"cannot use {option} {url}: it is no address like http://127.0.0.1:8000")
    return url.rstrip("/")


def _token(path: Path, option: str) -> None:
    """Raises SettingsError for a file that cannot be used as one with a token."""
    try:
        empty = not read_token(path)
    except TokenUnreadable as error:
        raise SettingsError(
            f"cannot read {option} {path}: {error}; name the file with the token, as a user that may read it"
        ) from error
    if empty:
        raise SettingsError(f"cannot use {option} {path}: it is empty; write a token into it, or remove it")


def _write(path: Path, text: str, mode: int) -> None:
    """Whoever made the file in the meantime keeps it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}; name another place") from error
