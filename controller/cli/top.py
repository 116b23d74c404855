"""`vllm-governor top`: the live view.

Belongs here: asking again and again, the keyboard's end, what is shown while the daemon does not answer. Never: how it
looks (top_view.py).
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.daemon import Config, Daemon, Token, Url, Where
from controller.cli.plain_json import dumps
from controller.cli.top_data import Frame, Reader
from domain.errors import CannotWrite, DaemonRefused, DaemonUnreachable

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 120
"""Of a picture that is not drawn in a terminal."""


def top(
    interval: Annotated[float, typer.Option(min=0.5, max=60, metavar="SECONDS", help="How often to look.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Draw one picture and end.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write one picture to this file, as SVG, and end.")] = None,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each look, a line each.")] = False,
) -> None:
    """Watch the engine and the governor live: load, latency against objectives, knobs, what was decided last.

    Ctrl-C ends it. While the daemon does not answer the picture says so, and goes on when it does.

    Examples:

      vllm-governor top

      vllm-governor top --interval 5 --json | jq .status.problems

      vllm-governor top --svg now.svg
    """
    reader = Reader(Daemon(Where(config, url, token_file)))
    try:
        if as_json:
            asyncio.run(_lines(reader, interval, once=once))
        elif once or svg is not None:
            _picture(asyncio.run(reader.read()), svg)
        else:
            asyncio.run(_live(reader, interval))
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _lines(reader: Reader, interval_s: float, *, once: bool) -> None:
    while True:
        frame = await reader.read()
        typer.echo(dumps({"status": frame.status, "knobs": frame.knobs, "decisions": frame.decisions}))
        if once:
            return
        await asyncio.sleep(interval_s)


def _picture(frame: Frame, svg: Path | None) -> None:
    from controller.cli import top_view  # the daemon, which lists this command too, draws no tables
    from controller.cli.terminal import console

    if svg is None:
        console().print(top_view.picture(frame))
        return
    recording = _recording()
    recording.print(top_view.picture(frame))
    drawn = recording.export_svg(title="vllm-governor top")
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # it would fetch fonts from the network
    try:
        svg.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"cannot write {svg}: {error.strerror}; name another file with --svg") from error
    typer.echo(f"Written: {svg}.")


def _recording() -> Console:
    import io

    from rich.console import Console

    return Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")


async def _live(reader: Reader, interval_s: float) -> None:
    from rich.live import Live

    from controller.cli import top_view

    frame = await reader.read()  # the first look says why nothing is seen, and ends
    with Live(top_view.picture(frame), screen=True, auto_refresh=False) as live:
        while True:
            live.update(top_view.picture(frame), refresh=True)
            await asyncio.sleep(interval_s)
            try:
                frame = await reader.read()
            except (DaemonRefused, DaemonUnreachable) as error:
                frame = frame.stale(str(error))
