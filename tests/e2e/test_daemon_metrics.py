"""The daemon's own /metrics beside a real vLLM under load: the series are there and agree with the engine and the
history.
"""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families as parse

from bench.load import Load
from bench.ports import free_port
from domain.knobs import MAX_NUM_SEQS
from tests.e2e.conftest import LEASE_S
from tests.e2e.rig import LOAD, Rig
from tests.waiting import until

Labels = dict[str, str]


class Scrape:
    """One answer of the daemon's /metrics."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples = [sample for family in parse(text) for sample in family.samples]

    def all(self, name: str) -> list[tuple[Labels, float]]:
        """Every sample of a series, its name without the daemon's prefix."""
        return [(s.labels, s.value) for s in self._samples if s.name == f"vllm_governor_{name}"]

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample whose labels hold these; None where there is none."""
        found = [value for has, value in self.all(name) if labels.items() <= has.items()]
        assert len(found) <= 1, (name, labels)
        return found[0] if found else None

    def changes(self) -> Counter[tuple[str, str]]:
        """Changes sent to the engine, by outcome and reason."""
        counted: Counter[tuple[str, str]] = Counter()
        for labels, value in self.all("decisions_total"):
            if labels["status"] in ("applied", "partial", "diverged", "failed"):
                counted[labels["status"], labels["reason"]] += int(value)
        return counted


async def test_its_series_agree_with_the_engine_and_the_history(rig: Rig) -> None:
    api = {"port": free_port()}
    slo = {"e2e_request_latency": {"percentile": 95, "bound_s": 300.0}}

    async def scrape() -> Scrape:
        async with rig.session.get(f"http://127.0.0.1:{api['port']}/metrics") as answer:
            assert answer.status == 200
            return Scrape(await answer.text())

    async def static() -> bool:
        return await rig.cap() == 8

    async def grown() -> bool:
        return (await rig.cap() or 0) >= 16

    found: list[Scrape] = []

    async def measured() -> bool:
        found[:] = [seen := await scrape()]
        shown = ("running", "requests_per_second", "kv_cache_usage_ratio", "lease_remaining_seconds")
        return (
            seen.all("mode_info") == [({"mode": "observe"}, 1.0)]
            and (seen.value("knob_observed", knob=MAX_NUM_SEQS, engine="0") or 0) >= 16
            and seen.value("latency_seconds", latency="e2e_request_latency", percentile="95") is not None
            and all(seen.value(name) for name in shown)
        )

    rig.daemon.start(mode="static", api=api, slo=slo)
    async with Load(rig.server.url, "tiny", LOAD):
        await until("the static batch is in force", static)
        rig.daemon.configure(mode="auto", api=api, slo=slo)
        await until("the governor has grown the cap", grown)
        rig.daemon.configure(mode="observe", api=api, slo=slo)  # so that nothing changes between two looks
        await until("a tick has seen and measured the grown engine", measured)
        runtime = await rig.client.runtime()
    await rig.daemon.stop()

    (seen,) = found
    changes = [d for d in rig.decisions("--changes", "--limit", "1000") if d["requested"] is not None]
    assert seen.changes() == Counter((d["status"], d["reason"]) for d in changes)
    assert seen.changes()["applied", "static_batch"] >= 1
    newest = max((d for d in changes if d["knob"] == MAX_NUM_SEQS), key=lambda change: str(change["at"]))
    assert seen.value("knob_requested", knob=MAX_NUM_SEQS) == newest["requested"] == newest["observed"]
    assert seen.value("knob_observed", knob=MAX_NUM_SEQS, engine="0") == newest["observed"]
    assert seen.value("knob_startup", knob=MAX_NUM_SEQS, engine="0") == 64

    assert seen.all("engine_info") == [
        (
            {
                "boot_id": runtime.boot_id,
                "vllm_version": runtime.vllm_version,
                "plugin_version": runtime.plugin_version,
            },
            1.0,
        )
    ]
    assert {labels["source"] for labels, up in seen.all("source_up") if up} >= {"metrics", "runtime"}
    assert 0 < (seen.value("lease_remaining_seconds", engine="0") or 0) <= LEASE_S

    assert 0 < (seen.value("running") or 0) <= newest["observed"]
    assert (seen.value("requests_per_second") or 0) > 0
    assert 0 < (seen.value("kv_cache_usage_ratio") or 0) <= 1
    assert seen.value("objective_bound_seconds", latency="e2e_request_latency") == 300.0
    assert seen.value("objective_over_ratio", latency="e2e_request_latency") == 0.0
    assert seen.value("ticks_failed_total") == 0
    assert seen.value("tick_duration_seconds_count") == seen.value("ticks_total")
    assert "\nprocess_resident_memory_bytes " in seen.text
    assert seen.value("gpu_power_watts") is None or seen.all("device_power_watts")

    for secret in (rig.server.token, str(rig.server.token_file), str(rig.history), rig.server.url):
        assert secret not in seen.text
