"""What deciding rests on beside the View: mode, settings, what outcomes refuted or want back. Recorded with each View.

Belongs here: these as plain JSON values, and back. Never: deciding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller import __version__
from controller.deciding.order import Deciding
from controller.history.dataclass_json import decode, encode
from domain.decision import Mode, Proposal, Reason
from domain.outcome import Refuted
from policies.guards import Override
from policies.static import Static


@dataclass(frozen=True, slots=True)
class Held:
    """Values that mode static or a rollback holds in place of policies, and with which words."""

    values: Mapping[str, float]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class Circumstances:
    """At one tick. `daemon` and `series` change when the guards' memory and the policies' states began anew."""

    mode: Mode
    daemon: str
    series: int
    tick_s: float
    policies: Mapping[str, Any]
    """`[policies]` as far as it is not the defaults."""
    guards: Mapping[str, Any]
    """`[guards]` likewise."""
    held: Held | None = None
    version: str = __version__
    """Whose rules and defaults those were."""
    refuted: frozenset[Refuted] = frozenset()
    undo: tuple[Proposal, ...] = ()
    asked: str | None = None
    """Who asked from outside for the emergency measures."""
    overrides: tuple[Override, ...] = ()
    """An operator's, as they held at this tick."""
    ordered: tuple[Proposal, ...] = ()
    """What an operator ordered at this tick alone: a purge."""
    withdrawn: bool = False
    """The changes of the tick before were not sent: nothing was tried."""


class Series:
    """Turns what the loop decides with into the context of a Frame. One for the daemon's life."""

    def __init__(self, daemon: str) -> None:
        self._daemon = daemon
        self._count = 0
        self._deciding: Deciding | None = None
        self._settings: dict[str, Any] = {}

    def context(
        self,
        deciding: Deciding,
        refuted: Iterable[Refuted] = (),
        undo: Iterable[Proposal] = (),
        asked: str | None = None,
        ordered: Iterable[Proposal] = (),
    ) -> dict[str, Any]:
        """The context of this tick."""
        if deciding is not self._deciding:
            self._deciding, self._count = deciding, self._count + 1
            self._settings = _settings(deciding)
        context: dict[str, Any] = {
            "mode": deciding.mode.value,
            "daemon": self._daemon,
            "series": self._count,
        } | self._settings
        if deciding.arbiter.withdrew:
            context["withdrawn"] = True
        if proved := sorted(refuted, key=lambda one: (one.knob, one.value)):
            context["refuted"] = [encode(Refuted, one) for one in proved]
        if wanted := [encode(Proposal, one) for one in undo]:
            context["undo"] = wanted
        if asked is not None:
            context["asked"] = asked
        if overrides := [encode(Override, one) for one in deciding.arbiter.overrides]:
            context["overrides"] = overrides
        if orders := [encode(Proposal, one) for one in ordered]:
            context["ordered"] = orders
        return context


def _settings(deciding: Deciding) -> dict[str, Any]:
    static = [policy for policy in deciding.policies if isinstance(policy, Static)]
    return {
        "tick_s": deciding.arbiter.tick_s,
        "policies": deciding.settings.model_dump(exclude_defaults=True),  # pydantic's JSON has no infinity
        "guards": deciding.arbiter.settings.model_dump(exclude_defaults=True),
        "held": encode(Held, Held(static[0].values, static[0].reason, static[0].why)) if static else None,
        "version": __version__,
    }


def read(context: Mapping[str, Any]) -> Circumstances:
    """The way back. Raises KeyError or ValueError for a context that this version does not know."""
    return Circumstances(
        mode=Mode(context["mode"]),
        daemon=context["daemon"],
        series=context["series"],
        tick_s=context["tick_s"],
        policies=context["policies"],
        guards=context["guards"],
        held=None if context["held"] is None else decode(Held, context["held"]),
        version=context["version"],
        refuted=frozenset(decode(Refuted, one) for one in context.get("refuted", ())),
        undo=tuple(decode(Proposal, one) for one in context.get("undo", ())),
        asked=context.get("asked"),
        overrides=tuple(decode(Override, one) for one in context.get("overrides", ())),
        ordered=tuple(decode(Proposal, one) for one in context.get("ordered", ())),
        withdrawn=context.get("withdrawn", False),
    )
