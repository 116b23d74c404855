"""GET and POST /api/v1/check."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.preflight.checks import CHECKS
from tests.api_rig import ADMIN, READ, serving


async def test_before_the_first_run_nothing_is_known_and_a_post_runs_every_check(tmp_path: Path) -> None:
    async with serving(tmp_path, read_token=True) as api:
        before = (await api.ask("GET", "/api/v1/check", READ)).said
        assert before == {"at": None, "state": "unknown", "worse": [], "results": []}
        ran = await api.ask("POST", "/api/v1/check")
        assert ran.status == 200
        assert [one["name"] for one in ran.said["results"]] == [check.name for check in CHECKS]
        assert all(one["why"] for one in ran.said["results"])
        assert (await api.ask("GET", "/api/v1/check", READ)).said == ran.said
        assert [action.action for action in await api.actions()] == ["check.run"]


@pytest.mark.parametrize(("method", "token", "status"), [("POST", READ, 403), ("POST", None, 401), ("GET", None, 401)])
async def test_only_an_admin_runs_them_and_only_a_reader_sees_them(
    tmp_path: Path, method: str, token: str | None, status: int
) -> None:
    async with serving(tmp_path, read_token=True) as api:
        assert (await api.ask(method, "/api/v1/check", token)).status == status
        assert (await api.ask("GET", "/api/v1/check", ADMIN)).said["at"] is None
