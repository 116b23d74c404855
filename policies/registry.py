"""Which policies run in which mode.

Belongs here: building policies from their settings. Never: their rules.
"""

from __future__ import annotations

from pydantic import Field

from domain.decision import Mode
from policies.base import Policy, PolicySettings
from policies.batch_resize import BatchResize, BatchResizeSettings
from policies.static import Static, StaticSettings


class PoliciesSettings(PolicySettings):
    """One table per policy: `[policies.batch_resize]` and so on."""

    batch_resize: BatchResizeSettings = Field(default_factory=BatchResizeSettings)
    static: StaticSettings = Field(default_factory=StaticSettings)


def build(settings: PoliciesSettings, mode: Mode) -> tuple[Policy, ...]:
    """The policies of `mode`: the fixed batch alone in `static`, none in `manual` and `paused`, else those enabled."""
    if mode is Mode.STATIC:
        return (Static(settings.static),)
    if mode in (Mode.MANUAL, Mode.PAUSED):
        return ()
    return (BatchResize(settings.batch_resize),) if settings.batch_resize.enabled else ()
