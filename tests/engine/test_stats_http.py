"""GET stats over HTTP: the query, several engine cores, a vLLM that has nothing to count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm_governor_engine import core, http, plugin, wire
from vllm_governor_engine.auth import TOKEN_FILE_VARIABLE
from vllm_governor_engine.errors import GovernorError
from vllm_governor_engine.fanout import Fanout

STATS = "/governor/v1/stats"


class Client:
    """vLLM's engine core client of 0.32 over cores that live here."""

    def __init__(self, cores: list[Any]) -> None:
        self.cores = cores
        self.core_engines = list(range(len(cores)))

    async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
        return [core.call(engine_core, *args) for engine_core in self.cores]


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Any]], Any]:
    file = tmp_path / "token"
    file.write_text("s3cret")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(file))

    def build(cores: list[Any]) -> Any:
        app, endpoint = FastAPI(), http.GovernorEndpoint()
        endpoint.attach_router(app)
        asyncio.run(endpoint.init_state(None, app.state, None))
        endpoint._fanout = Fanout(Client(cores))
        return TestClient(app, headers={"Authorization": "Bearer s3cret"})

    return build


def test_a_cursor_is_given_back_and_gets_only_what_is_new_of_every_core(web: Any) -> None:
    pytest.importorskip("vllm")
    from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine

    plugin.register()
    with InProcessEngine(EngineSettings()) as one, InProcessEngine(EngineSettings()) as other:
        for index, engine in enumerate((one, other)):
            engine.core.engine_index = index
        client = web([one.core, other.core])
        first = client.get(STATS).json()
        assert first["cursor"] == ",".join(f"{core['boot_id']}:0" for core in first["engines"])
        for number in range(5):
            one.add_request(f"r{number}", range(1, 9), 2)
        other.add_request("r", range(1, 9), 2)
        one.run_until_idle()
        other.run_until_idle()
        second = client.get(STATS, params={"since": first["cursor"]}).json()
        assert [len(core["records"]["rows"]) for core in second["engines"]] == [5, 1]
        assert second["boot_id"] == first["boot_id"]
        third = client.get(STATS, params={"since": second["cursor"]}).json()
        assert [core["records"]["rows"] for core in third["engines"]] == [[], []]
        again = client.get(STATS, params={"since": "3"}).json()
        assert [len(core["records"]["rows"]) for core in again["engines"]] == [2, 1]
        assert [core["engine"] for core in again["engines"]] == [0, 1]


def test_without_anything_to_count_every_group_is_null_and_the_answer_says_why(web: Any) -> None:
    scheduler = SimpleNamespace(
        max_num_active_reqs=8, max_num_scheduled_tokens=64, block_size=16, running=[], waiting=[]
    )
    client = web([SimpleNamespace(scheduler=scheduler, vllm_config=None)])
    reply = client.get(STATS)
    assert reply.status_code == 200
    (engine,) = reply.json()["engines"]
    groups = ("steps", "requests", "blocks", "kv", "padding", "allocator", "records", "tiers")
    assert [engine[name] for name in groups] == [None] * len(groups)
    assert {"stats", "stats.kv", "stats.requests"} <= {entry["part"] for entry in engine["degraded"]}
    assert reply.json()["cursor"] == ""
    assert client.get(STATS).json()["engines"][0]["degraded"] == engine["degraded"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"since=x", "wrong_type"),
        (b"since=-1", "wrong_type"),
        (b"since=1.5", "wrong_type"),
        (b"since=1,,2", "wrong_type"),
        (b"since=%D9%A3", "wrong_type"),
        (b"since=" + b"9" * 5000, "wrong_type"),
        (b"since", "wrong_type"),
        (b"\xff=1", "wrong_type"),
        (b"&" * 50, "wrong_type"),
        (b"allocator=yes", "wrong_type"),
        (b"nothing=1", "unknown_key"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_and_says_where(query: bytes, code: str) -> None:
    with pytest.raises(GovernorError) as caught:
        wire.parse_stats(query)
    assert caught.value.code == code
    assert caught.value.where["key"]
    assert json.dumps(caught.value.as_wire()).isascii()


def test_a_query_is_a_number_for_all_or_one_for_each() -> None:
    assert wire.parse_stats(b"") == {"since": {}, "allocator": False}
    assert wire.parse_stats(b"since=12&allocator=1") == {"since": {"*": 12}, "allocator": True}
    assert wire.parse_stats(b"since=a:1%2Cb:2") == {"since": {"a": 1, "b": 2}, "allocator": False}
    assert wire.parse_stats(b"since=") == {"since": {}, "allocator": False}
