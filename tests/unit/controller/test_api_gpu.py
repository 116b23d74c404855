"""Letting go of NVML and taking it again by the two calls, on a scripted driver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from bench.emulated_nvml import cards
from bench.ports import free_port
from controller.api.gpu import gpu_routes
from controller.api.server import ApiServer
from controller.operations.audit import Audit
from controller.operations.events import Events
from controller.operations.gpu import Gpu
from controller.settings import ApiSettings
from domain.audit import Action
from domain.errors import RecoverableError
from store.pending import Receipt
from store.writes import AddAction
from tests.nvml import NvmlRig, scripted_nvml

TOKEN = "a-token"


class Silent:
    """A driver in which a call hangs."""

    absence = None

    async def release(self) -> None:
        raise RecoverableError("cannot read NVML: the driver has not answered for 10 s")

    take = release


@pytest.fixture
async def nvml(tmp_path: Path) -> AsyncIterator[NvmlRig]:
    with scripted_nvml(tmp_path) as library:
        rig = NvmlRig(library)
        rig.show(cards.h100_pcie())
        await rig.sensor.open()
        yield rig
        await rig.sensor.close()


class Served:
    """The two routes, and what they left in the audit."""

    def __init__(self, url: str, session: aiohttp.ClientSession, actions: list[Action]) -> None:
        self.url, self.session, self.actions = url, session, actions

    async def post(self, name: str) -> tuple[int, Any]:
        async with self.session.post(f"{self.url}/api/v1/gpu/{name}") as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def serving(sensor: Any, folder: Path) -> AsyncIterator[Served]:
    (folder / "token").write_text(TOKEN)
    actions: list[Action] = []

    def keep(action: Action) -> Receipt:
        actions.append(action)
        return Receipt(AddAction(action))

    async def settled(receipt: Receipt) -> None:
        receipt.settle(written=True)

    operations: Any = SimpleNamespace(gpu=Gpu(sensor, Audit(keep, settled, Events())))
    api = ApiServer(ApiSettings(port=free_port(), token_file=folder / "token"), gpu_routes(operations))
    await api.start()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        yield Served(f"http://127.0.0.1:{api.port}", session, actions)
    await api.stop()


async def test_an_operator_has_nvml_let_go_of_and_taken_again(nvml: NvmlRig, tmp_path: Path) -> None:
    async with serving(nvml.sensor, tmp_path) as served:
        assert len((await nvml.read()).devices) == 1
        status, said = await served.post("release")
        assert (status, said["released"]) == (200, True)
        assert said["absence"] == nvml.sensor.absence is not None
        assert await nvml.sensor.read() is None
        assert await served.post("take") == (200, {"released": False, "absence": None})
        assert len((await nvml.read()).devices) == 1
        assert [(one.action, one.result) for one in served.actions] == [("gpu.release", "ok"), ("gpu.take", "ok")]


async def test_a_hanging_driver_is_said_and_is_let_go_of_later(tmp_path: Path) -> None:
    async with serving(Silent(), tmp_path) as served:
        status, said = await served.post("release")
    assert status == 503
    assert "has not answered for 10 s" in said["reason"]
    assert said["remedy"] == "NVML is let go of as soon as that call ends"
    assert served.actions[0].result == said["detail"]
