"""`vllm-governor gpu release` and `gpu take`: NVML out of the way of a GPU reset.

Belongs here: the call and its answer in words. Never: what the daemon does then.
"""

from __future__ import annotations

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps

app = typer.Typer(help="Make the daemon let go of NVML and take it again.", no_args_is_help=True)


@app.command()
def release(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Let go of NVML, so that a GPU can be reset. Steering goes on without GPU readings until `gpu take`.

    Examples:

      vllm-governor gpu release --config /etc/vllm-governor/config.toml && nvidia-smi --gpu-reset
    """
    answer = ask(Where(config, url, token_file), "POST", "gpu/release")
    typer.echo(dumps(answer) if as_json else "NVML is let go of until `vllm-governor gpu take`.")


@app.command()
def take(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Read NVML again. Devices are looked up anew.

    Examples:

      vllm-governor gpu take --config /etc/vllm-governor/config.toml
    """
    answer = ask(Where(config, url, token_file), "POST", "gpu/take")
    if as_json:
        typer.echo(dumps(answer))
    else:
        typer.echo("NVML is read again." if answer["absence"] is None else f"Taken, but: {answer['absence']}.")
