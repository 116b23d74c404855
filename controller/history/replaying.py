"""Deciding once more over recorded ticks, with the settings of then or with others.

The engine is not played: every tick shows it as it was. So a replay with other settings says what they would have
wanted at each moment, not what would have come of it. Belongs here: that, tick by tick. Never: comparing, reading the
history.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from controller.deciding.arbiter import Arbiter
from controller.deciding.circumstances import Circumstances
from controller.deciding.order import Decided, Deciding
from controller.history.view_codec import Frame
from domain.decision import Decision, Status
from domain.errors import BadReading
from policies.base import PolicySettings
from policies.guards import GuardSettings
from policies.registry import PoliciesSettings
from policies.static import Static

Tables = Mapping[str, Any]
S = TypeVar("S", bound=PolicySettings)


@dataclass(slots=True)
class Replay:
    """`kind` is the class of the policies' settings, third-party tables included; `tables` the other settings to try,
    laid over the recorded ones.
    """

    kind: type[PoliciesSettings] = PoliciesSettings
    tables: Tables = field(default_factory=dict)
    guards: Tables = field(default_factory=dict)
    _series: tuple[str, int] | None = None
    _arbiter: Arbiter = field(default_factory=lambda: Arbiter(1.0))
    _deciding: Deciding | None = None

    def decide(self, frame: Frame, then: Circumstances) -> Decided:
        """One tick further. Raises BadReading when the settings of then are none to this version."""
        deciding = self._deciding_for(then)
        if then.withdrawn:
            self._arbiter.withdraw()
        self._arbiter.overrides = then.overrides
        return deciding.decide(frame.at, frame.view, then.refuted, (*then.undo, *then.ordered), then.asked)

    def forget_changes(self) -> None:
        """What was just decided is not what the next tick will show: for the guards it was not sent."""
        self._arbiter.withdraw()

    def _deciding_for(self, then: Circumstances) -> Deciding:
        """The guards' memory lasts as long as the daemon's life, the policies' as long as a series."""
        before = self._deciding
        if before is not None and self._series == (then.daemon, then.series):
            return before
        guards = _settings(GuardSettings, then.guards, self.guards)
        if self._series is None or self._series[0] != then.daemon:
            self._arbiter, before = Arbiter(then.tick_s, guards), None
        self._arbiter.tick_s, self._arbiter.settings = then.tick_s, guards
        held = None if then.held is None else (Static(then.held.values, then.held.reason, then.held.why),)
        settings = _settings(self.kind, then.policies, self.tables)
        deciding = self._deciding = Deciding(settings, then.mode, self._arbiter, held)
        if before is not None:
            deciding.adopt(before)
        self._series = then.daemon, then.series
        return deciding


def asked(decisions: list[Decision]) -> dict[str, float | None]:
    """The changes that were to be carried out."""
    return {one.knob: one.requested for one in decisions if one.status is Status.INTENDED}


def overlaid(below: Tables, above: Tables) -> dict[str, Any]:
    """Tables in which `above` wins, key by key."""
    merged = copy.deepcopy(dict(below))
    for name, value in above.items():
        under = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[name] = overlaid(under, value) if both else value  # type: ignore[arg-type]
    return merged


def _settings(kind: type[S], recorded: Tables, tried: Tables) -> S:
    try:
        return kind.model_validate(overlaid(recorded, tried))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise BadReading(
            f"cannot replay with the setting {key} = {fault.get('input')!r}: {fault['msg']}; it was recorded by "
            "another version, or does not go with the recorded ones"
        ) from error
