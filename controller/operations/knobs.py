"""The knobs: what each reads, and an operator's overrides of them.

Belongs here: checking an override, giving and lifting it, what it came to. Never: what an override is worth beside a
policy (policies/guards), calling the engine.
"""

from __future__ import annotations

import difflib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from controller.acting.overrides import Standing
from controller.engine.wire import LIMITS
from controller.loop import Loop
from controller.operations.audit import Audit, Caller
from controller.operations.permission import engine_silent, forbidden
from controller.operations.plain import plain
from controller.operations.refusal import Kind, Refused
from domain.decision import Decision, Status
from domain.runtime import EngineRuntime
from policies.guards.override import OPERATOR
from policies.trial import shown

LEAST_TTL_S, DEFAULT_TTL_S, MOST_TTL_S = 60.0, 3600.0, 7 * 86400.0


@dataclass(frozen=True, slots=True)
class OverrideState:
    """An operator's word on a knob. `value` is NO_LIMIT for none."""

    knob: str
    value: float
    until: datetime
    left_s: float
    set_at: datetime
    actor: str
    comment: str
    survives_restart: bool
    """The history knows of it."""
    withheld: str | None
    """Why it is not in force now: the mode, a rollback, an emergency that goes first; None: it is."""


@dataclass(frozen=True, slots=True)
class KnobState:
    """One knob. Values are NO_LIMIT for a limit that is off, None for what is not known."""

    name: str
    value: float | None
    """What the engine reads now: the lowest where its cores differ."""
    cores: tuple[float | None, ...]
    startup: float | None
    minimum: float | None
    maximum: float | None
    support: str
    """`native`, `limited` or `off`."""
    reason: str | None
    """Why it is limited or off."""
    requested: float | None
    """What was last asked of this boot of the engine; None: nothing."""
    fallback: float | None
    """What the engine goes back to when its daemon dies."""
    override: OverrideState | None
    last: Decision | None
    """The last tick's decision on it; None: nobody proposed anything."""


@dataclass(frozen=True, slots=True)
class KnobsNow:
    """All knobs that the engine lists; empty while it does not answer. `version` changes with every value, boot and
    override: what If-Match compares.
    """

    version: str
    boot_id: str | None
    generation: int | None
    knobs: tuple[KnobState, ...]


@dataclass(frozen=True, slots=True)
class Overridden:
    """What came of it: the decisions of the tick that followed, by knob, and all knobs after it."""

    decisions: Mapping[str, Decision]
    now: KnobsNow


