"""GET /api/v1/settings and POST /api/v1/settings/reload.

Belongs here: these calls. Never: reading the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.steering import ReloadedOut, SettingsOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind


def settings_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""

    async def show(_call: Call[None, None]) -> SettingsOut:
        return SettingsOut.model_validate(operations.reload.now())

    async def reload(call: Call[None, None]) -> ReloadedOut:
        return ReloadedOut.model_validate(await operations.reload.run(call.who))

    yield Route("GET", "/api/v1/settings", Access.READ, show, "every setting in force", SettingsOut)
    yield Route(
        "POST",
        "/api/v1/settings/reload",
        Access.ADMIN,
        reload,
        "read the settings file again",
        ReloadedOut,
        problems=(Kind.INVALID, Kind.CONFLICT),
    )
