"""What is asked of the event stream.

Belongs here: that. Never: an event's data.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from controller.api.models.base import TEXT, Asked, Flag, Text
from controller.operations.events import EventKind

MOST_ID = 64


class EventsAsked(Asked):
    """Which events: all kinds without `kind`, from now on without a last event id."""

    last_event_id: Annotated[str, StringConstraints(max_length=MOST_ID, pattern=TEXT)] | None = None
    """Go on after this one, as the header Last-Event-ID, which counts before it."""
    kind: Annotated[list[EventKind], Field(max_length=32, default_factory=list)]
    follow: Flag = True
    """false: only what is kept, then the answer ends."""


class FileAsked(Asked):
    """One of the dashboard's files."""

    path: Text
