"""The alerts of the daemon: once a tick self-checks, rules and incidents; beside the ticks groups, outbox, senders.

Belongs here: their order, the start, the end, a reload. Never: what each of them does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

from alerts import incidents
from alerts.clock import Clock
from alerts.receivers import Answer, build
from alerts.worker import ReceiverState
from controller import clock as system_clock
from controller.alerting import kept as keeping
from controller.alerting.checks import SelfChecks
from controller.alerting.disk import Disk
from controller.alerting.kept import Kept
from controller.alerting.rules import Rules, say
from controller.alerting.telling import Telling
from controller.alerting.ticked import Ticked
from controller.alerting.wishes import Posted, Taken, Wishes
from controller.history.memory import Memory
from controller.metrics.observed import Observed
from controller.settings import Settings
from domain.alert import AlertState, Rule, Severity, Transition
from domain.errors import HistoryUnavailable
from domain.incident import Incident, IncidentState, Notification
from domain.silence import Matcher, Silence
from domain.view import View
from store.writer import Writer
from store.writes import PutSilence, SaveAlerts

logger = logging.getLogger(__name__)

PATIENCE_S = 30.0
"""So long a history that does not answer at the start is waited for before anything is told: it knows what was told."""
KEEP_EVERY_S = 10.0
TEST = "test"
"""The name of the alert that tries a receiver out."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One alert as people see it: a rule that is pending has no incident yet."""

    rule: Rule
    state: AlertState
    incident: Incident | None = None
    muted: bool = False


