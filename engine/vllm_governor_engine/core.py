"""The governor of one engine core: everything that has state lives here, in the process that schedules.

Here: identity (boot_id), generation, lease, what is degraded, and the dispatch of a call. Never here: HTTP, and what
a single operation means (ops/) or a single knob does (knobs/). It runs on the engine core's own thread, between two
steps, so nothing needs a lock.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import deadline, errors, ops
from .devices import visible_devices
from .hooks import ScheduleHook
from .knobs.admission_cap import NAME as CAP
from .knobs.base import Engine, Value
from .knobset import KnobSet
from .lease import Lease
from .log import get_logger
from .purging import PART as PURGE
from .purging import Purging
from .queue_room import QueueRoom
from .stats.collection import PART as STATS
from .stats.collection import Stats
from .stats.queue import look
from .window import AdmissionWindow

Clock = Callable[[], float]
_ATTRIBUTE = "_vllm_governor"
_LEASE_PART = "lease"


class Governor:
    """The governor of one engine core. Built at the first call; until a call changes something it only reads.

    `clock` gives monotonic seconds, `wall` the time of the day.
    """

    def __init__(
        self,
        scheduler: Any,
        vllm_config: Any,
        index: int = 0,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self.boot_id = secrets.token_hex(6)
        self.generation = 0
        self.lease = Lease()
        self.frozen = False
        self.scheduler = scheduler
        self._clock, self._wall = clock, wall
        self._room = QueueRoom()
        self.last_change: tuple[str | None, int] = (None, 0)
        """The caller's id of the last change, and the generation it led to: what an undo has to name."""
        self._degraded: list[dict[str, str]] = []
        self._hook = ScheduleHook(scheduler, self._part_failed, clock)
        self._engine = Engine(scheduler, vllm_config, index, self._hook, clock)
        self.knobs = KnobSet(self._engine, self._knob_off)
        self.purging = Purging(self._engine)
        self.stats = Stats(scheduler, vllm_config, self._hook, self._degrade, clock, wall)
        self.ask_workers: Callable[[str], Any] | None = None
        """Calls a worker method by name on every worker, EngineCore.collective_rpc; None where there is none."""

    def call(self, op: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Run one operation and answer the runtime as it is then. Raises GovernorError."""
        try:
            self.check_lease()
        except Exception as error:  # a broken lease must not keep anybody from reading or setting knobs
            self._degrade(_LEASE_PART, f"it cannot be checked ({errors.shown(error)})")
        operation, answer = ops.OPERATIONS.get(op), ops.ANSWERS.get(op)
        if operation is None and answer is None:
            raise errors.unavailable(
                f"the engine core does not know the operation {errors.shown(op)}; "
                "install one version of the plugin for all of vLLM's processes"
            )
        _refuse_when_late(payload, self._clock)
        if not self._engine.running:  # else each step drives it, and calls beside it would lengthen the step
            self._advance_purge()
        if answer is not None:
            return answer(self, payload)
        if operation is not None:
            operation(self, payload)
        return self.runtime()

    @property
    def engine(self) -> Engine:
        """The live engine, and what the knobs share of it."""
        return self._engine

    @property
    def degraded(self) -> list[dict[str, str]]:
        """The parts that switched themselves off: `part` and `reason`."""
        return list(self._degraded)

    @property
    def window(self) -> AdmissionWindow:
        """The admission window; its counters are the stats' to report."""
        return self._engine.share(AdmissionWindow)

    def runtime(self) -> dict[str, Any]:
        """What this engine core contributes to the runtime document; see docs/rpc.md."""
        knobs = self.knobs.describe()  # first: it may find a knob that has to be reported as degraded
        return {
            "engine": int(self._engine.index),
            "boot_id": self.boot_id,
            "pid": os.getpid(),
            "cuda_visible_devices": visible_devices(self._engine.vllm_config),
            "generation": self.generation,
            "running": self._engine.running,
            "waiting": self._engine.waiting,
            "held": self.window.held,
            "frozen": self.frozen,
            "lease": self.lease.describe(self._clock(), self.fallback()),
            "degraded": list(self._degraded),
            "knobs": knobs,
            "purge": self.purging.describe(),
            "api_processes": self._engine.api_processes.describe(self.generation, self._clock()),
        }

    def require_current(self, expected: Mapping[str, Any], with_generation: bool = True) -> None:
        """Raise `stale` unless `expected` (generation by boot_id) names this boot and, if asked, this generation."""
        same = self.boot_id in expected
        if same and with_generation:
            same = expected[self.boot_id] == self.generation
        if not same:
            raise errors.stale(self.boot_id, self.generation)

    def require_not_frozen(self) -> None:
        """Raise `frozen` while an operator has stopped every change."""
        if self.frozen:
            raise errors.frozen()

    def require_open(self, holder: str | None, instead_of: str | None = None) -> None:
        """Raise `held` while the lease is another's: two daemons would undo each other's changes."""
        if not self.lease.open_to(holder, instead_of):
            raise errors.held(self.lease.holder, self.lease.remaining_s(self._clock()))

    def set_frozen(self, frozen: bool) -> None:
        """Go to the fallback values and stay there, or let go of it. No call does anything when nothing is new.

        A lease that ran out meanwhile is made good when it is lifted: another fallback may have been named.
        """
        if frozen == self.frozen:
            return
        before = self.knobs.values()
        if frozen:
            self.purging.interrupt("frozen by an operator")
        if frozen or not self.lease.held:
            self.knobs.apply_each(self.fallback())
        self.frozen = frozen
        self._count_change(before, "freeze" if frozen else "freeze lifted")

    def take_report(self, report: Mapping[str, Any]) -> None:
        """Keep an API process's report; a knob that it could not set is switched off."""
        self._engine.api_processes.take(report, self.boot_id, self._clock())
        self.knobs.drop_failed()

    def describe_wanted(self) -> dict[str, Any]:
        """What an API process has to put in force, and what the arithmetic of its queue limit needs."""
        values, fallback, remaining = self.knobs.values(), self.fallback(), self.lease.remaining_s(self._clock())
        cap = int(values[CAP] if CAP in values else getattr(self.scheduler, "max_num_running_reqs", 0))
        return {
            "engine": int(self._engine.index),
            "boot_id": self.boot_id,
            "generation": self.generation,
            "running": self._engine.running,
            "cap": cap,
            "bound": self._bound(cap),
            "wanted": self.knobs.wanted(values),
            "lease_s": None if remaining is None or self.frozen else remaining,
            "fallback_cap": int(fallback.get(CAP, cap)),
            "fallback": self.knobs.wanted(fallback),
            "api_processes": len(self._engine.api_processes),
        }

    def change(self, values: Mapping[str, Value], who: str, change_id: str | None = None) -> None:
        """Set checked values, all or none, and count the change if it is one."""
        before = self.knobs.values()
        self.knobs.apply(values)
        if any(before.get(name) != value for name, value in values.items()):
            self._count_change(before, who)
            self.last_change = (change_id, self.generation)

    def hold_lease(self, lease_s: float, holder: str | None = None) -> None:
        """Take or renew the lease, and from then on, when it runs out, look at it before each step."""
        now, before = self._clock(), self.lease.holder
        self.lease.renew(now, lease_s, holder)
        if self.lease.holder != before:
            get_logger().info("governor lease: engine=%s held by %s", self._engine.index, errors.shown(holder, 200))
        try:
            self._hook.add(_LEASE_PART, self.check_lease, when=now + lease_s)
        except Exception as error:
            # It is still checked at every call.
            self._degrade(_LEASE_PART, f"it is not checked before each step ({errors.shown(error)})")

    def fallback(self) -> dict[str, Value]:
        """What the engine returns to when the lease runs out, of every knob that is not off."""
        startup = self.knobs.startup()
        return {name: self.lease.fallback.get(name, value) for name, value in startup.items()}

    def check_lease(self) -> None:
        """Set the fallback values if the lease has run out."""
        if not self.lease.expire(self._clock()):
            return
        if self.frozen:  # nothing moves; lifting it looks at the lease
            return
        before = self.knobs.values()
        self.knobs.apply_each(self.fallback())
        self._count_change(before, "lease ran out")

    def _bound(self, cap: int) -> int | None:
        if self.window.held:  # they wait because the window says so
            return None
        try:
            found = look(self.scheduler, self._wall())
        except Exception as error:  # then the queue is as long as the cap says
            self._degrade("queue_room", f"it cannot look at the queue ({errors.shown(error)})")
            return None
        return self._room.look(self._clock(), found["running"], cap, found["oldest_waiting_s"])

    def _advance_purge(self) -> None:
        """An idle engine has no steps that would drive a purge, so calls do."""
        try:
            self.purging.advance()
        except Exception as error:
            self._part_failed(PURGE, error)

    def _count_change(self, before: Mapping[str, Value], who: str) -> None:
        self.generation += 1
        now = self.knobs.values()
        moved = [f"{name} {value} -> {now.get(name)}" for name, value in before.items() if now.get(name) != value]
        get_logger().info(
            "governor change: engine=%s generation=%d by=%s: %s",
            self._engine.index,
            self.generation,
            who,
            ", ".join(moved) or "no value moved",
        )

    def _part_failed(self, name: str, error: BaseException) -> None:
        """A part of the schedule() wrapper raised and was taken out."""
        why = f"it failed at a step ({errors.shown(error)})"
        if name == _LEASE_PART:
            self._degrade(name, why + "; the lease is now checked at governor calls only")
        elif name == STATS:
            self.stats.stop(why)
        elif name == PURGE:
            self.purging.fail(why)
            self._degrade(PURGE, why)
        elif not self.knobs.part_failed(name, why):
            self._degrade(name, why)

    def _knob_off(self, name: str, why: str) -> None:
        """A knob was switched off, which put it back to its start-up value: a change that callers have to notice."""
        self.generation += 1
        self._degrade(name, why)

    def _degrade(self, part: str, reason: str) -> None:
        entry = {"part": part, "reason": reason}
        if entry not in self._degraded:
            self._degraded.append(entry)
            get_logger().warning("governor part %s switched itself off: %s", part, reason)


def call(engine_core: Any, op: str, payload_json: str) -> str:
    """What EngineCore.governor_call does. Never raises, and answers a string, the one type that is always safe to send.

    `{"ok": RUNTIME}` or `{"error": ERROR}`.
    """
    try:
        reply = {"ok": _governor_of(engine_core).call(op, json.loads(payload_json))}
    except errors.GovernorError as error:
        reply = {"error": error.as_wire()}
    except Exception as error:
        get_logger().exception("governor call %s failed", errors.shown(op))
        reply = {"error": errors.unavailable(f"the governor failed ({errors.shown(error)}); see vLLM's log").as_wire()}
    try:
        return json.dumps(reply, allow_nan=False, default=_as_builtin)
    except Exception as error:
        why = f"the governor's answer cannot be sent ({errors.shown(error)}); see vLLM's log"
        return json.dumps({"error": errors.unavailable(why).as_wire()})


def _governor_of(engine_core: Any) -> Governor:
    """This engine core's governor; a new one, with a new boot_id, if its scheduler was replaced."""
    governor = vars(engine_core).get(_ATTRIBUTE)
    if not isinstance(governor, Governor) or governor.scheduler is not engine_core.scheduler:
        index = int(getattr(engine_core, "engine_index", 0))
        governor = Governor(engine_core.scheduler, engine_core.vllm_config, index)
        setattr(engine_core, _ATTRIBUTE, governor)
    governor.ask_workers = getattr(engine_core, "collective_rpc", None)
    return governor


def _refuse_when_late(payload: Mapping[str, Any], clock: Clock) -> None:
    """Refuse a call whose caller has given up by now: it was told that nothing changed, and that has to stay true."""
    if deadline.passed(payload.get("deadline"), clock()):
        raise errors.unavailable("the call reached the engine core too late; nothing was changed")


def _as_builtin(value: Any) -> Any:
    """A NumPy or torch scalar as what it holds; anything else is a mistake of ours and is said to be one."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no built-in type")
