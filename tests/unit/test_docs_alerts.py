"""docs/alerts.md: its examples work as they stand.

Belongs here: running them. Never: what alerts do.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts.receivers import Delivered, Request
from alerts.settings import AlertsSettings, Kind, ReceiverSettings
from policies.alert_thresholds import RULES
from tests.programs import need
from tests.told import OtherEnd, notification, receiver

TEXT = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")
SECRET = "a secret without spaces".replace(" ", "-")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_every_kind_of_receiver_has_an_example_and_every_key_a_line() -> None:
    examples = [one for block in blocks("toml") for one in tomllib.loads(block)["alerts"].get("receivers", {}).values()]
    assert {one["kind"] for one in examples} == set(Kind)
    told = {name for row in re.findall(r"^\| (`[^|]+) \|", TEXT, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert ReceiverSettings.model_fields.keys() <= told


def test_every_default_that_it_tells_is_the_default() -> None:
    given = tomllib.loads(next(block for block in blocks("toml") if "group_wait_s" in block))["alerts"]
    defaults = AlertsSettings()
    assert {key: value for key, value in given.items() if key != "group_by"} == {
        key: getattr(defaults, key) for key in given if key != "group_by"
    }
    assert tuple(given["group_by"]) == defaults.group_by


def test_every_rule_has_the_place_that_its_alert_leads_to() -> None:
    headings = set(re.findall(r"^### (\w+)$", TEXT, re.MULTILINE))
    led = [rule.annotations["runbook_url"] for rule in RULES]
    assert {url.removeprefix("docs/alerts.md#") for url in led} <= headings


@pytest.mark.parametrize("block", blocks("yaml"))
def test_alertmanager_takes_the_configuration_for_it(block: str, tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yml"
    file.write_text(block)
    done = subprocess.run(
        [need("amtool"), "check-config", file], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr


async def test_the_example_in_python_knows_a_request_of_ours_from_any_other(tmp_path: Path) -> None:
    (example,) = blocks("python")
    named: dict[str, Any] = {}
    exec(example, named)
    is_genuine = named["is_genuine"]
    (tmp_path / "secret").write_text(SECRET)
    end = OtherEnd()
    await end.start()
    try:
        ours = receiver("webhook", url=end.url, secret_file=tmp_path / "secret")
        now = datetime.now(UTC)
        assert await end.told(ours, now=now) == Delivered()
        headers, body = end.got_headers[-1], end.got[-1]
        assert is_genuine(headers, body, SECRET)
        assert not is_genuine(headers, body + b" ", SECRET)
        assert not is_genuine(headers, body, f"{SECRET}2")
        later = dict(headers) | {"X-Governor-Timestamp": str(int(headers["X-Governor-Timestamp"]) + 1)}
        assert not is_genuine(later, body, SECRET)
        assert not is_genuine({}, body, SECRET)
        assert await end.told(ours, now=now - timedelta(minutes=10)) == Delivered()
        assert not is_genuine(end.got_headers[-1], end.got[-1], SECRET)
    finally:
        await end.server.close()


@pytest.mark.parametrize("block", blocks("jinja"))
def test_the_template_in_it_makes_a_message_of_every_chat(block: str, tmp_path: Path) -> None:
    (tmp_path / "own.j2").write_text(block)
    for kind in ("slack", "dingtalk", "feishu", "wecom"):
        made: Request = receiver(kind, url="https://chat.example/hook", template=tmp_path / "own.j2").request(
            notification(), datetime.now(UTC)
        )
        assert "0.97 is above 0.95" in made.body.decode()
