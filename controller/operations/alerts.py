"""Alerts: what fires, what an Alertmanager says that fires there, silences, receivers.

Belongs here: these, with their audit. Never: rules, what an alert from outside sets off (controller/alerting).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from alerts.matching import narrows, parse
from alerts.receivers import Delivered
from alerts.worker import ReceiverState
from controller.alerting import Alerting, Ticked
from controller.alerting.alerting import Shown
from controller.alerting.wishes import Posted, Taken
from controller.operations.audit import Audit, Caller
from controller.operations.refusal import Kind, Refused
from domain.errors import HistoryUnavailable
from domain.incident import Delivery, DeliveryStatus
from domain.silence import Matcher, Silence
from store.history import History

AT_ONCE = 100
"""So many alerts from outside are taken in before others get their turn."""
ANSWER_S = 5.0
"""So long the answer waits for the tick that decides; Alertmanager waits for ten seconds."""
MOST_SILENCES = 200
"""At once: each is held against every alert that is to be told."""
MOST_FAILED = 20
"""Notifications that were given up are shown, the newest of them."""
LONGEST_SILENCE_S = 366 * 86400.0


class Alerts:
    """One for the daemon's life."""

    def __init__(self, alerting: Alerting, audit: Audit, history: History) -> None:
        self._alerting = alerting
        self._audit = audit
        self._history = history

    def now(self) -> list[Shown]:
        """What is pending or fires."""
        return self._alerting.shown()

    @property
    def external_firing(self) -> int:
        """How many alerts from outside fire."""
        return self._alerting.wishes.firing

    async def take(self, who: Caller, posted: Iterable[Posted]) -> list[Taken]:
        """Take alerts from outside in; answers those that a rule picks, once the next tick has heard them or did not
        come soon. What is set off has entries of its own in the audit.
        """
        taken: list[Taken] = []
        for number, one in enumerate(posted, 1):
            if (heard := self._alerting.take(one, who.actor)).rule is not None:
                taken.append(heard)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        if answers := {one.wish.answer for one in taken if one.wish is not None}:
            await asyncio.wait(answers, timeout=ANSWER_S)
        return taken

    def listen(self, ticked: Ticked) -> None:
        """What became of alerts from outside goes into the audit."""
        for action in ticked.actions:
            self._audit.note(action)

    def silences(self) -> tuple[Silence, ...]:
        """Those that count now or will."""
        return self._alerting.silences()

    async def silence(
        self, who: Caller, matchers: Sequence[str], seconds: float, comment: str = "", created_by: str | None = None
    ) -> Silence:
        """Tell nobody of the alerts that all matchers pick, from now on for so long. Raises Refused, and
        HistoryUnavailable, since a silence has to outlive the daemon.
        """
        detail = {"matchers": list(matchers), "seconds": seconds, "comment": comment}
        async with self._audit.entry(who, "silences.add", ", ".join(matchers), detail):
            if len(self.silences()) >= MOST_SILENCES:
                raise Refused(
                    Kind.CONFLICT, "add a silence", f"there are {MOST_SILENCES}", "end some, or pick more with one"
                )
            return await self._alerting.silence(_read(matchers), seconds, created_by or who.actor, comment)

    async def unsilence(self, who: Caller, number: int) -> None:
        """End a silence before its time. Raises Refused (UNKNOWN) and HistoryUnavailable."""
        async with self._audit.entry(who, "silences.end", str(number)):
            if not await self._alerting.unsilence(number):
                remedy = "GET /api/v1/silences has those there are"
                raise Refused(Kind.UNKNOWN, f"end silence {number}", "there is none of that number that counts", remedy)

    def receivers(self) -> Mapping[str, ReceiverState]:
        """How each receiver fares, by name."""
        return self._alerting.receivers()

    async def not_delivered(self) -> list[Delivery] | None:
        """The newest notifications that were given up, newest first; None while the history does not answer."""
        try:
            found = await self._history.alerts.deliveries(status=DeliveryStatus.FAILED, limit=MOST_FAILED)
        except HistoryUnavailable:
            return None
        return found[::-1]

    async def test(self, who: Caller, name: str) -> None:
        """Send a receiver a made-up alert, at once and once. Raises Refused (UNKNOWN, UNAVAILABLE)."""
        async with self._audit.entry(who, "receivers.test", name):
            try:
                answer = await self._alerting.try_out(name)
            except KeyError as error:
                known = ", ".join(self.receivers()) or "none"
                reason = f"there is no receiver {name!r}"
                raise Refused(Kind.UNKNOWN, f"test {name}", reason, f"alerts.receivers has {known}") from error
            if not isinstance(answer, Delivered):
                doing = f"deliver to {name}"
                reason, _, remedy = answer.reason.removeprefix(f"cannot {doing}: ").rpartition("; ")
                raise Refused(Kind.UNAVAILABLE, doing, reason or remedy, "see that it answers, or correct its settings")


def _read(texts: Sequence[str]) -> tuple[Matcher, ...]:
    """Raises Refused (INVALID)."""
    try:
        matchers = tuple(matcher for text in texts for matcher in parse(text))
    except ValueError as error:
        reason, _, remedy = str(error).removeprefix("cannot read ").rpartition("; ")
        raise Refused(Kind.INVALID, "add a silence", reason, remedy, "matchers") from error
    if not narrows(matchers):
        raise Refused(Kind.INVALID, "add a silence", "it picks every alert", "name what is to be silenced", "matchers")
    return matchers
