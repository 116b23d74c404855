"""The mode: which is configured, which is in force and why.

Belongs here: changing it at run time, and taking that back. Never: what a mode does (policies/registry.py,
policies/guards).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from controller.loop import Loop
from controller.operations.audit import Audit, Caller, Stamp
from controller.operations.changes import Changed, Changes, RunTime
from controller.operations.permission import steered_by_another
from controller.operations.refusal import Kind, Refused
from domain.decision import Mode
from policies.trial import shown

EFFECTS: Mapping[Mode, str] = {
    Mode.AUTO: "The policies change the engine's knobs by themselves, from the values in force now.",
    Mode.OBSERVE: "The policies go on deciding and what they want is recorded; nothing is changed, overrides rest.",
    Mode.MANUAL: "Only an operator changes knobs; the policies are not asked, not even in an emergency.",
    Mode.PAUSED: "Nothing is decided and nothing is changed; measuring, alerts and the lease go on.",
}
"""What switching to it does; for static the settings say which values."""


@dataclass(frozen=True, slots=True)
class ModeState:
    """`in_force` is `configured`, unless `because` says what stands over it."""

    in_force: Mode
    configured: Mode
    """The file's, or what an operator set at run time in its place."""
    file: Mode
    changed: Stamp | None
    """When and by whom it was set at run time; None: the file's is configured."""
    survives_restart: bool
    """What was set at run time is kept in the history."""
    because: str | None
    """Why another one is in force: a rollback, a maintenance window, another daemon that steers."""
    maintenance: str | None
    maintenance_until: datetime | None
    effects: Mapping[str, str]
    """Each mode with a sentence that says what switching to it would do now."""


class ModeSwitch:
    """One for the daemon's life."""

    def __init__(self, loop: Loop, run_time: RunTime, audit: Audit) -> None:
        self._loop = loop
        self._run_time = run_time
        self._audit = audit

    def now(self) -> ModeState:
        """The mode and what stands over it."""
        loop, changed = self._loop, self._run_time.changes.mode
        window = loop.observed.maintenance
        return ModeState(
            in_force=loop.observed.mode,
            configured=loop.settings.mode,
            file=self._run_time.file.mode,
            changed=None if changed is None else changed.by,
            survives_restart=self._run_time.kept,
            because=self._because(),
            maintenance=None if window is None else window.name,
            maintenance_until=None if window is None else window.until,
            effects=self._effects(),
        )

    async def set(self, who: Caller, mode: Mode, comment: str = "") -> ModeState:
        """Switch; kept over restarts and reloads until it is taken back. Raises Refused."""
        async with (
            self._audit.entry(who, "mode.set", mode.value, {"mode": mode.value, "comment": comment}),
            self._run_time.turn,
        ):
            now = self._loop.clock().wall
            own = None if mode is self._run_time.file.mode else Changed(mode.value, Stamp(now, who.actor, comment))
            changes = replace(self._run_time.changes, mode=own)
            if Changes(own).over(self._run_time.file).mode is not mode:
                reason = "VLLM_DISABLE_DYNAMIC is set in the daemon's environment, which holds mode static"
                raise Refused(Kind.CONFLICT, f"switch to mode {mode}", reason, "take it out and restart the daemon")
            await self._use(changes, now)
        return self.now()

    async def reset(self, who: Caller) -> ModeState:
        """Back to the file's. Raises Refused (CONFLICT) when it was not changed."""
        async with self._audit.entry(who, "mode.reset", self._run_time.file.mode.value), self._run_time.turn:
            if self._run_time.changes.mode is None:
                reason = f"it is the file's already, {self._run_time.file.mode}"
                raise Refused(Kind.CONFLICT, "take the mode back to the file's", reason, "there is nothing to do")
            await self._use(replace(self._run_time.changes, mode=None), self._loop.clock().wall)
        return self.now()

    async def _use(self, changes: Changes, at: datetime) -> None:
        await self._run_time.keep(changes, at)
        await self._loop.adjust(self._run_time.laid_over(self._run_time.file))
        await self._loop.tick()

    def _because(self) -> str | None:
        loop = self._loop
        if (other := steered_by_another(loop)) is not None:
            return other.reason
        if loop.rollback[0] is not None:
            return f"a rollback is in force since {loop.rollback[0].at:%Y-%m-%d %H:%M:%S} UTC"
        window = loop.observed.maintenance
        return None if window is None else f"the maintenance window {window.name} is open"

    def _effects(self) -> dict[str, str]:
        held = ", ".join(f"{knob} at {shown(v)}" for knob, v in self._loop.settings.policies.static.values.items())
        return {
            mode.value: EFFECTS.get(mode, f"{held} is held, in force and as what the engine goes back to.")
            for mode in Mode
        }
