"""From incidents to the senders: groups, the outbox, silences, a burst worked off in slices.

Belongs here: the state of dispatch over time. Never: who is told when (alerts/dispatch.py), sending, rules.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from alerts import saved
from alerts.clock import Clock
from alerts.delivery import Deliveries
from alerts.dispatch import dispatch, resend, waiting
from alerts.groups import State
from alerts.muting import Muting
from alerts.settings import AlertsSettings
from controller.alerting.kept import squeezed
from controller.alerting.turns import others_turn
from domain.incident import Incident, Notification
from domain.silence import Silence
from store.outbox import WriterOutbox
from store.writer import Writer
from store.writes import SaveAlerts

logger = logging.getLogger(__name__)

STOP_S = 1.5
SLICE = 25
"""So many incidents and groups at once: a few milliseconds, then others get their turn."""
SAVED_AT_ONCE = 200
SAVE_EVERY_S = 10.0
"""With more groups than that the state is not written with each change, but so often. After a crash in between the same
notifications come again under the same names, and nobody is sent them twice.
"""


class Telling:
    """One for the daemon's life. All methods belong to the event loop."""

    def __init__(
        self,
        settings: AlertsSettings,
        writer: Writer,
        timeout_s: float,
        wall: Callable[[], datetime],
        clock: Clock | None = None,
    ) -> None:
        """`timeout_s`: how long the disk is waited for before something is sent. Raises SettingsError where a
        receiver's template is wrong.
        """
        self._settings = settings
        self._writer = writer
        self.timeout_s = timeout_s
        self._wall = wall
        self._state = State()
        self._unsaved = False
        self._saved_at: datetime | None = None
        self._news: deque[Incident] = deque()
        self.silences: tuple[Silence, ...] = ()
        self.deliveries = Deliveries(settings, WriterOutbox(writer, timeout_s), clock, self._again)

    def _again(self, receiver: str) -> Sequence[Notification]:
        return resend(self._state, receiver, self._wall(), self._settings)

    def configure(self, settings: AlertsSettings, firing: Iterable[Incident]) -> None:
        """Go on with other receivers and groups: nobody is told twice. `firing`: all incidents that are open.

        Raises SettingsError, and then all is as it was.
        """
        self.deliveries.apply(settings)
        while self._news:
            self._slice()
        self._state = saved.unpack(saved.pack(self._state), firing, settings)
        self._settings, self._unsaved = settings, True

    def restore(self, groups: Mapping[str, Any] | None, firing: Iterable[Incident]) -> None:
        """Take up who was told of what, and the incidents that fire."""
        known = {"groups": []} if groups is None else groups
        try:
            self._state = saved.unpack(known, firing, self._settings)
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("alerts: cannot tell who was told of what before the start: %s", error)
            self._state = saved.unpack({"groups": []}, firing, self._settings)

    def put(self, incidents: Iterable[Incident]) -> None:
        """Incidents that began or ended."""
        self._news += incidents

    def due(self) -> bool:
        """Whether there is anything to work off now."""
        now = self._wall()
        return bool(self._news) or self._saves(now) or waiting(self._state, now, self._settings)

    def _saves(self, now: datetime) -> bool:
        """Whether the state is to be written now."""
        if not self._unsaved or self._saved_at is None or len(self._state.groups) <= SAVED_AT_ONCE:
            return self._unsaved
        return abs((now - self._saved_at).total_seconds()) >= SAVE_EVERY_S

    async def work_off(self) -> None:
        """Until nothing is due."""
        while self.due():
            self._slice()
            await others_turn()

    async def close(self, *, begun: bool) -> None:
        """Work off what there is, write the state, let what is being sent end. Not `begun`: it is not known what was
        told before, and what the history says of it stays.
        """
        self._saved_at = None
        if begun:
            await self.work_off()
        await self.deliveries.stop(STOP_S)

    def _slice(self) -> None:
        now = self._wall()
        incidents = tuple(self._news.popleft() for _ in range(min(SLICE, len(self._news))))
        self.silences = tuple(one for one in self.silences if one.ends_at > now)
        self._unsaved |= bool(incidents) or waiting(self._state, now, self._settings)
        told = dispatch(self._state, incidents, self.silences, now, self._settings, SLICE)
        saves = self._saves(now)
        if not (incidents or told or saves):
            return
        save = SaveAlerts(now, incidents, told, squeezed(self._state) if saves else None)
        receipt = self._writer.put(save)
        if saves:
            self._unsaved, self._saved_at = False, now
        if told:
            self.deliveries.put(told, self._writer.settled(receipt, self.timeout_s), save.over)

    def keep_again(self, firing: Iterable[Incident]) -> None:
        """Write all that a restart needs: the history that had it is no more. `firing`: all incidents that are open."""
        self._writer.put(SaveAlerts(self._wall(), tuple(firing), (), squeezed(self._state)))
        self.deliveries.keep_again()

    def renumber(self, silence: Silence, number: int) -> None:
        """The history knows it under this number now."""
        same = (replace(one, id=number) if one is silence else one for one in self.silences)
        self.silences = tuple(same)

    def muting(self) -> Muting:
        """What nobody is told of now."""
        return Muting(self.silences, self._settings.inhibit, self._state.sources.values(), self._wall())
