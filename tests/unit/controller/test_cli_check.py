"""`vllm-governor check`: no daemon, an exit status, one document."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema_rs
import pytest
from typer.testing import CliRunner, Result

from controller.__main__ import app
from controller.api.models.check import CheckOut
from controller.cli import check as command
from controller.preflight.checks import CHECKS
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Report, State
from controller.preflight.result import Result as Checked
from domain.errors import SettingsError

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(f'[engine]\nurl = "http://127.0.0.1:9"\n[store]\nurl = "{tmp_path}/history.db"\n')
    return path


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ((PASS, NOT_APPLICABLE, UNKNOWN), 0),
        ((PASS, WARN, UNKNOWN), 1),
        ((FAIL, WARN, PASS), 2),
    ],
)
def test_the_exit_status_is_the_worst_state(
    monkeypatch: pytest.MonkeyPatch, states: tuple[State, ...], status: int
) -> None:
    async def look(*_asked: object) -> Report:
        return Report(NOW, tuple(Checked(f"c{n}", one, "why [x]", "cure", "", "") for n, one in enumerate(states)))

    monkeypatch.setattr(command, "_look", look)
    done = run()
    assert done.exit_code == status
    assert "why [x]" in done.stdout
    assert "c0: cure" in done.stdout


def test_without_a_daemon_and_an_engine_every_check_has_a_row(config: Path) -> None:
    done = run("--config", str(config))
    assert done.exit_code == 2, "an engine that does not answer is a failure"
    assert [check.name for check in CHECKS if f" {check.name} " not in done.stdout] == []


def test_the_json_is_the_document_of_the_rest_api(config: Path) -> None:
    done = run("--config", str(config), "--json")
    document = json.loads(done.stdout)
    jsonschema_rs.validator_for(CheckOut.model_json_schema(mode="serialization")).validate(document)
    states = {one["name"]: one["state"] for one in document["results"]}
    assert states.keys() == {check.name for check in CHECKS}
    assert states["metrics"] == "fail"
    assert states["plugin"] == "unknown"


def test_only_those_named_are_run(config: Path) -> None:
    done = run("--config", str(config), "--json", "--only", "real_time", "--only", "disk")
    assert [one["name"] for one in json.loads(done.stdout)["results"]] == ["disk", "real_time"]


def test_a_name_that_is_none_is_refused_with_the_nearest() -> None:
    done = run("--only", "numa_balance")
    assert isinstance(done.exception, SettingsError)
    assert str(done.exception) == (
        "cannot check numa_balance: there is no check of that name; did you mean numa_balancing?"
    )
