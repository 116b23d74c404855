"""All knobs of one engine core taken together: read, validated and set as one.

Here: joint validation, all-or-none, switching a failed knob off. Never here: who may change what and when (generation,
lease), or a particular knob.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from . import errors
from .knobs import build_knobs
from .knobs.api_side import ApiSideKnob
from .knobs.base import Engine, Knob, OffKnob, Value

Report = Callable[[str, str], None]
"""Takes the name of a knob that was switched off, and why."""


class KnobSet:
    """The knobs of one engine core."""

    def __init__(self, engine: Engine, report: Report) -> None:
        self._engine = engine
        self._report = report
        self._knobs = build_knobs(engine)

    def describe(self) -> dict[str, dict[str, Any]]:
        """Every knob as docs/rpc.md shows it."""
        plan = self.values()
        running = self._engine.running
        return {name: self._describe(knob, plan, running) for name, knob in self._knobs.items()}

    def values(self) -> dict[str, Value]:
        """The values in force, of every knob that is not off. A knob that cannot be read any more is switched off."""
        values: dict[str, Value] = {}
        for name, knob in self._live().items():
            try:
                values[name] = knob.read()
            except Exception as error:
                self.switch_off(name, f"it cannot be read ({errors.shown(error)})")
        return values

    def startup(self) -> dict[str, Value]:
        """The start-up values, of every knob that is not off."""
        return {name: knob.startup for name, knob in self._live().items()}

    def check(self, wanted: Mapping[str, object]) -> dict[str, Value]:
        """The wanted values, typed, if together with the values in force they make a state that is within bounds."""
        typed = self._check_types(wanted)
        before = self.values()
        self._check_bounds(typed, {**before, **typed}, self._engine.running)
        self._check_others(typed, before)
        return typed

    def check_fallback(self, wanted: Mapping[str, object]) -> dict[str, Value]:
        """The wanted values, typed, if together with the start-up values of the rest they are within bounds.

        How many requests will be running when the lease runs out is not known now; knobs see to that as they are set.
        """
        typed = self._check_types(wanted)
        self._check_bounds(typed, {**self.startup(), **typed}, running=0)
        return typed

    def apply(self, values: Mapping[str, Value]) -> None:
        """Set checked values, all or none.

        A knob that fails is switched off and the others are put back; `unsupported` is raised.
        """
        before = self.values()
        for name, value in values.items():
            failed = self._try_apply(name, value)
            if failed is not None:
                self.apply_each({key: before[key] for key in values if key in before and key != name})
                raise errors.unsupported(name, failed)

    def apply_each(self, values: Mapping[str, Value]) -> None:
        """Set checked values, each on its own: one that fails is switched off and the others go on."""
        for name, value in values.items():
            self._try_apply(name, value)

    def wanted(self, values: Mapping[str, Value]) -> dict[str, int | None]:
        """Of these values those that API processes put in force, as they are told: None is "as you were started"."""
        live = self._live()
        return {
            name: knob.wish(values[name])
            for name, knob in live.items()
            if isinstance(knob, ApiSideKnob) and name in values
        }

    def drop_failed(self) -> None:
        """Switch off the knobs that an API process could not set."""
        for name, knob in tuple(self._knobs.items()):
            if isinstance(knob, ApiSideKnob) and knob.failed is not None:
                self.switch_off(name, knob.failed)

    def switch_off(self, name: str, why: str) -> None:
        """Take a knob out of use, back at its start-up value, and report it."""
        knob = self._knobs.get(name)
        if knob is None or isinstance(knob, OffKnob):
            return
        try:
            knob.release()
        except Exception as error:
            why += f"; nor can it be put back to its start-up value ({errors.shown(error)})"
        self._knobs[name] = OffKnob(name, why)
        self._report(name, why)
        self._lift_what_is_too_low()

    def _lift_what_is_too_low(self) -> None:
        """A knob that went back to its start-up value may need another to be higher: a cap, the budget."""
        plan, running = {**self.startup(), **self.values()}, self._engine.running
        for name, knob in self._live().items():
            bounds, now = knob.bounds(plan, running), plan[name]
            if now is not None and not bounds.allow(now) and now < bounds.low:
                self._try_apply(name, knob.startup)

    def part_failed(self, part: str, why: str) -> bool:
        """Take every knob out of use that lives by a part of the schedule() hook. Whether there was one."""
        names = [name for name, knob in self._live().items() if knob.part == part]
        for name in names:
            self.switch_off(name, why)
        return bool(names)

    def _try_apply(self, name: str, value: Value) -> str | None:
        """Set one knob; what went wrong, if something did."""
        knob = self._live().get(name)
        if knob is None:
            return "it was switched off"
        try:
            knob.apply(value)
        except Exception as error:
            why = f"it cannot be set ({errors.shown(error)})"
            self.switch_off(name, why)
            return why
        return None

    def _live(self) -> dict[str, Knob]:
        return {name: cast(Knob, knob) for name, knob in self._knobs.items() if not knob.support.off}

    def _check_types(self, wanted: Mapping[str, object]) -> dict[str, Value]:
        live = self._live()
        for name in wanted:
            if name not in self._knobs:
                raise errors.unknown_knob(name, list(self._knobs))
            if name not in live:
                raise errors.unsupported(name, self._knobs[name].support.reason or "it is not there")
        return {name: live[name].check_type(value) for name, value in wanted.items()}

    def _check_bounds(self, typed: Mapping[str, Value], plan: Mapping[str, Value], running: int) -> None:
        live = self._live()
        for name, value in typed.items():
            bounds = live[name].bounds(plan, running)
            if value is not None and not bounds.allow(value):
                why = bounds.why_low if value < bounds.low else "the engine was started with that"
                raise errors.out_of_bounds(name, value, bounds.low, bounds.high, why, knob=name)

    def _check_others(self, typed: Mapping[str, Value], before: Mapping[str, Value]) -> None:
        """Refuse a change that would leave a knob it does not name out of bounds.

        Only what this change makes worse counts: a state that was out of bounds before must not stop the cure.
        """
        running = self._engine.running
        for name, knob in self._live().items():
            if name in typed or before.get(name) is None:
                continue
            then = knob.bounds({**before, **typed}, running)
            now = knob.bounds(before, running)
            if not then.allow(before[name]) and then.low > now.low:
                raise errors.GovernorError(
                    "out_of_bounds",
                    f"{name} is {before[name]} and would have to be at least {then.low} beside what the call sets, "
                    f"because {then.why_low}; set {name} in the same call",
                    knob=name,
                    min=then.low,
                    max=then.high,
                )

    def _describe(self, knob: Knob | OffKnob, plan: Mapping[str, Value], running: int) -> dict[str, Any]:
        shape: dict[str, Any] = {"value": None, "startup": None, "min": None, "max": None}
        # values() may have switched it off a moment ago.
        if knob.name in plan and not isinstance(knob, OffKnob):
            bounds = knob.bounds(plan, running)
            shape = {"value": plan[knob.name], "startup": knob.startup, "min": bounds.low, "max": bounds.high}
        return {**shape, "support": knob.support.level, "reason": knob.support.reason}
