"""`vllm-governor run`: the daemon in the foreground.

Belongs here: settings, logging, starting the app. Never: what the app does.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from controller import app as daemon
from controller import settings as settings_module


def run(
    config: Annotated[Path | None, typer.Option(help="Settings in TOML; the environment (GOVERNOR_...) wins.")] = None,
) -> None:
    """Steer a running vLLM until stopped.

    SIGHUP reads the settings again, SIGTERM stops. The engine keeps its values for the length of the lease and then
    goes back to its start-up values by itself.

    Examples:

    vllm-governor run --config /etc/vllm-governor/config.toml

    GOVERNOR_ENGINE__URL=http://127.0.0.1:8000 GOVERNOR_MODE=observe vllm-governor run
    """
    settings = settings_module.load(config)
    logging.basicConfig(level=settings.log.level, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    asyncio.run(daemon.serve(settings, config))
