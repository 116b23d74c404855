"""Operations over the rig of tests/loop_rig.py, as controller/app.py builds them."""

from __future__ import annotations

from pathlib import Path

from controller.operations.application import Operations
from controller.operations.audit import Caller
from controller.settings import Settings
from store.history import History
from store.writes import AddAction
from tests.loop_rig import Rig
from tests.writers import written


def ada() -> Caller:
    """Somebody who asks for something, once."""
    return Caller("ada")


async def nothing_more(_before: Settings, _after: Settings) -> None:
    """Nothing beside the loop uses the settings here."""


def operations(rig: Rig, file: Path | None = None) -> Operations:
    """Over the rig's loop and history."""
    return Operations(
        rig.loop,
        History(rig.writer.url),
        rig.nvml,
        lambda action: rig.writer.put(AddAction(action)),
        file,
        nothing_more,
    )


async def restarted(rig: Rig, file: Path | None = None, *, answers: bool = True, **settings: object) -> Operations:
    """The daemon ends and begins again: another loop, the same history, the same engine. `answers`: the history does,
    however long that takes.
    """
    if answers:
        await written(rig.writer)
    await rig.loop.close()
    await rig.loop.alerting.close()
    rig.build(**settings)
    await rig.loop.restore()
    made = operations(rig, file)
    await made.restore()
    while answers and not made.run_time.known:
        await rig.loop.tick()
    return made


async def audited(rig: Rig) -> list[tuple[str, str, str, str]]:
    """Actor, action, target and result of each entry, oldest first."""
    await written(rig.writer)
    return [(one.actor, one.action, one.target, one.result) for one in await rig.history.audit.actions()]
