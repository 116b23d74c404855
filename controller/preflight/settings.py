"""The table `[check]`.

Belongs here: how often it is looked. Never: the checks' own bounds, which are the seeds'.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.settings_table import Table


class CheckSettings(Table):
    """The daemon's own runs of `vllm-governor check`."""

    interval_s: Annotated[float, Field(ge=60, le=86400)] = 3600.0
    """How often it looks again; a check that was good and no longer is raises an alert."""
