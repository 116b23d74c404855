"""What an operator changed at run time on top of the settings file: the mode, parameters of policies.

Belongs here: keeping it over restarts, laying it over the file's settings, what no longer fits. Never: who may change
what (mode.py, policies.py), the overrides of knobs (controller/acting/overrides.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from controller import settings as settings_module
from controller.history.memory import Memory
from controller.history.replaying import overlaid
from controller.operations.audit import Stamp
from controller.settings import Settings
from controller.watch import Condition
from domain.decision import Mode
from domain.errors import HistoryUnavailable

logger = logging.getLogger(__name__)

NAME = "changes"
"""Its name among the values that the history keeps."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One value in the place of the file's."""

    value: Any
    by: Stamp


@dataclass(frozen=True, slots=True)
class Changes:
    """All of them. Parameters by policy, then by dotted key."""

    mode: Changed | None = None
    policies: Mapping[str, Mapping[str, Changed]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Dotted, as the settings' keys: `mode`, `policies.batch_resize.floor`."""
        return (
            *(("mode",) if self.mode is not None else ()),
            *(f"policies.{t}.{key}" for t, key, _ in self.parameters()),
        )

    def parameters(self) -> Iterator[tuple[str, str, Changed]]:
        """Policy, key, change."""
        for table, keys in self.policies.items():
            for key, changed in keys.items():
                yield table, key, changed

    def with_keys(self, table: str, keys: Mapping[str, Changed]) -> Changes:
        """The same with the changes of one policy in place of those it had."""
        others = {name: changed for name, changed in self.policies.items() if name != table}
        return replace(self, policies={**others, table: keys} if keys else others)

    def under(self, newer: Changes) -> Changes:
        """Both, where `newer` wins."""
        tables = {
            t: {**self.policies.get(t, {}), **newer.policies.get(t, {})} for t in (*self.policies, *newer.policies)
        }
        return Changes(newer.mode or self.mode, tables)

    def over(self, file: Settings) -> Settings:
        """The settings to use. Raises pydantic's ValidationError. The seeds' variables stay over everything."""
        changes: dict[str, Any] = {}
        if self.mode is not None:
            changes["mode"] = Mode(self.mode.value)
        if self.policies:
            tables = overlaid(file.policies.model_dump(), self.tables())
            changes["policies"] = type(file.policies).model_validate(tables)
        return settings_module.with_seed_variables(file.model_copy(update=changes))

    def tables(self) -> dict[str, Any]:
        """The parameters as the file would write them."""
        found: dict[str, Any] = {}
        for table, key, changed in self.parameters():
            at = found.setdefault(table, {})
            *path, last = key.split(".")
            for part in path:
                at = at.setdefault(part, {})
            at[last] = changed.value
        return found


class RunTime:
    """The file's settings with the changes on top. One for the daemon's life."""

    def __init__(self, memory: Memory, file: Settings) -> None:
        self._memory = memory
        self._silence = Condition("settings")
        self.turn = asyncio.Lock()
        """Held by whoever changes the settings in force: one after the other."""
        self.file = file
        """What the settings file and the environment say."""
        self.changes = Changes()
        self.known = False
        """False: the history has not said yet what was changed before the start."""
        self.left_out: tuple[str, ...] = ()
        """Changes that no longer fit the settings, each with its reason."""

    @property
    def kept(self) -> bool:
        """A restart would find them."""
        return self.known and self._memory.written(NAME)

    async def restore(self, at: datetime) -> Settings | None:
        """What to use once it is known what was changed before; None: it is not known yet."""
        try:
            stored = await self._memory.get(NAME)
        except HistoryUnavailable as error:
            self._silence.report(f"what was changed at run time is not known yet: {error}")
            return None
        self._silence.report(None)
        self.known = True
        try:
            before = Changes() if stored is None else _read(stored)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger.error("settings: cannot tell what was changed at run time: %r", error)
            before = Changes()
        meanwhile, self.changes = self.changes.names(), before.under(self.changes)
        if meanwhile:
            self._memory.put(NAME, at, _written(self.changes))
        if names := self.changes.names():
            logger.warning("settings: changed at run time, over the file's: %s", ", ".join(names))
        return self.laid_over(self.file)

    def laid_over(self, file: Settings) -> Settings:
        """The changes on top of these settings; those that do not go with them are left out, and said."""
        fitting, left_out = self.changes, list[str]()
        while True:
            try:
                settings = fitting.over(file)
            except ValidationError as error:
                fitting, names = _without(fitting, error)
                why = error.errors()[0]["msg"].removeprefix("Value error, ")
                left_out += [f"{name}: {why}" for name in names]
            else:
                self.left_out = tuple(left_out)
                for one in left_out:
                    logger.error("settings: changed at run time, and left out now: %s", one)
                return settings

    async def keep(self, changes: Changes, at: datetime) -> None:
        """Have these from now on, and over restarts."""
        self.changes = changes
        if self.known:
            await self._memory.put_now(NAME, at, _written(changes))


def _without(changes: Changes, error: ValidationError) -> tuple[Changes, list[str]]:
    """The changes less those that the error speaks of: a whole table where it names no key, all where no table."""
    location = [str(part) for part in error.errors()[0]["loc"]]
    tables = location[:1] if location[:1] and location[0] in changes.policies else list(changes.policies)
    key = ".".join(location[1:])
    names = []
    for table in tables:
        keys = changes.policies[table]
        at_fault = [
            one for one in keys if key and (one == key or one.startswith(f"{key}.") or key.startswith(f"{one}."))
        ]
        gone = at_fault or list(keys)
        names += [f"policies.{table}.{one}" for one in gone]
        changes = changes.with_keys(table, {one: changed for one, changed in keys.items() if one not in gone})
    if not names:
        names, changes = list(changes.names()), Changes()
    return changes, names


def _written(changes: Changes) -> dict[str, Any] | None:
    if not changes.names():
        return None
    tables: dict[str, dict[str, Any]] = {}
    for table, key, changed in changes.parameters():
        tables.setdefault(table, {})[key] = _plain(changed)
    return {"mode": None if changes.mode is None else _plain(changes.mode), "policies": tables}


def _plain(changed: Changed) -> dict[str, Any]:
    by = changed.by
    return {"value": changed.value, "at": by.at.isoformat(), "actor": by.actor, "comment": by.comment}


def _read(stored: Mapping[str, Any]) -> Changes:
    mode = stored["mode"]
    tables = {table: {key: _changed(one) for key, one in keys.items()} for table, keys in stored["policies"].items()}
    return Changes(None if mode is None else _changed(mode), tables)


def _changed(stored: Mapping[str, Any]) -> Changed:
    return Changed(stored["value"], Stamp(datetime.fromisoformat(stored["at"]), stored["actor"], stored["comment"]))
