"""`vllm-governor run`: the daemon in the foreground.

Belongs here: settings, logging, starting the app. Never: what the app does.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import signal
from pathlib import Path
from typing import Annotated

import typer


def run(
    config: Annotated[
        Path | None,
        typer.Option(envvar="VLLM_GOVERNOR_CONFIG", help="Settings in TOML; the environment (GOVERNOR_...) wins."),
    ] = None,
) -> None:
    """Steer a running vLLM until stopped.

    SIGHUP reads the settings again, SIGTERM stops. The engine keeps its values for the length of the lease and then
    goes back to its start-up values by itself.

    Examples:

    vllm-governor run --config /etc/vllm-governor/config.toml

    GOVERNOR_ENGINE__URL=http://127.0.0.1:8000 GOVERNOR_MODE=observe vllm-governor run
    """
    # A reload that is asked for before anything was read asks for nothing; unhandled it would end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from controller import app as daemon  # the other commands are here in half the time without it
    from controller import settings as settings_module

    settings = settings_module.load(config)
    logging.basicConfig(level=settings.log.level, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    faulthandler.enable()  # a watchdog's SIGABRT leaves in the log where each thread stood
    asyncio.run(daemon.serve(settings, config))
