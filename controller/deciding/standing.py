"""Which mode is in force, and what the engine is to go back to when this daemon dies.

Belongs here: what stands over the configured mode, in which order. Never: what a mode does (policies/registry.py,
policies/guards).
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.acting.rollback import Rollback
from controller.objectives.timetable import Window
from controller.settings import Settings
from domain.decision import Mode


def mode_in_force(configured: Mode, window: Window | None, rollback: Rollback | None, held_by: str | None) -> Mode:
    """A rollback goes before a maintenance window, that before what is configured. An engine that another daemon
    steers (`held_by`) is only observed, whatever these say.
    """
    mode = configured if window is None else Mode.PAUSED
    mode = mode if rollback is None else Mode.STATIC
    return mode if held_by is None or mode is Mode.PAUSED else Mode.OBSERVE


def fallback(settings: Settings, rollback: Rollback | None) -> Mapping[str, float]:
    """What a rollback or mode `static` holds, else the start-up values."""
    if rollback is not None and not rollback.leaving:
        return rollback.values
    return settings.policies.static.values if settings.mode is Mode.STATIC else {}