class Knobs:
    """One for the daemon's life."""

    def __init__(self, loop: Loop, audit: Audit) -> None:
        self._loop = loop
        self._audit = audit

    def now(self) -> KnobsNow:
        """Every knob with its bounds, what is wanted of it and by whom."""
        runtime = self._loop.observed.runtime
        names = [] if runtime is None else list(dict.fromkeys(name for core in runtime.cores for name in core.knobs))
        return KnobsNow(
            version=self._version(),
            boot_id=None if runtime is None else runtime.boot_id,
            generation=None if runtime is None else runtime.generation,
            knobs=() if runtime is None else tuple(self._state(runtime, name) for name in names),
        )

    def one(self, name: str) -> KnobState:
        """One knob. Raises Refused (UNKNOWN, UNAVAILABLE)."""
        return self._state(self._asked(f"tell of {name}", name), name)

    def overrides(self) -> tuple[OverrideState, ...]:
        """Those that hold, in the order in which they were given."""
        return tuple(self._override(one) for one in self._loop.overrides.standing.values())

    async def set(
        self,
        who: Caller,
        values: Mapping[str, float],
        ttl_s: float = DEFAULT_TTL_S,
        comment: str = "",
        version: str | None = None,
    ) -> Overridden:
        """Override knobs, all or none, for `ttl_s` seconds; NO_LIMIT switches a limit off. Carried out and read back
        when this returns, as far as the engine lets it be; it goes on being held at each tick.

        `version` None: whatever they are now. Raises Refused.
        """
        detail = {"values": plain(values), "ttl_s": ttl_s, "comment": comment}
        async with self._audit.entry(who, "knobs.set", ", ".join(values), detail):
            self._check(values, ttl_s, version)
            before = {name: self._loop.overrides.standing.get(name) for name in values}
            async with self._loop.between_ticks():
                await self._loop.overrides.give(self._loop.clock(), values, ttl_s, who.actor, comment)
            await self._loop.tick()  # sets the values
            made = {one.knob: one for one in self._loop.observed.decisions if one.knob in values}
            refused = [one for one in made.values() if _refused(one)]
            if refused:
                await self._loop.overrides.put_back(self._loop.clock(), before)
                remedy = "send values that it takes; none of them is held"
                reason = "; ".join(f"{one.knob}: {one.error}" for one in refused)
                raise Refused(Kind.INVALID, f"set {', '.join(values)}", reason, remedy, refused[0].knob)
            await self._loop.tick()  # sees them
            return Overridden(made, self.now())

    async def lift(self, who: Caller, name: str, version: str | None = None) -> KnobsNow:
        """End an override before its time; the policies go on from the value in force. Raises Refused."""
        async with self._audit.entry(who, "knobs.lift", name):
            self._check_version(f"lift the override of {name}", version)
            if name not in self._loop.overrides.standing:
                reason = "no operator holds it"
                raise Refused(
                    Kind.UNKNOWN, f"lift the override of {name}", reason, "the knobs' list says which are held"
                )
            async with self._loop.between_ticks():
                await self._loop.overrides.lift(self._loop.clock(), [name], f"by {who.actor}")
        return self.now()

    def _check(self, values: Mapping[str, float], ttl_s: float, version: str | None) -> None:
        doing = f"set {', '.join(values) or 'knobs'}"
        if not values:
            raise Refused(Kind.INVALID, doing, "no knob is named", "name one with a value", "values")
        if not LEAST_TTL_S <= ttl_s <= MOST_TTL_S:
            reason = f"ttl_s = {shown(ttl_s)} is not within {LEAST_TTL_S:g} and {MOST_TTL_S:g} seconds"
            raise Refused(Kind.INVALID, doing, reason, "name a time within them", "ttl_s")
        for name, value in values.items():
            self._check_value(name, value)
        self._check_version(doing, version)
        if why := forbidden(self._loop, values):
            raise Refused(Kind.CONFLICT, doing, why.reason, why.remedy)

    def _check_value(self, name: str, value: float) -> None:
        doing = f"set {name}"
        runtime = self._asked(doing, name)
        knob = runtime.knob(name)
        if knob is None:
            why = next((k.reason for core in runtime.cores if (k := core.knobs.get(name)) and k.reason), "it is off")
            raise Refused(Kind.CONFLICT, doing, why, "this engine cannot carry it; leave it out", name)
        if math.isnan(value):
            raise Refused(Kind.INVALID, doing, "its value is no number", "send one", name)
        if math.isinf(value) and name not in LIMITS:
            which = ", ".join(sorted(LIMITS))
            raise Refused(Kind.INVALID, doing, "it has no such value as no limit", f"only {which} has", name)
        low = -math.inf if knob.minimum is None else knob.minimum
        high = math.inf if knob.maximum is None else knob.maximum
        if value != knob.startup and math.isfinite(value) and not low <= value <= high:
            bounds = f"{shown(low)} and {shown(high)}"
            reason = f"{shown(value)} is not within {bounds}, the bounds that the engine was started with"
            raise Refused(Kind.INVALID, doing, reason, "send a value within them", name)

    def _check_version(self, doing: str, version: str | None) -> None:
        if version is not None and version != (current := self._version()):
            reason = f"the knobs are at version {current}, not at {version}"
            raise Refused(Kind.STALE, doing, reason, "read them again and decide anew")

    def _asked(self, doing: str, name: str) -> EngineRuntime:
        """The runtime that lists this knob."""
        runtime = self._loop.observed.runtime
        if runtime is None:
            raise engine_silent(self._loop, doing)
        known = {knob for core in runtime.cores for knob in core.knobs}
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"the knobs are {', '.join(sorted(known))}"
            raise Refused(Kind.UNKNOWN, doing, "the engine has no such knob", remedy, name)
        return runtime

    def _version(self) -> str:
        """Short, and another whenever a value, a boot or an override is."""
        runtime = self._loop.observed.runtime
        held = sorted(
            (one.override.knob, str(one.override.value), one.until) for one in self._loop.overrides.standing.values()
        )
        return f"{zlib.crc32(repr((runtime and (runtime.boot_id, runtime.generation), held)).encode()):08x}"

    def _state(self, runtime: EngineRuntime, name: str) -> KnobState:
        each = [core.knobs[name] for core in runtime.cores if name in core.knobs]
        one, standing = runtime.knob(name), self._loop.overrides.standing.get(name)
        fallback = [core.fallback[name] for core in runtime.cores if name in core.fallback]
        decided = [decision for decision in self._loop.observed.decisions if decision.knob == name]
        return KnobState(
            name=name,
            value=None if one is None else one.value,
            cores=tuple(knob.value for knob in each),
            startup=each[0].startup,
            minimum=None if one is None else one.minimum,
            maximum=None if one is None else one.maximum,
            support=each[0].support.value,
            reason=next((knob.reason for knob in each if knob.reason), None),
            requested=self._loop.observed.requested.get(name),
            fallback=min(fallback, default=None),
            override=None if standing is None else self._override(standing),
            last=decided[-1] if decided else None,
        )

    def _override(self, standing: Standing) -> OverrideState:
        override = standing.override
        why = forbidden(self._loop, [override.knob])
        won = next((d for d in self._loop.observed.decisions if d.knob == override.knob), None)
        beaten = won is not None and won.policy != OPERATOR and won.at > standing.set_at
        withheld = why.reason if why is not None else f"{won.policy} goes first" if beaten and won else None
        return OverrideState(
            knob=override.knob,
            value=override.value,
            until=standing.until,
            left_s=max(0.0, override.until_s - self._loop.clock().monotonic_s),
            set_at=standing.set_at,
            actor=standing.actor,
            comment=standing.comment,
            survives_restart=self._loop.overrides.kept,
            withheld=withheld,
        )


def _refused(decision: Decision) -> bool:
    """The engine said no and changed nothing; a call whose answer was lost may have been carried out."""
    return decision.status is Status.FAILED and decision.observed is not None and decision.observed == decision.old