class Alerting:
    """One for the daemon's life; a reload changes its rules and receivers, not what is open."""

    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        memory: Memory,
        observed: Observed,
        clock: Callable[[], system_clock.Now] = system_clock.now,
        senders_clock: Clock | None = None,
    ) -> None:
        """Raises SettingsError where a receiver's template is wrong."""
        self._writer = writer
        self._memory = memory
        self._observed = observed
        self._clock = clock
        self._disk = Disk(writer.url)
        self._checks = SelfChecks(settings.tick_s, self._disk.set_aside_at())
        self.rules = Rules(settings.policies.alert_thresholds)
        timeout_s = settings.store.commit_timeout_s
        self.telling = Telling(settings.alerts, writer, timeout_s, lambda: clock().wall, senders_clock)
        self.wishes = Wishes(settings.alerts.incoming, memory)
        self.node = settings.node
        observed.rules, observed.receivers = self.rules.standing, self.receivers
        self.opened: incidents.Opened = {}
        self._begun = clock()
        self._read = self._goes_on = False
        self._kept_s: float | None = None
        self._anew = 0
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    @staticmethod
    def check(settings: Settings) -> None:
        """Raises SettingsError where `configure` would."""
        for name, one in settings.alerts.receivers.items():
            build(name, one, settings.alerts.external_url)

    async def restore(self) -> None:
        """Take up what an earlier run left behind, and begin to tell. Before the first tick; a history that does not
        answer is asked again.
        """
        await self._restore()
        self.telling.deliveries.start()
        self._worker = asyncio.create_task(self._work(), name="alerts")

    async def close(self) -> None:
        """Keep what there is, let what is being sent end."""
        self._keep_rules(self._clock(), always=True)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})
        await self.telling.close(begun=self._goes_on)

    async def configure(self, settings: Settings) -> None:
        """Go on with other rules and receivers. Raises SettingsError, and then all is as it was."""
        async with self._turn:
            self.telling.configure(settings.alerts, self.opened.values())
            self.rules.configure(settings.policies.alert_thresholds)
            self.opened, over = incidents.reconcile(self.opened, self.rules.firing, self._clock().wall)
            self._tell(over)
            self.wishes.rules = settings.alerts.incoming
            self._checks.tick_s = settings.tick_s
            self.telling.timeout_s = settings.store.commit_timeout_s

    @property
    def busy(self) -> bool:
        """What the ticks found is still to be worked off."""
        return self._goes_on and (self._woken.is_set() or self.telling.due())

    def receivers(self) -> Mapping[str, ReceiverState]:
        """How each receiver fares, by name."""
        return self.telling.deliveries.states()

    async def tick(self, ticked: Ticked) -> None:
        """After each tick, one that failed too. Raises nothing but cancellation."""
        try:
            async with self._turn:
                await self._tick(ticked)
        except Exception:  # the next tick is to come all the same
            logger.exception("alerts: the rules could not be evaluated")

    async def _tick(self, ticked: Ticked) -> None:
        if ticked.decided:
            self.wishes.answer(ticked.decisions, self._observed.mode.value, ticked.wall)
        ticked.actions = self.wishes.take_actions()
        told = self._checks.take(ticked)
        told["deliveries_failing_s"] = max((one.failing_s for one in self.receivers().values()), default=0.0)
        told["external"] = float(self.wishes.firing)
        if (free := await self._disk.free_ratio(ticked.now_s)) is not None:
            told["disk_free_ratio"] = free
        if self._observed.checks_worse is not None:
            told["checks_worse"] = float(self._observed.checks_worse)
        self._observed.check(ticked.now_s, told)
        if self._goes_on:
            view = ticked.view if ticked.view is not None else View(ticked.now_s)
            news = list[Transition]()
            async for transitions in self.rules.evaluate(view, told):
                if transitions:
                    news += transitions
                    self._tell(incidents.follow(self.opened, transitions, self.node, ticked.wall))
            say(news)
            self._keep_rules(self._clock())
        self._woken.set()

    def _tell(self, changed: tuple[Incident, ...]) -> None:
        self.telling.put(changed)
        self._woken.set()

    def _keep_rules(self, now: system_clock.Now, *, always: bool = False) -> None:
        if not self._goes_on:
            return
        if always or self._kept_s is None or now.monotonic_s - self._kept_s >= KEEP_EVERY_S:
            self._kept_s = now.monotonic_s
            self._memory.put(keeping.RULES, now.wall, self.rules.packed(now.monotonic_s, now.wall))

    async def _work(self) -> None:
        """Beside the ticks: what they found is worked off, a history that did not answer is asked again."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                if not self._read:
                    await self._restore()
                if self._goes_on:
                    await self._keep_again()
                    await self.telling.work_off()
            except Exception:  # the next tick wakes it again
                logger.exception("alerts: what is to be told could not be worked out")

    async def _keep_again(self) -> None:
        """Into a history that was begun anew: what a restart has to know of what is open."""
        if (anew := self._writer.state().anew) == self._anew:
            return
        self._anew = anew
        self.telling.keep_again(self.opened.values())
        for one in self.silences():
            again = PutSilence(one)
            if await self._writer.commit(again, self.telling.timeout_s):
                self.telling.renumber(one, again.numbers[0])

    async def _restore(self) -> None:
        now = self._clock()
        try:
            kept = await self._writer.run(lambda history: keeping.read(history, now.wall), self.telling.timeout_s)
        except HistoryUnavailable as error:
            if not self._goes_on and now.monotonic_s - self._begun.monotonic_s >= PATIENCE_S:
                logger.error("alerts: begun anew, the history does not say what was told before: %s", error)
                self.rules.restore(None, (), now.monotonic_s, now.wall)
                self._goes_on = True
            return
        self._read = True
        await self.wishes.restore()
        self.telling.silences = tuple(kept.silences)
        if self._goes_on:
            self._take_late(kept, now.wall)
        else:
            self._take_up(kept, now)
        self._goes_on = True

    def _take_up(self, kept: Kept, now: system_clock.Now) -> None:
        known = incidents.opened(kept.firing)
        names = {rule.name for rule in self.rules.in_force}
        self.rules.restore(kept.rules, known.keys() & names, now.monotonic_s, now.wall)
        self.telling.restore(kept.groups, [*known.values(), *kept.over])
        self.telling.deliveries.restore(kept.due)
        self.opened, over = incidents.reconcile(known, self.rules.firing, now.wall)
        self._tell(over)
        if known or kept.due:
            logger.info(
                "alerts: %d go on from before, %d notifications are still to be sent", len(known), len(kept.due)
            )

    def _take_late(self, kept: Kept, at: datetime) -> None:
        """Begun anew meanwhile: what fired before is over for the history, what nobody was told is told."""
        ours = {(one.fingerprint, one.starts_at) for one in self.opened.values()}
        theirs = [one for one in kept.firing if (one.fingerprint, one.starts_at) not in ours]
        over = [replace(one, state=IncidentState.RESOLVED, updated_at=at, ends_at=at) for one in theirs]
        if over:
            self._writer.put(SaveAlerts(at, over))
        before = self._begun.wall
        self.telling.deliveries.restore(one for one in kept.due if one.notification.created_at < before)

    def take(self, posted: Posted, actor: str) -> Taken:
        """An alert from outside came in."""
        return self.wishes.take(posted, self._clock().monotonic_s, actor)

    async def try_out(self, receiver: str) -> Answer:
        """Send a receiver an alert at once, past all that waits. Raises KeyError where there is none of that name."""
        now = self._clock().wall
        labels = {"alertname": TEST, "severity": Severity.INFO.value, "instance": self.node}
        said = {"summary": "This is a test.", "description": f"Sent by hand from {self.node}; nothing is wrong."}
        alert = Incident(TEST, Severity.INFO, labels, IncidentState.FIRING, now, now, annotations=said)
        group = f'{{}}:{{alertname="{TEST}"}}'
        told = Notification(uuid4().hex, receiver, group, {"alertname": TEST}, (alert,), now)
        return await self.telling.deliveries.attempt(told)

    def silences(self) -> tuple[Silence, ...]:
        """Those that count now or will."""
        now = self._clock().wall
        return tuple(one for one in self.telling.silences if one.ends_at > now)

    def shown(self) -> list[Shown]:
        """What is pending or fires."""
        muting = self.telling.muting()
        found = []
        for rule, state in self.rules.standing():
            incident = self.opened.get(rule.name)
            if incident is not None:
                found.append(Shown(rule, AlertState.FIRING, incident, muting.mutes(incident.labels)))
            elif state is AlertState.PENDING:
                found.append(Shown(rule, state))
        return found

    async def silence(self, matchers: Sequence[Matcher], seconds: float, by: str, comment: str) -> Silence:
        """Tell nobody of what they pick, from now on for so long. Raises HistoryUnavailable: it has to outlive the
        daemon, and its number is the history's.
        """
        begin = self._clock().wall
        wanted = Silence(tuple(matchers), begin, begin + timedelta(seconds=seconds), by, comment)
        number = await self._writer.run(lambda history: history.alerts.put_silence(wanted), self.telling.timeout_s)
        made = replace(wanted, id=number)
        self.telling.silences = (*(one for one in self.telling.silences if one.id != number), made)
        self._woken.set()
        return made

    async def unsilence(self, number: int) -> bool:
        """End a silence; False where there is none of that number that counts. Raises HistoryUnavailable."""
        at = self._clock().wall
        ended = await self._writer.run(lambda history: history.alerts.end_silence(number, at), self.telling.timeout_s)
        self.telling.silences = tuple(one for one in self.telling.silences if one.id != number)
        self._woken.set()
        return ended
