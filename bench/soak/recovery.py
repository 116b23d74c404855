"""When the governor is back after a fault: every knob inside policy again.

Belongs here: the definition, and what is still missing. Never: looking, waiting.

Back is the first look after the fault's end at which all of this is so:

- The daemon's last good tick began after that end, is no older than three ticks, saw this boot of the engine, and had
  readings from vLLM's /metrics and from the plugin.
- Every engine core says that a lease is held.
- The policy has judged the cap in that tick (it has not abstained).
- Every knob is where mode auto put it. That is: it reads what this daemon last asked of this boot; or the policy has
  wanted it to stay where it is, at a look since the fault's end; or nobody has asked for anything since and it reads
  what it did before the fault, on the same boot. A knob that fell back to its start-up value is inside policy only by
  the first or the second, unless no policy had ever judged it.
"""

from __future__ import annotations

from bench.soak.look import Look
from domain.knobs import MAX_NUM_SEQS
from domain.snapshot import Source

NEEDED = frozenset({Source.METRICS.value, Source.RUNTIME.value})
FRESH_TICKS = 3.0


class Recovery:
    """Follows one fault from its end on. `before` is the last look before it began, None when there was none."""

    def __init__(self, ended_wall_s: float, before: Look | None, tick_s: float) -> None:
        self._ended_wall_s = ended_wall_s
        self._before = before
        self._tick_s = tick_s
        self._held: set[tuple[str | None, str]] = set()

    def missing(self, look: Look) -> tuple[str, ...]:
        """What is still to come, one clause each; empty: the governor is back."""
        daemon, engine = look.daemon, look.engine
        if daemon is None or engine is None:
            return ("the daemon does not answer" if daemon is None else "the engine does not answer",)
        if daemon.ticked_at is None or daemon.ticked_at < self._ended_wall_s:
            return ("no good tick has begun since the fault ended",)
        faults = []
        if look.wall_s - daemon.ticked_at > FRESH_TICKS * self._tick_s:
            faults.append("the last good tick is old")
        if daemon.boot_id != engine.boot_id:
            faults.append("the daemon has not met this boot of the engine")
        if blind := NEEDED - daemon.up:
            faults.append(f"no reading from {' and '.join(sorted(blind))}")
        if any(core.lease_remaining_s is None for core in engine.cores):
            faults.append("no lease is held")
        if faults:
            return tuple(faults)
        if MAX_NUM_SEQS not in daemon.wanted:
            return ("the policy does not judge the cap yet",)
        self._held |= {
            (engine.boot_id, name) for name, value in look.values.items() if daemon.wanted.get(name) == value
        }
        return tuple(clause for name in sorted(engine.cores[0].knobs) if (clause := self._amiss(look, name)))

    def _amiss(self, look: Look, name: str) -> str | None:
        """Why a knob is outside policy; None: it is inside."""
        engine, daemon = look.engine, look.daemon
        knob = engine.knob(name) if engine is not None else None
        if daemon is None or knob is None:
            return None  # the engine has this knob off
        if knob.disagreeing:
            return f"the engine cores read different values of {name}"
        requested = daemon.requested.get(name)
        if knob.value == requested or (look.boot_id, name) in self._held:
            return None
        if requested is not None:
            return f"{name} reads {knob.value:g}, {requested:g} was requested"
        before = self._before
        if before is None or before.daemon is None:
            return None if knob.value == knob.startup else f"{name} reads {knob.value:g}, which nobody asked for"
        if before.boot_id == look.boot_id and before.values.get(name) == knob.value:
            return None
        governed = name in before.daemon.wanted or name in before.daemon.requested
        if not governed and knob.value == knob.startup:
            return None
        return f"{name} reads {knob.value:g} and the policy has not taken it up again"
