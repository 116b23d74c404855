"""The policies: which there are, their parameters, and an operator's changes of them at run time.

Belongs here: checking a change against the policy's own settings, keeping it, taking it back. Never: a rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from controller.loop import Loop
from controller.operations.audit import Audit, Caller, Stamp
from controller.operations.changes import Changed, Changes, RunTime
from controller.operations.plain import plain
from controller.operations.refusal import Kind, Refused
from controller.settings import refusal

ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class ChangedKey:
    """One parameter that was changed at run time; `file` is what the settings file says in its place."""

    key: str
    """Dotted below the policy's table: `model.dead_band_ratio`."""
    value: Any
    file: Any
    by: Stamp


@dataclass(frozen=True, slots=True)
class PolicyState:
    """One table of `[policies]`. Values are what JSON can say."""

    name: str
    about: str
    """What its settings' docstring says first."""
    third_party: bool
    enabled: bool | None
    """None: it cannot be switched off (a table of numbers that others use)."""
    runs: bool
    """Whether it proposes anything in the mode that is in force."""
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    schema: Mapping[str, Any]
    """JSON schema of its table: types, bounds, what each key means."""
    changed: tuple[ChangedKey, ...]


class Policies:
    """One for the daemon's life."""

    def __init__(self, loop: Loop, run_time: RunTime, audit: Audit) -> None:
        self._loop = loop
        self._run_time = run_time
        self._audit = audit

    def all(self) -> tuple[PolicyState, ...]:
        """Every table, shipped ones first."""
        return tuple(self._state(name) for name in self._tables())

    def one(self, name: str) -> PolicyState:
        """One table. Raises Refused (UNKNOWN)."""
        self._known(name, f"tell of the policy {name}")
        return self._state(name)

    async def set(self, who: Caller, name: str, values: Mapping[str, Any], comment: str = "") -> PolicyState:
        """Change parameters, all or none: a mapping as in the file, nested tables as mappings. In force at the next
        tick, kept over restarts and reloads until it is taken back. Raises Refused (UNKNOWN, INVALID).
        """
        doing = f"set the policy {name}"
        detail = {"values": dict(values), "comment": comment}
        async with self._audit.entry(who, "policies.set", name, detail), self._run_time.turn:
            self._known(name, doing)
            if not values:
                raise Refused(Kind.INVALID, doing, "no key is named", "name one with a value", "values")
            now = self._loop.clock().wall
            by, file = Stamp(now, who.actor, comment), _dumped(getattr(self._run_time.file.policies, name))
            keys = dict(self._run_time.changes.policies.get(name, {}))
            for key, value in _flat(values, doing):
                keys.pop(key, None)
                keys |= {} if _at(file, key) == value and _has(file, key) else {key: Changed(value, by)}
            await self._use(doing, name, self._run_time.changes.with_keys(name, keys), now)
        return self._state(name)

    async def enable(self, who: Caller, name: str, comment: str = "") -> PolicyState:
        """As `set` of `enabled`. Raises Refused."""
        return await self._switch(who, name, True, comment)

    async def disable(self, who: Caller, name: str, comment: str = "") -> PolicyState:
        """As `set` of `enabled`. Raises Refused."""
        return await self._switch(who, name, False, comment)

    async def reset(self, who: Caller, name: str, key: str | None = None) -> PolicyState:
        """Back to what the file says, in all or in one dotted key. Raises Refused (UNKNOWN, CONFLICT)."""
        doing = f"take the policy {name} back to the file's"
        detail = {} if key is None else {"key": key}
        async with self._audit.entry(who, "policies.reset", name, detail), self._run_time.turn:
            self._known(name, doing)
            keys = dict(self._run_time.changes.policies.get(name, {}))
            gone = [one for one in keys if key is None or one == key or one.startswith(f"{key}.")]
            if not gone:
                reason = f"{key or 'nothing of it'} was not changed at run time" if key else "it was not changed"
                raise Refused(Kind.CONFLICT, doing, reason, "there is nothing to do", key)
            left = {one: changed for one, changed in keys.items() if one not in gone}
            await self._use(doing, name, self._run_time.changes.with_keys(name, left), self._loop.clock().wall)
        return self._state(name)

    async def _switch(self, who: Caller, name: str, on: bool, comment: str) -> PolicyState:
        state = self.one(name)
        if state.enabled is None:
            doing = f"switch the policy {name} {'on' if on else 'off'}"
            raise Refused(Kind.INVALID, doing, "it only holds numbers that others use", "change those instead", ENABLED)
        return await self.set(who, name, {ENABLED: on}, comment)

    async def _use(self, doing: str, name: str, changes: Changes, at: datetime) -> None:
        try:
            Changes(policies={name: changes.policies.get(name, {})}).over(self._run_time.file)
        except ValidationError as error:
            kind = type(self._run_time.file.policies)
            said = str(refusal(error, "the call", kind, "policies")).replace("cannot use the setting ", "")
            field = ".".join(str(part) for part in error.errors()[0]["loc"][1:])
            schema = "its schema says what each key takes"
            raise Refused(Kind.INVALID, doing, said.replace("\n", "; "), schema, field or None) from error
        await self._run_time.keep(changes, at)
        await self._loop.adjust(self._run_time.laid_over(self._run_time.file))

    def _tables(self) -> list[str]:
        policies = self._run_time.file.policies
        return [name for name in type(policies).model_fields if isinstance(getattr(policies, name), BaseModel)]

    def _known(self, name: str, doing: str) -> None:
        if name not in self._tables():
            remedy = f"there are {', '.join(self._tables())}"
            raise Refused(Kind.UNKNOWN, doing, "there is no such policy", remedy, "name")

    def _state(self, name: str) -> PolicyState:
        policies, file = self._loop.settings.policies, self._run_time.file.policies
        table, third_party = getattr(policies, name), name in type(policies).third_party
        kind, before = type(table), _dumped(getattr(file, name))
        changed = self._run_time.changes.policies.get(name, {})
        return PolicyState(
            name=name,
            about=inspect.cleandoc(kind.__doc__ or ""),  # its own: one without shows none of its base's
            third_party=third_party,
            enabled=getattr(table, ENABLED, None),
            runs=any(policy.name == name for policy in self._loop.policies),
            settings=_dumped(table),
            defaults=_dumped(kind()),
            schema=kind.model_json_schema(),
            changed=tuple(ChangedKey(key, one.value, _at(before, key), one.by) for key, one in changed.items()),
        )


def _dumped(table: BaseModel) -> dict[str, Any]:
    """As JSON says it."""
    made: dict[str, Any] = plain(table.model_dump())
    return made


def _flat(values: Mapping[str, Any], doing: str, above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys of nested tables."""
    for key, value in values.items():
        if not isinstance(key, str) or "." in key or not key:
            raise Refused(
                Kind.INVALID, doing, f"{key!r} is no key", "nest tables instead of dotted keys", above or None
            )
        if isinstance(value, Mapping) and value:
            yield from _flat(value, doing, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _at(table: Any, key: str) -> Any:
    for part in key.split("."):
        table = table.get(part) if isinstance(table, Mapping) else None
    return table


def _has(table: Any, key: str) -> bool:
    *path, last = key.split(".")
    under = _at(table, ".".join(path)) if path else table
    return isinstance(under, Mapping) and last in under
