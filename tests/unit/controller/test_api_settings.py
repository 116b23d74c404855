"""The settings over HTTP: all of them, and no secret among them."""

from __future__ import annotations

from pathlib import Path

from tests.api_rig import ADMIN, READ, serving

SECRETS = ("hook-secret", "pass-word")
LOOP = {
    "alerts": {"receivers": {"chat": {"kind": "slack", "url": "https://hooks.example/services/hook-secret"}}},
    "store": {"url": "postgresql+asyncpg://governor:pass-word@db/history"},
}


async def test_every_setting_is_shown_and_no_secret_of_them(tmp_path: Path) -> None:
    async with serving(tmp_path, LOOP) as api:
        answer = await api.ask("GET", "/api/v1/settings")
        shown = answer.said["settings"]
        assert shown["alerts"]["receivers"]["chat"]["url"] == "***"
        assert shown["store"]["url"] == "postgresql+asyncpg://governor:***@db/history"
        assert shown["tick_s"] == 1.0
        assert shown["policies"]["batch_resize"]["floor"] == 8
        for path in ("/settings", "/status", "/receivers", "/audit", "/openapi.json"):
            text = (await api.ask("GET", f"/api/v1{path}")).body.decode()
            assert not [word for word in (*SECRETS, ADMIN, READ) if word in text], path


async def test_a_reload_says_what_counts_from_now_on_and_a_wrong_file_why_it_does_not(tmp_path: Path) -> None:
    async with serving(tmp_path, {"mode": "manual"}) as api:
        right = api.config.read_text()
        api.config.write_text(right.replace('"manual"', '"observe"'))
        assert (await api.ask("POST", "/api/v1/settings/reload")).said["changed"] == ["mode"]
        assert (await api.ask("GET", "/api/v1/mode")).said["in_force"] == "observe"
        api.config.write_text(right.replace("mode", "modus"))
        refused = await api.ask("POST", "/api/v1/settings/reload")
        assert refused.status == 422
        assert "modus" in refused.said["detail"]
        assert "modus" in (await api.ask("GET", "/api/v1/settings")).said["last_failure"]
        assert (await api.ask("GET", "/api/v1/mode")).said["in_force"] == "observe"
