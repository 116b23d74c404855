"""`vllm-governor alerts` against a daemon's listener, and `rules check` without one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controller.__main__ import app
from domain.errors import DaemonRefused, GovernorError, SettingsError
from tests.alarms import NOWHERE, told_to, watched
from tests.loop_rig import Rig
from tests.told import OtherEnd
from tests.unit.controller.test_api_alerts import Served, serving
from tests.writers import written


def cli(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["alerts", *arguments])


async def run(served: Served, tmp_path: Path, *arguments: str) -> Result:
    """The command calls the daemon that goes on here."""
    token = ["--token-file", str(tmp_path / "token")] if arguments[0] != "list" else []
    return await asyncio.to_thread(cli, *arguments, "--url", served.url, *token)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


async def test_what_fires_is_listed_silenced_and_no_longer_silenced(rig: Rig, tmp_path: Path) -> None:
    end = OtherEnd()
    await end.start()
    async with serving(rig, tmp_path, alerts=told_to(end), engine={"url": NOWHERE}) as served:
        await watched(rig, 30, served.loop)
        listed = await run(served, tmp_path, "list")
        assert listed.exit_code == 0
        for word in ("firing", "critical", "engine_down", "Engine_down_s is", "ops", "webhook"):
            assert word in listed.output
        made = await run(served, tmp_path, "silence", 'alertname="engine_down"', "--for", "90m", "--comment", "moving")
        assert 'alertname="engine_down"' in made.output
        found = json.loads((await run(served, tmp_path, "list", "--json")).output)
        assert found["alerts"][0]["muted"]
        (silence,) = found["silences"]
        assert silence["comment"] == "moving"
        ended = await run(served, tmp_path, "unsilence", str(silence["id"]))
        assert ended.output == f"Silence {silence['id']} has ended.\n"
    await end.server.close()


async def test_a_receiver_is_tried_out_and_its_refusal_is_the_sentence(rig: Rig, tmp_path: Path) -> None:
    end = OtherEnd()
    await end.start()
    async with serving(rig, tmp_path, alerts=told_to(end), engine={"url": NOWHERE}) as served:
        assert (await run(served, tmp_path, "test", "ops")).output == "ops took it.\n"
        end.status, end.body = 403, "no"
        refused = await run(served, tmp_path, "test", "ops")
        assert isinstance(refused.exception, DaemonRefused)
        assert "cannot deliver to ops: HTTP 403" in str(refused.exception)
        await watched(rig, 30, served.loop)
        await written(rig.writer)
        listed = await run(served, tmp_path, "list")
        for word in ("Not delivered", "engine_down", "cannot deliver to ops: HTTP 403"):
            assert word in listed.output
        unknown = await run(served, tmp_path, "test", "nobody")
        assert "there is no receiver 'nobody'" in str(unknown.exception)
    await end.server.close()


@pytest.mark.parametrize("lasting", ["2", "h", "-1h", "2w", "1e9d", ""])
def test_a_length_that_is_none_is_refused_before_the_daemon_is_asked(lasting: str) -> None:
    refused = cli("silence", 'a="b"', "--for", lasting)
    assert isinstance(refused.exception, SettingsError)
    assert str(refused.exception).startswith("cannot use --for")


def checked(tmp_path: Path, text: str, *more: str) -> Result:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return cli("rules", "check", str(path), *more)


def test_rules_are_checked_without_a_daemon_and_shown_as_they_would_count(tmp_path: Path) -> None:
    text = """
[engine]
url = "not looked at"
[policies.alert_thresholds.rules.kv_cache_full]
threshold = 0.8
[policies.alert_thresholds.rules.queue_per_request]
signal = "waiting / max(running, 1)"
comparison = "above"
threshold = 4
for_s = 60
severity = "critical"
[alerts.receivers.ops]
kind = "webhook"
url = "http://alerts.example/hook"
"""
    shown = checked(tmp_path, text)
    assert shown.exit_code == 0
    assert "waiting / max(running, 1) > 4" in shown.output
    assert "kv_cache_usage_ratio > 0.8" in shown.output
    assert "Receivers: ops (webhook)." in shown.output
    rules: list[dict[str, Any]] = json.loads(checked(tmp_path, text, "--json").output)["rules"]
    (mine,) = [rule for rule in rules if rule["name"] == "queue_per_request"]
    assert (mine["severity"], mine["for_s"], mine["threshold"]) == ("critical", 60.0, 4.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[policies.alert_thresholds.rules.x]\nsignal="waitin"\ncomparison="above"\nthreshold=1',
            "nearest is 'waiting'",
        ),
        ("[policies.alert_thresholds.rules.kv_cache_full]\ntreshold=1", "did you mean threshold?"),
        ('[alerts.receivers.ops]\nkind="webhook"\nurl="http://a.example"\nsecre_file="x"', "did you mean secret_file?"),
        ('[alerts.receivers.ops]\nkind="slack"\nurl="http://a.example"\ntemplate="/nowhere.j2"', "/nowhere.j2"),
        ("[alerts]\ngroup_wait_s = -1", "alerts.group_wait_s"),
        ("policies = 3", "policies"),
        ("[alerts", "cannot understand"),
    ],
)
def test_a_fault_is_named_with_its_key_and_the_remedy(tmp_path: Path, text: str, said: str) -> None:
    refused = checked(tmp_path, text)
    assert isinstance(refused.exception, GovernorError)
    assert said in str(refused.exception)


def test_a_secret_address_is_in_no_complaint(tmp_path: Path) -> None:
    refused = checked(tmp_path, '[alerts.receivers.ops]\nkind="webhook"\nurl="ftp://a.example/SECRET"')
    assert isinstance(refused.exception, SettingsError)
    assert "SECRET" not in str(refused.exception)
