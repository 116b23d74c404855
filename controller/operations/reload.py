"""Reading the settings file again, by SIGHUP or by a call.

Belongs here: what takes effect at once, what at the next start, that run-time changes stay on top. Never: reading the
file (controller/settings.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller import settings as settings_module
from controller.loop import Loop
from controller.operations.audit import Audit, Caller
from controller.operations.changes import RunTime
from controller.operations.masking import masked
from controller.operations.refusal import Kind, Refused
from controller.settings import Settings
from domain.errors import SettingsError

logger = logging.getLogger(__name__)

Apply = Callable[[Settings, Settings], Awaitable[None]]
"""Told of the settings before and after, once the loop has taken them: whatever else uses them."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did; keys are dotted, as `policies.batch_resize.floor`."""

    source: str
    """The file, or the environment alone."""
    changed: tuple[str, ...]
    """In force from now on."""
    at_next_start: tuple[str, ...]
    """Changed in the file, and read at the start only."""
    over_file: tuple[str, ...]
    """What an operator set at run time stays over the file's."""


@dataclass(frozen=True, slots=True)
class SettingsNow:
    """Every setting in force, as the file writes it. Paths of secrets are told, no secret is."""

    source: str
    settings: dict[str, Any]
    over_file: tuple[str, ...]
    last_failure: str | None
    """Why the last reload was refused; None: it was not, or there was none."""


AT_START = ("store.url", "store.node", "store.max_mb", "store.wal_max_mb", "store.queue", "api")
"""Read at the start only: what these keys begin."""


class Reload:
    """One for the daemon's life."""

    def __init__(self, loop: Loop, run_time: RunTime, audit: Audit, file: Path | None, apply: Apply) -> None:
        self._loop = loop
        self._run_time = run_time
        self._audit = audit
        self._file = file
        self._apply = apply
        self.failure: str | None = None
        """Why the last one was refused; None: it was not, or there was none."""

    @property
    def source(self) -> str:
        """Where the settings come from, for people."""
        return "the environment" if self._file is None else f"{self._file} and the environment"

    def now(self) -> SettingsNow:
        """The settings in force."""
        return SettingsNow(self.source, masked(self._loop.settings), self._run_time.changes.names(), self.failure)

    async def run(self, who: Caller) -> Reloaded:
        """Read the file again. Raises Refused (INVALID) with what is wrong in it: the old settings stay then."""
        async with self._audit.entry(who, "settings.reload", self.source), self._run_time.turn:
            old, before = self._run_time.file, self._loop.settings
            try:
                fresh = settings_module.load(self._file)
                settings = self._run_time.laid_over(fresh)
                await self._loop.reconfigure(settings)
            except SettingsError as error:
                self.failure = str(error)
                self._run_time.laid_over(old)
                logger.error("reload: the old settings stay: %s", error)
                reason, remedy = self.failure.removeprefix("cannot "), "the old settings stay; put it right and reload"
                raise Refused(Kind.INVALID, "reload the settings", f"cannot {reason}", remedy) from error
            self.failure, self._run_time.file = None, fresh
            await self._apply(before, settings)
            made = self._told(old, fresh)
        logger.info("reload: mode %s, settings from %s", settings.mode, self.source)
        for name in made.at_next_start:
            logger.warning("reload: %s changes at the next start only", name)
        if made.over_file:
            logger.warning("reload: what was changed at run time stays over the file's: %s", ", ".join(made.over_file))
        return made

    def _told(self, old: Settings, fresh: Settings) -> Reloaded:
        differ = tuple(_different(old.model_dump(), fresh.model_dump()))
        later = tuple(name for name in differ if any(name == one or name.startswith(f"{one}.") for one in AT_START))
        return Reloaded(
            source=self.source,
            changed=tuple(name for name in differ if name not in later),
            at_next_start=later,
            over_file=self._run_time.changes.names(),
        )


def _different(old: Any, fresh: Any, above: str = "") -> Iterator[str]:
    """Dotted keys whose values differ."""
    if isinstance(old, dict) and isinstance(fresh, dict):
        for key in dict.fromkeys((*old, *fresh)):
            yield from _different(old.get(key), fresh.get(key), f"{above}.{key}" if above else str(key))
    elif old != fresh:
        yield above
