"""`vllm-governor init`: every key with its meaning, what was found, and nothing overwritten."""

from __future__ import annotations

import asyncio
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import BaseModel
from typer.testing import CliRunner, Result

from controller.__main__ import app
from controller.cli import field_docs
from controller.cli.init_objectives import suggest
from controller.settings import Settings
from domain.errors import SettingsError
from domain.histogram import Histogram
from domain.readings.vllm import VllmReading
from domain.slo import Latency
from tests.fake_engine import FakeEngine

NOWHERE = ("--engine", "http://127.0.0.1:9", "--prometheus", "http://127.0.0.1:9")
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, float("inf"))


def histogram(*counts: float) -> Histogram:
    """Samples by bucket."""
    sums = [sum(counts[: place + 1]) for place in range(len(counts))]
    return Histogram(BOUNDS, tuple(sums), 1.0)


QUICK = histogram(1000, 0, 0, 0, 0, 0, 0, 0)
SLOW = histogram(0, 0, 0, 0, 0, 1000, 0, 0)
MIDDLE = histogram(0, 0, 1000, 0, 0, 0, 0, 0)


def keys(table: type[BaseModel], prefix: str = "") -> Iterator[tuple[type[BaseModel], str, str]]:
    """Each plain key of a table and of those in it."""
    for key, field in table.model_fields.items():
        inner = field_docs.nested(field.annotation)
        dotted = f"{prefix}.{key}" if prefix else key
        if inner is not None:
            yield from keys(inner, dotted)
        else:
            yield table, key, dotted


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


def test_where_nothing_is_there_it_says_so_and_the_file_still_starts_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "governor.toml"
    done = run(str(path), *NOWHERE)
    assert done.exit_code == 0, done.output
    assert "Engine: none was seen at http://127.0.0.1:9" in done.output
    assert "Prometheus: none was seen." in done.output
    settings = Settings(**tomllib.loads(path.read_text()))
    assert (settings.mode, settings.engine.url) == ("observe", "http://127.0.0.1:9")
    expected = Settings().model_dump() | {"mode": settings.mode, "engine": settings.engine.model_dump()}
    assert settings.model_dump() == expected, "all else is as without a file"


def test_every_key_of_every_table_is_in_it() -> None:
    text = run("-", *NOWHERE).output
    lines = {line.lstrip("# ").partition(" ")[0] for line in text.splitlines()}
    headers = {line.lstrip("#").strip("[]") for line in text.splitlines() if line.lstrip("#").startswith("[")}
    for _, key, dotted in keys(Settings):
        assert key in lines or dotted in headers, dotted


def test_every_key_of_the_daemons_own_tables_says_what_it_means() -> None:
    """Those of the policies have their own rule: their names say it, or a description does."""
    for table, key, dotted in keys(Settings):
        if dotted.startswith(("policies.", "guards.", "outcomes.", "slo.", "alerts.")):
            continue
        said = field_docs.meaning(table, key) or field_docs.table_meaning(table)
        assert said, dotted


def test_it_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "governor.toml"
    path.write_text("mine")
    done = run(str(path), *NOWHERE)
    assert isinstance(done.exception, SettingsError)
    assert "it is there already" in str(done.exception)
    assert path.read_text() == "mine"


def test_it_makes_the_daemons_token_for_its_owner_alone_and_keeps_one_that_is_there(tmp_path: Path) -> None:
    token = tmp_path / "token"
    for name in ("a.toml", "b.toml"):
        done = run(str(tmp_path / name), *NOWHERE, "--api-token-file", str(token))
        assert done.exit_code == 0, done.output
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text().strip()) > 30
    assert tomllib.loads((tmp_path / "b.toml").read_text())["api"]["token_file"] == str(token)
    token.write_text("")
    assert "it is empty" in str(run(str(tmp_path / "c.toml"), *NOWHERE, "--api-token-file", str(token)).exception)


def test_a_token_file_that_cannot_be_used_is_named_with_its_option_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "governor.toml"
    for name, why in (("gone", "No such file or directory"), (".", "Is a directory")):
        done = run(str(path), *NOWHERE, "--engine-token-file", str(tmp_path / name))
        assert isinstance(done.exception, SettingsError)
        assert str(done.exception).startswith(f"cannot read --engine-token-file {tmp_path / name}: {why}; ")
    assert not path.exists()


async def test_what_is_there_is_written_into_it(tmp_path: Path) -> None:
    engine, prometheus = FakeEngine(), TestServer(_prometheus())
    await engine.server.start_server()
    await prometheus.start_server()
    path = tmp_path / "governor.toml"
    url = engine.url
    asked = ("--engine", url, "--prometheus", str(prometheus.make_url("")))
    done = await asyncio.to_thread(run, str(path), *asked)
    await engine.server.close()
    await prometheus.close()
    assert done.exit_code == 0, done.output
    assert "Plugin: 0.1.0; the engine was started with max_num_seqs 64." in done.output
    found = tomllib.loads(path.read_text())
    assert found["engine"]["url"] == url
    assert found["prometheus"]["vllm_selector"] == 'job="vllm",instance="gpu1:8000"'


def _prometheus() -> web.Application:
    async def built(_request: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": {"version": "2.42.0"}})

    async def query(_request: web.Request) -> web.Response:
        labels = {"__name__": "vllm:num_requests_running", "job": "vllm", "instance": "gpu1:8000", "engine": "0"}
        rows = [{"metric": labels}, {"metric": labels | {"engine": "1"}}]
        return web.json_response({"status": "success", "data": {"result": rows}})

    made = web.Application()
    made.router.add_get("/api/v1/status/buildinfo", built)
    made.router.add_get("/api/v1/query", query)
    return made


@pytest.mark.parametrize(
    ("latencies", "proposed"),
    [
        ({Latency.QUEUE: QUICK, Latency.TTFT: MIDDLE, Latency.ITL: QUICK}, {Latency.TTFT: 0.25, Latency.ITL: 0.025}),
        ({Latency.QUEUE: SLOW, Latency.TTFT: SLOW, Latency.ITL: QUICK}, {Latency.ITL: 0.025}),
        ({Latency.QUEUE: QUICK, Latency.TTFT: histogram(5, 0, 0, 0, 0, 0, 0, 0)}, {}),
        ({}, {}),
    ],
)
def test_objectives_are_proposed_from_what_was_served_and_of_inter_token_latency_alone_where_requests_waited(
    latencies: Mapping[Latency, Histogram], proposed: Mapping[Latency, float]
) -> None:
    made = suggest(VllmReading(latencies=latencies))
    assert {slo.latency: slo.bound_s for slo in made.slos} == proposed
    assert ("Proposed from" if proposed else "served too little") in made.why


def test_without_an_engine_no_objective_is_proposed() -> None:
    assert suggest(None).slos == ()


def test_bounds_and_choices_are_said_as_the_classes_hold_them() -> None:
    fields: Mapping[str, Any] = Settings.model_fields
    assert field_docs.limits(fields["mode"]) == "one of auto, observe, static, manual, paused"
    assert field_docs.limits(fields["tick_s"]) == "at least 0.2, at most 60"
