"""deploy/grafana/dashboard.json on a real Prometheus that scrapes a daemon with a GPU (scripted) and a real vLLM under
load: each query is taken, and those of what there is have series with every label that their legend names.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.emulated_nvml.build import NoLibrary, build
from bench.emulated_nvml.cards import card
from bench.emulated_nvml.script import VARIABLE, Machine
from bench.load import Load
from bench.ports import free_port
from tests.e2e.prometheus_server import PrometheusServer
from tests.e2e.rig import LOAD, Rig
from tests.grafana import Query, queries
from tests.programs import without
from tests.waiting import until

QUIET = {
    "Alerts A": "an alert",
    "Alerts": "an alert",
    "Refused by the engine": "a change that the engine refused",
    "Decided, not carried out": "a change that was held back",
    "Requests a second B": "a Prometheus that the daemon asks",
    "What is told to receivers A": "a receiver",
    "What is told to receivers B": "a receiver",
    "GPU utilisation by card B": "a driver that tells the SMs' activity",
    "Another boot of the engine": "a moment just after one",
}
"""Queries that may answer nothing here, and what is missing."""


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(build().parent))
    except NoLibrary as why:
        without(str(why))
    Machine([card("Scripted GPU", "GPU-5c000000-0000-0000-0000-000000000000", 80)]).write(tmp_path / "nvml")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nvml"))


@pytest.mark.usefixtures("gpu")
async def test_every_query_of_the_dashboard_is_answered_and_what_there_is_has_its_labels(
    rig: Rig, tmp_path: Path
) -> None:
    api_port, port = free_port(), free_port()
    node, engine = f"127.0.0.1:{api_port}", rig.server.url.removeprefix("http://")
    values = {"node": node, "engine": engine, "percentile": "50", "knob": "max_num_seqs"}
    values |= {"per_kwh": "0.8", "per_gpu_hour": "12"}
    objective = {"e2e_request_latency": {"percentile": 95, "bound_s": 30.0}}
    async with (
        PrometheusServer(tmp_path / "prometheus", port, {"vllm": engine, "vllm-governor": node}) as prometheus,
        Load(rig.server.url, "tiny", LOAD),
    ):
        rig.daemon.start(mode="static", api={"port": api_port}, slo=objective)

        async def decided() -> bool:
            return bool(await prometheus.rows('vllm_governor_decisions_total{status="applied", knob="max_num_seqs"}'))

        await until("Prometheus holds a decision", decided)
        rig.daemon.configure(mode="auto", api={"port": api_port}, slo=objective)
        left = {query.where: query for query in queries()}

        async def all_answered() -> bool:
            for query in list(left.values()):
                if await answered(prometheus, query, values):
                    del left[query.where]
            return left.keys() <= QUIET.keys()

        try:
            await until("Prometheus answers", all_answered)
        finally:
            print("no series:", {where: query.sent(values) for where, query in left.items()})


async def answered(prometheus: PrometheusServer, query: Query, values: dict[str, str]) -> bool:
    rows = await prometheus.rows(query.sent(values))
    named = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
    for row in rows:
        assert named <= row["metric"].keys(), (query, row)
    return bool(rows)
