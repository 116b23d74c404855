"""The knobs over HTTP: versions, overrides and their end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api.conditional import unchanged, wanted
from tests.api_rig import ApiRig, serving

KNOBS, LIFT = "/api/v1/knobs", "/api/v1/knobs/max_num_seqs/override"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path, {"mode": "manual"}) as rig:
        yield rig


async def test_an_override_is_set_read_back_shown_and_lifted(api: ApiRig) -> None:
    done = await api.ask("PATCH", KNOBS, json={"values": {"max_num_seqs": 12}, "ttl_s": 600, "comment": "a test"})
    assert done.status == 200
    assert api.rig.engine.cap == 12
    (knob,) = [one for one in done.said["now"]["knobs"] if one["name"] == "max_num_seqs"]
    assert (knob["value"], knob["override"]["value"], knob["override"]["comment"]) == (12, 12, "a test")
    assert knob["override"]["withheld"] is None
    assert (await api.ask("GET", f"{KNOBS}/max_num_seqs")).said["override"]["value"] == 12
    assert (await api.ask("GET", "/api/v1/status")).said["overrides"][0]["knob"] == "max_num_seqs"
    lifted = await api.ask("DELETE", LIFT)
    assert lifted.status == 200
    assert [one["override"] for one in lifted.said["knobs"] if one["name"] == "max_num_seqs"] == [None]
    assert (await api.ask("DELETE", LIFT)).status in (404, 409)


async def test_a_change_that_rests_on_an_old_version_is_refused_and_changes_nothing(api: ApiRig) -> None:
    version = (await api.ask("GET", KNOBS)).headers["ETag"]
    first = await api.ask("PATCH", KNOBS, json={"values": {"max_num_seqs": 12}}, headers={"If-Match": version})
    assert first.status == 200
    assert first.headers["ETag"] != version
    stale = await api.ask("PATCH", KNOBS, json={"values": {"max_num_seqs": 20}}, headers={"If-Match": version})
    assert (stale.status, stale.said["type"]) == (412, "urn:vllm-governor:stale")
    assert (await api.ask("DELETE", LIFT, headers={"If-Match": version})).status == 412
    assert api.rig.engine.cap == 12
    fresh = {"If-Match": first.headers["ETag"]}
    assert (await api.ask("PATCH", KNOBS, json={"values": {"max_num_seqs": 20}}, headers=fresh)).status == 200
    assert api.rig.engine.cap == 20


async def test_who_has_the_version_already_is_not_sent_it_again(api: ApiRig) -> None:
    version = (await api.ask("GET", KNOBS)).headers["ETag"]
    again = await api.ask("GET", KNOBS, headers={"If-None-Match": version})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", version)


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (None, None),
        ("*", None),
        ('"now"', "now"),
        ('"old"', "old"),
        ('"old", "now"', "now"),
        ('W/"now"', 'W/"now"'),
        ("now", "now"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_change_rests_on_the_version_that_is_current_where_it_is_named(
    header: str | None, version: str | None
) -> None:
    assert wanted(header, "now") == version


@pytest.mark.parametrize(
    ("header", "known"), [(None, False), ("*", True), ('"now"', True), ('W/"now", "a"', True), ("now", False)]
)
def test_a_weak_tag_is_enough_to_know_an_answer(header: str | None, known: bool) -> None:
    assert unchanged(header, "now") is known
