"""The laws of asking Prometheus: beside the ticks, at its own pace, and nothing that is not this engine's."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from controller.backfill import WINDOW_S, Backfill
from controller.clock import Now
from controller.estimation import BACKFILLED
from controller.metrics.series import metric_name
from controller.sensors.prometheus import PrometheusSensor, queries
from controller.settings import PrometheusSettings
from domain.errors import RecoverableError
from domain.readings.prometheus import Absence, LongWindows
from tests.fake_prometheus import FakePrometheus


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> Now:
        return Now(self.now_s, datetime.now(UTC))


@pytest.fixture
async def prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    await fake.start()
    yield fake
    await fake.server.close()


async def ended(name: str) -> None:
    """Wait for the tasks of this name."""
    running = {task for task in asyncio.all_tasks() if task.get_name() == name}
    if running:
        await asyncio.wait(running)


async def settled(sensor: PrometheusSensor) -> LongWindows | None:
    """What it answers once the refresh that a read may have started has ended."""
    with contextlib.suppress(RecoverableError):
        await sensor.read()
    await ended("prometheus")
    return await sensor.read()


async def test_without_an_address_nobody_is_asked_and_nothing_is_wrong() -> None:
    sensor = PrometheusSensor(PrometheusSettings())
    assert await sensor.read() is None
    assert await sensor.backfill(["requests_per_s"], 300, 10) == {}
    await sensor.close()


def test_without_an_address_the_client_library_is_not_even_loaded() -> None:
    code = (
        "import sys, controller.app; print(sorted({'requests', 'prometheus_api_client', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_the_first_read_does_not_wait_and_a_later_one_has_the_numbers(prometheus: FakePrometheus) -> None:
    sensor = PrometheusSensor(prometheus.settings(), Clock())
    assert await sensor.read() is None
    assert await settled(sensor) == LongWindows(2.5, 2.5, 2.5, 2.5, 2.5)


async def test_it_asks_once_an_interval_however_often_it_is_read(prometheus: FakePrometheus) -> None:
    clock = Clock()
    sensor = PrometheusSensor(prometheus.settings(interval_s=60), clock)
    await settled(sensor)
    asked = len(prometheus.queries)
    clock.now_s += 59
    await settled(sensor)
    assert len(prometheus.queries) == asked
    clock.now_s += 2
    prometheus.value = "3.5"
    windows = await settled(sensor)
    assert len(prometheus.queries) == 2 * asked
    assert windows is not None
    assert windows.requests_per_s_mean == 3.5


async def test_a_server_that_hangs_never_holds_a_read_up_and_old_answers_stop_to_count(
    prometheus: FakePrometheus,
) -> None:
    clock = Clock()
    sensor = PrometheusSensor(prometheus.settings(interval_s=60, timeout_s=30), clock)
    assert await settled(sensor) is not None
    prometheus.hang_s = 30
    clock.now_s += 61
    async with asyncio.timeout(20):
        assert await sensor.read() is not None  # begins to ask
        clock.now_s += 110
        assert await sensor.read() is not None
        clock.now_s += 20
        with pytest.raises(RecoverableError, match="its last answer is older than 180 s"):
            await sensor.read()
    await sensor.close()


async def test_a_server_that_is_gone_is_one_stable_sentence_and_is_asked_again_soon(prometheus: FakePrometheus) -> None:
    clock = Clock()
    sensor = PrometheusSensor(prometheus.settings(interval_s=60), clock)
    assert await settled(sensor) is not None
    await prometheus.server.close()
    said = set()
    for _ in range(3):
        clock.now_s += 61
        with pytest.raises(RecoverableError) as caught:
            await settled(sensor)
        said.add(str(caught.value))
    assert said == {f"cannot ask Prometheus at {prometheus.url}: Connection refused; check prometheus.url"}

    back = FakePrometheus(urlsplit(prometheus.url).port)
    await back.start()
    clock.now_s += 11
    assert await settled(sensor) is not None
    await back.server.close()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (400, '{"status":"error","error":"parse error"}', "it refused the query: HTTP 400: parse error"),
        (401, "denied", "it refused the query: HTTP 401: Unauthorized"),
        (503, '{"status":"error","error":"query timed out"}', "HTTP 503: query timed out"),
        (200, "<html>log in</html>", "it answers something that no Prometheus does"),
        (200, '{"status":"success","data":{"result":[{"value":[1,"seven"]}]}}', "something that no Prometheus does"),
        (200, '{"status":"success","data":{"result":{}}}', "something that no Prometheus does"),
        (200, '{"status":"success"}', "something that no Prometheus does"),
        (200, "[]", "something that no Prometheus does"),
    ],
)
async def test_a_server_that_answers_nothing_of_use_is_a_problem_that_says_why(
    prometheus: FakePrometheus, status: int, body: str, told: str
) -> None:
    prometheus.failure = (status, body)
    with pytest.raises(RecoverableError, match="cannot ask Prometheus at ") as caught:
        await settled(PrometheusSensor(prometheus.settings(), Clock()))
    assert told in str(caught.value)


async def test_an_answer_that_stops_halfway_is_said_to_be_late() -> None:
    async def stall(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        await asyncio.sleep(5)
        writer.close()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    sensor = PrometheusSensor(PrometheusSettings(url=url, timeout_s=0.2))
    with pytest.raises(RecoverableError, match=r"no answer within 0\.2 s"):
        await settled(sensor)
    server.close()


async def test_one_refused_query_takes_no_other_with_it_and_is_logged_once(
    prometheus: FakePrometheus, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = {"status": "error", "error": "subqueries are not supported"}
    prometheus.special["max_over_time"] = web.json_response(refusal, status=422)
    clock = Clock()
    sensor = PrometheusSensor(prometheus.settings(), clock)
    for _ in range(3):
        # A response can be sent once only.
        prometheus.special["max_over_time"] = web.json_response(refusal, status=422)
        windows = await settled(sensor)
        assert windows is not None
        assert (windows.requests_per_s_peak, windows.e2e_p99_s) == (None, 2.5)
        assert windows.why == {"requests_per_s_peak": Absence.REFUSED}
        clock.now_s += 61
    assert caplog.text.count("requests_per_s_peak: HTTP 422: subqueries are not supported") == 1


async def test_a_selector_that_picks_several_servers_gives_no_numbers(prometheus: FakePrometheus) -> None:
    prometheus.special["count(count"] = "3"
    with pytest.raises(RecoverableError, match=r"3 scrape targets are a vLLM .* prometheus\.vllm_selector"):
        await settled(PrometheusSensor(prometheus.settings(), Clock()))


async def test_the_token_is_read_at_each_call_and_a_netrc_does_not_replace_it(
    prometheus: FakePrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, netrc, clock = tmp_path / "token", tmp_path / "netrc", Clock()
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    sensor = PrometheusSensor(prometheus.settings(token_file=token), clock)
    for value in ("first", "second"):
        token.write_text(f"{value}\n")
        prometheus.headers.clear()
        await settled(sensor)
        assert {headers.get("Authorization") for headers in prometheus.headers} == {f"Bearer {value}"}
        clock.now_s += 61
    token.unlink()
    with pytest.raises(RecoverableError, match=r"the token file .*token cannot be read"):
        await settled(sensor)


async def test_the_selector_goes_into_every_query_and_the_limit_goes_along(prometheus: FakePrometheus) -> None:
    await settled(PrometheusSensor(prometheus.settings(vllm_selector='job="vllm",instance="gpu1:8000"'), Clock()))
    assert len(prometheus.queries) == 6
    assert all('{job="vllm",instance="gpu1:8000"}' in query for query in prometheus.queries)


async def test_the_past_is_aged_by_the_servers_own_clock(prometheus: FakePrometheus) -> None:
    prometheus.special["vector(time())"] = "5000"  # years from this machine's
    prometheus.past = {
        'vllm_governor_requests_per_second{job="g"}': [[(4900, "7"), (4950, "NaN"), (4990, "9")]],
        'vllm_governor_e2e_p99_1h_seconds{job="g"}': [[(4990, "1")], [(4990, "2")]],
    }
    sensor = PrometheusSensor(prometheus.settings(governor_selector='job="g"'), Clock())
    names = ["requests_per_s", "e2e_p99_1h_s", "bar1_usage_ratio"]
    assert await sensor.backfill(names, 300, 10) == {"requests_per_s": [(100.0, 7.0), (10.0, 9.0)]}


async def test_the_past_is_handed_over_once_and_has_aged_meanwhile(prometheus: FakePrometheus) -> None:
    prometheus.special["vector(time())"] = "5000"
    prometheus.past = {"vllm_governor_requests_per_second": [[(4900, "7"), (5000, "9")]]}
    backfill = Backfill(PrometheusSensor(prometheus.settings(), Clock()), ["requests_per_s"])
    assert backfill.take(50.0) == {}
    await ended("backfill")
    assert backfill.take(52.0) == {"requests_per_s": [(102.0, 7.0), (2.0, 9.0)]}
    assert backfill.take(53.0) == {}


async def test_a_past_that_cannot_be_had_is_said_once_and_the_daemon_goes_on(
    prometheus: FakePrometheus, caplog: pytest.LogCaptureFixture
) -> None:
    await prometheus.server.close()
    backfill = Backfill(PrometheusSensor(prometheus.settings(), Clock()), ["requests_per_s"])
    assert backfill.take(50.0) == {}
    await ended("backfill")
    assert [backfill.take(51.0), backfill.take(52.0)] == [{}, {}]
    assert caplog.text.count("for the time before the start: Connection refused") == 1


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"url": "localhost:9090"}, "must be an address like http://127.0.0.1:9090"),
        ({"url": "http://a:b@host"}, "must not carry credentials"),
        ({"vllm_selector": '{job="vllm"}'}, "without braces"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(changes: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        PrometheusSettings.model_validate(changes)


def test_the_docs_show_the_queries_that_are_sent() -> None:
    text = (Path(__file__).parents[3] / "docs" / "prometheus.md").read_text()
    sent = queries.long_windows("")
    for name in ("requests_per_s_mean", "requests_per_s_peak", "e2e_p99_s"):
        assert f"`{sent[name]}`" in text
    assert f"`{queries.servers('')}`" in text
    assert all(f"`{metric_name(signal)}`" in text for signal in BACKFILLED)
    assert f"last {WINDOW_S / 60:g} minutes" in text.replace("five", "5")
