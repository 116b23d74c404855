"""Alerts from outside that ask for a policy's measures: heard once each, answered by what the tick decided.

Belongs here: which rule hears an alert, what was done for which. Never: the measures and their gates (policies/
emergency_purge), HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from alerts.matching import matches
from alerts.sanitise import one_line
from alerts.settings import IncomingSettings
from controller.history.memory import Memory
from domain.audit import Action
from domain.decision import Decision, Status
from domain.errors import HistoryUnavailable
from domain.knobs import PURGE

KEPT_AS = "alerts_incoming"
MOST_FIRING = 10_000
"""So many alerts from outside are counted as firing; then the oldest is forgotten."""
MOST_DONE = 1000
"""So many are remembered as done."""
MOST_WISHES = 256
MOST_NAME = 128
"""Characters of an alert's name in a sentence."""
LASTS_S = 60.0
"""A wish that no tick heard by then is given up: what was urgent then may be wrong now."""
SENT = frozenset({Status.INTENDED, Status.APPLIED, Status.PARTIAL, Status.DIVERGED})
"""One that is still intended when the tick is over was cut off: it may have been carried out."""

Key = str
"""Fingerprint and start: one alert, however often it is posted."""


@dataclass(frozen=True, slots=True)
class Posted:
    """One alert as it came in."""

    fingerprint: str
    starts_at: datetime
    labels: Mapping[str, str]
    firing: bool

    @property
    def key(self) -> Key:
        """The same however the moment was written: an Alertmanager tells it in the time zone of its machine."""
        return f"{self.fingerprint}@{_utc(self.starts_at).isoformat()}"

    @property
    def name(self) -> str:
        """For people, in a sentence: a label may hold anything."""
        name = one_line(self.labels.get("alertname", "")).strip() or self.fingerprint
        return name if len(name) <= MOST_NAME else name[:MOST_NAME] + "…"


@dataclass(slots=True)
class Wish:
    """One that is to be heard. `answer` is what came of it."""

    posted: Posted
    rule: str
    since_s: float
    actor: str
    over: bool = False
    """Its alert has ended, and nothing was decided on it yet."""
    answer: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known of one alert as it is taken in. `rule` None: none hears it; `wish` None: it is settled."""

    posted: Posted
    rule: str | None
    result: str
    wish: Wish | None = None


class Wishes:
    """One for the daemon's life."""

    def __init__(self, rules: Mapping[str, IncomingSettings], memory: Memory) -> None:
        self.rules = rules
        self._memory = memory
        self._firing: dict[Key, None] = {}
        self._done: dict[Key, str] = {}
        self._waiting: dict[Key, Wish] = {}
        self._heard: dict[Key, Wish] = {}
        self._actions: list[Action] = []

    async def restore(self) -> None:
        """Remember for which alerts something was done before the start."""
        try:
            kept = await self._memory.get(KEPT_AS)
        except HistoryUnavailable:
            return
        done = {} if kept is None else kept.get("done")
        if isinstance(done, Mapping):
            self._done = {str(key): str(result) for key, result in done.items()} | self._done

    @property
    def firing(self) -> int:
        """How many alerts from outside fire."""
        return len(self._firing)

    @property
    def waiting(self) -> int:
        """How many wait for a tick to hear them."""
        return len(self._waiting) + len(self._heard)

    def take_actions(self) -> list[Action]:
        """What goes into the audit and was not taken yet."""
        actions, self._actions = self._actions, []
        return actions

    def take(self, posted: Posted, now_s: float, actor: str) -> Taken:
        """Take one in. Posted again it changes nothing, unless what it asked for was refused."""
        key = posted.key
        wish = self._heard.get(key) or self._waiting.get(key)
        if wish is not None:
            wish.over = not posted.firing
        if not posted.firing:
            self._firing.pop(key, None)
            return Taken(posted, None, "resolved: nothing is set off by the end of an alert")
        self._firing.setdefault(key)
        if len(self._firing) > MOST_FIRING:
            del self._firing[next(iter(self._firing))]
        rule = next((name for name, one in self.rules.items() if matches(one.matchers, posted.labels)), None)
        if rule is None:
            return Taken(posted, None, "counted: no rule of alerts.incoming picks it")
        if key in self._done:
            return Taken(posted, rule, f"done before: {self._done[key]}")
        if wish is None and len(self._waiting) >= MOST_WISHES:
            return Taken(posted, rule, f"not heard: {MOST_WISHES} others wait; it is when it is posted again")
        if wish is None:
            wish = self._waiting[key] = Wish(posted, rule, now_s, actor)
        return Taken(posted, rule, "asked for", wish)

    def ask(self, now_s: float, at: datetime) -> str | None:
        """Who asks at this tick, as a clause; None: nobody."""
        self._heard |= self._waiting
        self._waiting.clear()
        over = self._drop(lambda wish: wish.over)
        self._conclude(over, "not purged: the alert was over before a tick decided anything", at, done=False)
        late = self._drop(lambda wish: now_s - wish.since_s > LASTS_S)
        self._conclude(late, f"not purged: no tick decided anything within {LASTS_S:g} s", at, done=False)
        if not self._heard:
            return None
        first, others = next(iter(self._heard.values())), len(self._heard) - 1
        besides = f" and {others} more" if others else ""
        return f"alert {first.posted.name} from outside (alerts.incoming.{first.rule}{besides})"

    def _drop(self, which: Callable[[Wish], bool]) -> list[Wish]:
        """Those of the heard that are heard no longer."""
        dropped = [wish for wish in self._heard.values() if which(wish)]
        for wish in dropped:
            del self._heard[wish.posted.key]
        return dropped

    def answer(self, decisions: Iterable[Decision], mode: str, at: datetime) -> None:
        """What the tick that heard them decided, and what became of it."""
        heard, self._heard = self._heard, {}
        if not heard:
            return
        purge = next((one for one in decisions if one.knob == PURGE), None)
        if purge is None:
            said, done = f"not purged: emergency_purge does not run in mode {mode}", False
        else:
            lost = purge.status is Status.FAILED and purge.observed is None  # it may have been carried out
            done = purge.requested is not None and (purge.status in SENT or lost)
            reasons = [purge.sentence, *purge.guards, *([purge.error] if purge.error else [])]
            said = f"{'purged' if done else 'not purged'}: {'; '.join(reasons)}"
        self._conclude(heard.values(), said, at, done=done)

    def _conclude(self, wishes: Iterable[Wish], said: str, at: datetime, *, done: bool) -> None:
        concluded = list(wishes)
        for wish in concluded:
            if done:
                self._done[wish.posted.key] = said
            if not wish.answer.done():
                wish.answer.set_result(said)
            self._actions.append(_entry(wish, said, at))
        for key in list(self._done)[:-MOST_DONE]:
            del self._done[key]
        if done and concluded:
            self._memory.put(KEPT_AS, at, {"done": dict(self._done)})


def _utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:  # of the year 1, say: no time at all
        return at


def _entry(wish: Wish, said: str, at: datetime) -> Action:
    posted = wish.posted
    detail: dict[str, Any] = {
        "rule": wish.rule,
        "fingerprint": posted.fingerprint,
        "starts_at": posted.starts_at.isoformat(),
        "labels": dict(posted.labels),
    }
    # One row for each time that it is answered: an alert that is refused and posted again is heard again.
    request_id = f"{posted.fingerprint}-{posted.starts_at.timestamp():.6f}-{at.timestamp():.6f}"
    return Action(at, wish.actor, "alerts.emergency_purge", posted.name, said, detail, request_id)
