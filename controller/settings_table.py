"""What every table of the settings is.

Belongs here: the base. Never: a table.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A TOML table: frozen, no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
