"""The closed loop: a real Prometheus scrapes a real vLLM and the daemon, and the daemon asks that Prometheus."""

from __future__ import annotations

import asyncio
import math
import re
import statistics
from collections import deque
from pathlib import Path

import pytest

from bench.load import Load, LoadOptions
from bench.ports import free_port
from controller.sensors.prometheus import PrometheusSensor
from controller.settings import PrometheusSettings
from domain.histogram import Histogram
from tests.e2e.prometheus_server import PrometheusServer
from tests.e2e.rig import Rig
from tests.e2e.test_daemon_metrics import Scrape
from tests.waiting import until

#: About thirty requests a second, so that the daemon reads latencies over half a minute and an edge counts little.
STEADY = LoadOptions(clients=3, max_tokens=48, limit_s=280, seed=41)
MOMENTS = 9
LATENCIES = ("e2e_request_latency", "time_to_first_token")
LONG = ("requests_per_second_mean_1h", "requests_per_second_peak_1h", "e2e_p99_1h_seconds")


async def compared_rates(scrape: Scrape, prometheus: PrometheusServer) -> tuple[float, float] | None:
    """The daemon's request rate, and PromQL's over the same ten seconds; None while one of them has none."""
    ours = scrape.value("requests_per_second")
    theirs = await prometheus.number(
        'sum(rate(vllm:request_success_total{job="vllm"}[10s]))', scrape.value("last_tick_timestamp_seconds")
    )
    return (ours, theirs) if ours and theirs else None


async def p99_apart(scrape: Scrape, prometheus: PrometheusServer, latency: str) -> float | None:
    """How far apart both P99 of one window are: 1 is 5 %, or the width of the bucket that PromQL's falls in. None while
    one of them has none.
    """
    at_s = scrape.value("last_tick_timestamp_seconds")
    ours = scrape.value("latency_seconds", latency=latency, percentile="99")
    samples = scrape.value("latency_samples", latency=latency)
    if ours is None or samples is None:
        return None
    # The daemon's window is as long as it takes to hold enough samples: it is found again by their number.
    for span_s in range(3, 62):
        count = f'sum(increase(vllm:{latency}_seconds_count{{job="vllm"}}[{span_s}s]))'
        if (await prometheus.number(count, at_s) or 0.0) >= samples:
            break
    buckets = f'sum by (le) (rate(vllm:{latency}_seconds_bucket{{job="vllm"}}[{span_s}s]))'
    theirs = await prometheus.number(f"histogram_quantile(0.99, {buckets})", at_s)
    if theirs is None or math.isnan(theirs):
        return None
    rows = {float(row["metric"]["le"]): float(row["value"][1]) for row in await prometheus.rows(buckets, at_s)}
    bounds = tuple(sorted(rows))
    bucket = Histogram(bounds, tuple(rows[bound] for bound in bounds), math.nan).bucket(0.99)
    assert bucket is not None
    print(f"{latency}: P99 {ours:.4f} s, PromQL {theirs:.4f} s over {span_s} s, bucket {bucket}, {samples:.0f} samples")
    return abs(ours - theirs) / max(0.05 * theirs, bucket[1] - bucket[0])


async def test_the_daemon_and_promql_agree_and_the_loop_closes(rig: Rig, tmp_path: Path) -> None:
    api_port, port = free_port(), free_port()
    targets = {"vllm": rig.server.url.removeprefix("http://"), "governor": f"127.0.0.1:{api_port}"}
    asks = {
        "url": f"http://127.0.0.1:{port}",
        "interval_s": 5,
        "vllm_selector": 'job="vllm"',
        "governor_selector": 'job="governor"',
    }

    async def scrape() -> Scrape:
        async with rig.session.get(f"http://127.0.0.1:{api_port}/metrics") as answer:
            return Scrape(await answer.text())

    async with (
        PrometheusServer(tmp_path / "prometheus", port, targets) as prometheus,
        Load(rig.server.url, "tiny", STEADY),
    ):
        rig.daemon.start(mode="observe", api={"port": api_port}, prometheus=asks)

        async def warm() -> bool:
            ours = await prometheus.number('vllm_governor_window_seconds{job="governor"}') or 0
            theirs = await prometheus.number('min(count_over_time(vllm:num_requests_running{job="vllm"}[20s]))') or 0
            return ours >= 9.5 and theirs >= 15

        await until("both windows are full", warm)
        rates: deque[tuple[float, float]] = deque(maxlen=MOMENTS)
        apart: dict[str, deque[float]] = {latency: deque(maxlen=MOMENTS) for latency in LATENCIES}

        async def agree() -> bool:
            """Both scrape each second, but not at the same instant, and a busy machine has its hiccups: what lies at
            the edge of a window may be in one of them alone. So it is asked until most of the last moments agree.
            """
            await asyncio.sleep(1)
            seen = await scrape()
            pair = await compared_rates(seen, prometheus)
            now_apart = {latency: await p99_apart(seen, prometheus, latency) for latency in LATENCIES}
            if pair is None or None in now_apart.values():
                return False
            rates.append(pair)
            for latency, value in now_apart.items():
                apart[latency].append(value or 0.0)
            alike = statistics.median(ours / theirs for ours, theirs in rates) == pytest.approx(1, rel=0.05)
            return len(rates) == MOMENTS and alike and all(statistics.median(each) <= 1 for each in apart.values())

        try:
            await until("the daemon and PromQL agree", agree)
        finally:
            print("requests a second, ours and PromQL's:", [*rates], "P99s apart:", apart)

        async def answered() -> bool:
            return all([await prometheus.number(f'vllm_governor_{name}{{job="governor"}}') for name in LONG])

        await until("Prometheus holds what the daemon learnt from it", answered)
        assert (await scrape()).value("source_up", source="prometheus") == 1

        own = PrometheusSensor(PrometheusSettings.model_validate(asks))
        past = await own.backfill(["requests_per_s", "gpu_power_w"], 15, 5)
        # Where there is no GPU its series is absent, never 0.
        power = (await scrape()).value("gpu_power_watts")
        assert set(past) == {"requests_per_s"} | ({"gpu_power_w"} if power is not None else set())
        ages, values = zip(*past["requests_per_s"], strict=True)
        assert 0 <= min(ages) <= max(ages) <= 16
        assert min(values) > 0

        await rig.daemon.stop()
        before = len(rig.log())
        rig.daemon.start(mode="observe", api={"port": api_port}, prometheus=asks)

        async def filled() -> bool:
            return re.search(r"\d+ samples from before the start, of requests_per_s", rig.log()[before:]) is not None

        await until("the restarted daemon knows the minutes before", filled)
