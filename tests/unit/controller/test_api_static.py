"""The dashboard's files, as they come."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api.static import FOLDER, POLICY, Files
from tests.api_rig import ApiRig, serving


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path) as rig:
        yield rig


async def test_the_page_is_served_without_a_token_and_may_load_nothing_from_elsewhere(api: ApiRig) -> None:
    answer = await api.ask("GET", "/", None)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert "default-src 'none'" in POLICY
    assert "script-src 'self'" in POLICY


async def test_every_file_that_is_installed_is_served_as_what_it_is(api: ApiRig) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
    for path in FOLDER.rglob("*"):
        if path.is_file():
            answer = await api.ask("GET", f"/static/{path.relative_to(FOLDER)}", None)
            assert (answer.status, answer.body) == (200, path.read_bytes())
            assert answer.headers["Content-Type"].split(";")[0] == kinds.get(path.suffix, "application/json")


async def test_the_chart_library_comes_out_of_its_package_once_and_packed(api: ApiRig) -> None:
    path = f"{api.url}/static/plotly.min.js"
    async with api.session.get(path, headers={"Accept-Encoding": "gzip"}, auto_decompress=False) as answer:
        packed = await answer.read()
        assert answer.headers["Content-Encoding"] == "gzip"
        tag = answer.headers["ETag"]
    plain = await api.ask("GET", "/static/plotly.min.js", None, headers={"Accept-Encoding": "identity"})
    assert gzip.decompress(packed) == plain.body
    assert len(packed) < len(plain.body) / 2
    again = await api.ask("GET", "/static/plotly.min.js", None, headers={"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")


async def test_no_path_leads_out_of_the_folder(api: ApiRig) -> None:
    for name in ("none.js", "../static.py", "%2e%2e/%2e%2e/api/static.py", "%2Fetc%2Fpasswd", "js"):
        answer = await api.ask("GET", f"/static/{name}", None)
        assert answer.status == 404, name
        assert b"from __future__" not in answer.body


async def test_a_file_that_came_after_the_start_is_not_served(tmp_path: Path) -> None:
    files = Files(tmp_path)
    (tmp_path / "late.js").write_text("")
    assert "late.js" not in files._paths
