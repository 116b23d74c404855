"""Which engine the demonstration steers: one of its own, or one that already runs.

Belongs here: finding out what may be done with it. Never: the phases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.load import LoadError, LoadOptions, check_target, served_model
from controller.sensors.vllm import VllmSensor
from domain.errors import RecoverableError

LOAD_LIMIT_S = 86_400.0
"""No load of ours outlives a day, whoever forgets it."""


def _never_fails() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """The engine, and the load to send it; `load` None sends nothing. `check` raises when our own server has died."""

    url: str
    token_file: Path | None
    model: str
    load: LoadOptions | None
    note: str = ""
    check: Callable[[], None] = _never_fails


async def attach(url: str, token_file: Path | None, clients: int | None) -> Target:
    """An engine that already runs. It gets a load only when it is idle and on loopback, or when `clients` asks for one.

    A busy engine serves somebody: a static batch of 8 and 64 more clients would hurt them.
    """
    model = await served_model(url)
    if clients is not None:
        if clients == 0:
            return Target(url, token_file, model.name, None, "No load is sent (CLIENTS=0).")
        return Target(
            check_target(url, allow_remote=True),
            token_file,
            model.name,
            LoadOptions(clients=clients, allow_remote=True, limit_s=LOAD_LIMIT_S),
        )
    try:
        check_target(url)
    except LoadError:
        return Target(
            url, token_file, model.name, None, "No load is sent: it is not on this machine; CLIENTS=64 sends one."
        )
    async with aiohttp.ClientSession() as session:
        try:
            busy = (await VllmSensor(session, url, 5.0).read()).running
        except RecoverableError as error:
            return Target(url, token_file, model.name, None, f"No load is sent: {error}.")
    if busy is None or busy > 0:
        return Target(
            url, token_file, model.name, None, "No load is sent: it is serving requests; CLIENTS=64 adds a load."
        )
    return Target(url, token_file, model.name, LoadOptions(limit_s=LOAD_LIMIT_S))
