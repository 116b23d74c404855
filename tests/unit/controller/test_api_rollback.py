"""The rollback and its undo over HTTP: what each would do, what it did, and that it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.operations.events import EventKind
from tests.api_rig import ApiRig, serving
from tests.listening import told

ROLLBACK, UNDO = "/api/v1/rollback", "/api/v1/undo"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path) as rig:
        yield rig


async def test_what_a_rollback_will_do_is_said_before_it_is_done_and_is_what_is_done(api: ApiRig) -> None:
    plan = (await api.ask("GET", ROLLBACK)).said
    assert (plan["current"], plan["undo"]) == (None, [])
    (step,) = [one for one in plan["enter"] if one["knob"] == "max_num_seqs"]
    assert step["now"] == api.rig.engine.cap
    done = await api.ask("POST", ROLLBACK, json={"comment": "too slow"})
    assert done.status == 200
    assert done.said["mode"] == "static"
    assert done.said["current"]["values"]["max_num_seqs"] == step["then"] == api.rig.engine.cap
    assert done.said["current"]["survives_restart"]
    assert (await api.actions())[0].detail["comment"] == "too slow"


async def test_an_undo_brings_back_what_was_in_force_before(api: ApiRig) -> None:
    before = api.rig.engine.cap
    await api.ask("POST", ROLLBACK)
    assert api.rig.engine.cap != before
    undone = await api.ask("POST", UNDO)
    assert (undone.status, undone.said["current"], undone.said["mode"]) == (200, None, "auto")
    assert before in [patch["knobs"].get("max_num_seqs") for patch in api.rig.engine.patches[-2:]]


async def test_an_undo_without_a_rollback_is_a_conflict(api: ApiRig) -> None:
    refused = await api.ask("POST", UNDO)
    assert (refused.status, refused.said["type"]) == (409, "urn:vllm-governor:conflict")
    assert refused.said["detail"].startswith("cannot undo")


async def test_a_rollback_is_an_event(api: ApiRig) -> None:
    last = api.operations.events.last_id
    await api.ask("POST", ROLLBACK)
    seen = []
    async for event in told(api.operations.events, last):
        seen.append(event.kind)
        if event.kind is EventKind.ROLLBACK:
            break
    assert EventKind.ROLLBACK in seen


async def test_without_the_token_nothing_happens(api: ApiRig) -> None:
    for token in (None, "", "another"):
        assert (await api.ask("POST", ROLLBACK, token)).status == 401
    assert api.rig.loop.rollback[0] is None
