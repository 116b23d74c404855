"""What one receiver has still to be told: in order, and bounded.

Past the bound a notification takes up the older ones of its group that nobody has begun to send: it tells what they
would have told, each incident as it was last. Where no group has more than one, the oldest notification goes.

Belongs here: that. Never: sending, waiting, a clock.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from alerts.groups import identity
from domain.incident import Delivery, DeliveryStatus, Notification

MOST_INCIDENTS = 256
"""In one notification that took up others; the oldest are left out."""


@dataclass(slots=True, eq=False)
class Entry:
    """One notification that waits."""

    delivery: Delivery
    stored: asyncio.Future[object] | None = None
    """Done once it is in the outbox, or cannot be put there now; None: it came from there."""
    over: Container[str] = ()
    """The uids that the outbox then knows as told already."""
    begun_s: float | None = None
    """When the first attempt at it began, by the monotonic clock; from then on it stays as it is."""


class Backlog:
    """`bound`: how many wait at most. The newest always does, and whatever is being sent."""

    def __init__(self, name: str, bound: int) -> None:
        self._name = name
        self.bound = bound
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._groups: dict[str, dict[str, Entry]] = {}
        """By group key and uid, those that nobody has begun to send."""
        self._several: dict[str, None] = {}
        """The groups with more than one of those."""
        self.superseded = 0
        """How many were taken up by others."""
        self.crowded_out = 0
        """How many went for lack of room."""

    def __len__(self) -> int:
        return len(self._entries)

    def first(self, number: int = 1) -> list[Entry]:
        """The oldest ones."""
        return [entry for _, entry in zip(range(number), self._entries.values(), strict=False)]

    def begin(self, entry: Entry, now_s: float) -> None:
        """It is being sent from now on."""
        if entry.begun_s is None:
            entry.begun_s = now_s
            self._ungroup(entry)

    def done(self, entry: Entry) -> None:
        """It waits no longer."""
        self._ungroup(entry)
        self._entries.pop(entry.delivery.notification.uid, None)

    def add(
        self,
        deliveries: Sequence[Delivery],
        stored: asyncio.Future[object] | None = None,
        over: Container[str] = (),
    ) -> list[Delivery]:
        """Append these; one that waits already is left out. Answers those that changed so that the bound holds."""
        changed: dict[str, Delivery] = {}
        for delivery in deliveries:
            told = delivery.notification
            if told.uid in self._entries:
                continue
            self._entries[told.uid] = Entry(delivery, stored, over)
            group = self._groups.setdefault(told.group_key, {})
            group[told.uid] = self._entries[told.uid]
            if len(group) > 1:
                self._several[told.group_key] = None
            self._trim(told, changed)
        return list(changed.values())

    def resize(self, bound: int) -> list[Delivery]:
        """So many wait at most from now on. Answers those that changed so that it holds."""
        self.bound = bound
        changed: dict[str, Delivery] = {}
        while (before := len(self._entries)) > bound:
            self._trim(next(reversed(self._entries.values())).delivery.notification, changed)
            if len(self._entries) == before:
                break  # what is left is being sent
        return list(changed.values())

    def clear(self, why: str) -> list[Delivery]:
        """Give up all that waits; answers them."""
        given_up = [_given_up(entry.delivery, why) for entry in self._entries.values()]
        self._entries.clear()
        self._groups.clear()
        self._several.clear()
        return given_up

    def _trim(self, newest: Notification, changed: dict[str, Delivery]) -> None:
        if len(self._entries) <= self.bound:
            return
        key = newest.group_key if newest.group_key in self._several else next(iter(self._several), None)
        if key is not None:
            self._take_up(key, changed)
            return
        oldest = next((entry for entry in self._entries.values() if entry.begun_s is None), None)
        if oldest is not None and oldest.delivery.notification.uid != newest.uid:
            self.crowded_out += 1
            self.done(oldest)
            why = f"cannot deliver to {self._name}: more than {self.bound} wait; see why it does not take them"
            changed[oldest.delivery.notification.uid] = _given_up(oldest.delivery, why)

    def _take_up(self, key: str, changed: dict[str, Delivery]) -> None:
        *older, newest = list(self._groups[key].values())
        why = (
            f"not delivered to {self._name} by itself: {newest.delivery.notification.uid} of the same group tells it, "
            f"since more than {self.bound} wait"
        )
        self.superseded += len(older)
        for entry in older:
            self.done(entry)
            changed[entry.delivery.notification.uid] = _given_up(entry.delivery, why)
        told = merged([entry.delivery.notification for entry in (*older, newest)])
        newest.delivery = changed[told.uid] = replace(newest.delivery, notification=told)

    def _ungroup(self, entry: Entry) -> None:
        told = entry.delivery.notification
        group = self._groups.get(told.group_key, {})
        if group.pop(told.uid, None) is None:
            return
        if len(group) < 2:
            self._several.pop(told.group_key, None)
        if not group:
            del self._groups[told.group_key]


def merged(several: Sequence[Notification]) -> Notification:
    """The last of them, with all that they tell: each incident once, as it was last."""
    newest = several[-1]
    incidents = {identity(one): one for told in several for one in told.incidents}
    kept = list(incidents.values())[-MOST_INCIDENTS:]
    left_out = len(incidents) - len(kept)
    return replace(newest, incidents=tuple(kept), truncated=newest.truncated + left_out)


def _given_up(delivery: Delivery, why: str) -> Delivery:
    return replace(delivery, status=DeliveryStatus.FAILED, not_before=None, error=why)
