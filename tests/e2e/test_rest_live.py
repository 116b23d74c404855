"""The REST API beside a real vLLM: what an operator asks for is what the engine reads, and is told as it happens."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from bench.load import Load
from bench.ports import free_port
from domain.knobs import MAX_NUM_SEQS
from tests.e2e.rig import LOAD, Rig
from tests.waiting import until

TOKEN = "token-of-the-daemon"


class Rest:
    """The daemon as a client sees it."""

    def __init__(self, session: aiohttp.ClientSession, folder: Path) -> None:
        self._session = session
        self._token_file = folder / "daemon.token"
        self._token_file.write_text(TOKEN)
        self.port = free_port()
        self.headers = {"Authorization": f"Bearer {TOKEN}"}

    @property
    def settings(self) -> dict[str, Any]:
        return {"port": self.port, "token_file": str(self._token_file)}

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self._session.request(method, url, json=body, headers=self.headers | headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def steering(self) -> bool:
        """Whether the daemon is up and its engine answers."""
        try:
            status, said = await self("GET", "/api/v1/status")
        except aiohttp.ClientError:
            return False
        return status == 200 and said["engine"]["answers"] and said["ticks"]["fresh"]


async def test_what_an_operator_asks_for_is_what_the_engine_reads(rig: Rig, tmp_path: Path) -> None:
    rest = Rest(rig.session, tmp_path)
    rig.daemon.start(mode="manual", api=rest.settings)
    await until("the daemon steers", rest.steering)

    status, done = await rest("PATCH", "/api/v1/knobs", {"values": {MAX_NUM_SEQS: 24}, "ttl_s": 120})
    assert (status, done["decisions"][MAX_NUM_SEQS]["observed"]) == (200, 24)
    assert await rig.cap() == 24
    status, refused = await rest("PATCH", "/api/v1/knobs", {"values": {MAX_NUM_SEQS: 4096}})
    assert status == 422
    assert "64" in refused["detail"]
    assert await rig.cap() == 24
    status, now = await rest("DELETE", f"/api/v1/knobs/{MAX_NUM_SEQS}/override")
    assert status == 200
    assert [one["override"] for one in now["knobs"] if one["name"] == MAX_NUM_SEQS] == [None]

    status, plan = await rest("GET", "/api/v1/purge?ratio=0.5")
    assert (status, plan["refusal"]) == (200, None)
    key = {"Idempotency-Key": "one-purge"}
    status, purged = await rest("POST", "/api/v1/purge", {"ratio": 0.5}, **key)
    assert status in (200, 409), purged  # a cache that holds nothing has nothing to evict
    status, state = await rest("GET", "/api/v1/status")
    assert (status, state["problems"]) == (200, [])

    actions = (await rest("GET", "/api/v1/audit"))[1]["actions"]
    assert [one["action"] for one in actions][:3] == ["knobs.set", "knobs.set", "knobs.lift"]
    assert actions[1]["result"].startswith("cannot ")


async def test_a_decision_is_told_as_it_is_made_and_leads_to_its_explanation(rig: Rig, tmp_path: Path) -> None:
    rest = Rest(rig.session, tmp_path)
    slo = {"e2e_request_latency": {"percentile": 95, "bound_s": 30.0}}
    rig.daemon.start(api=rest.settings, slo=slo)
    await until("the daemon steers", rest.steering)
    url = f"http://127.0.0.1:{rest.port}/api/v1/events?kind=decision"
    async with (
        Load(rig.server.url, "tiny", LOAD),
        rig.session.get(url, headers=rest.headers) as stream,
        asyncio.timeout(90),
    ):
        told: dict[str, Any] = {}
        async for line in stream.content:
            if line.startswith(b"data: "):
                told = json.loads(line.removeprefix(b"data: "))
                if told["status"] == "applied":
                    break

    async def written() -> bool:
        return (await rest("GET", f"/api/v1/decisions/{told['uid']}"))[0] == 200

    await until("the history has it", written)
    _, explained = await rest("GET", f"/api/v1/decisions/{told['uid']}")
    decision = explained["decision"]
    assert {name: decision[name] for name in ("knob", "requested", "sentence")} == {
        name: told[name] for name in ("knob", "requested", "sentence")
    }
    assert explained["run"]["envelope"][MAX_NUM_SEQS] == 64
    status, page = await rest("GET", "/api/v1/decisions?changes=true&limit=1")
    assert (status, len(page["decisions"])) == (200, 1)
    status, series = await rest("GET", "/api/v1/history?signal=running")
    assert status == 200
    assert len(series["at"]) == len(series["means"]["running"]) == len(series["knobs"][MAX_NUM_SEQS]) > 0
    assert (await rest("GET", "/api/v1/cost"))[0] == (await rest("GET", "/api/v1/outcomes"))[0] == 200


async def test_a_settings_file_that_is_wrong_keeps_the_old_one_and_is_said_until_it_is_right(
    rig: Rig, tmp_path: Path
) -> None:
    rest = Rest(rig.session, tmp_path)
    rig.daemon.start(mode="observe", api=rest.settings)
    await until("the daemon steers", rest.steering)
    right = rig.daemon.config.read_text()
    rig.daemon.config.write_text(right.replace('mode = "observe"', 'mod = "auto"'))
    status, refused = await rest("POST", "/api/v1/settings/reload")
    assert status == 422
    assert "cannot use the setting mod" in refused["detail"]
    assert "did you mean mode?" in refused["detail"]
    _, state = await rest("GET", "/api/v1/status")
    assert state["mode"]["in_force"] == "observe"
    assert [one["what"] for one in state["problems"]] == ["settings"]
    rig.daemon.config.write_text(right.replace('mode = "observe"', 'mode = "manual"'))
    status, done = await rest("POST", "/api/v1/settings/reload")
    assert (status, done["changed"]) == (200, ["mode"])
    _, state = await rest("GET", "/api/v1/status")
    assert (state["mode"]["in_force"], state["problems"]) == ("manual", [])
