"""What a Prometheus server answers when it has no number for us."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from controller.sensors.prometheus import queries
from controller.sensors.prometheus.client import NoAnswer, PrometheusClient, Refused
from controller.sensors.prometheus.sensor import Questions
from domain.readings.prometheus import Absence
from tests.fake_prometheus import FakePrometheus

BAD_DATA = '{"status":"error","errorType":"bad_data","error":"invalid parameter: parse error: unexpected character"}'


@pytest.fixture
async def prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    await fake.start()
    yield fake
    await fake.server.close()


async def asked(fake: FakePrometheus) -> float | Absence:
    return await asyncio.to_thread(PrometheusClient(fake.settings()).value, "sum(rate(x_total[5m]))")


async def test_a_nan_is_no_traffic_and_an_empty_result_is_no_series(prometheus: FakePrometheus) -> None:
    """Field case M8: `"value":[1,"NaN"]` and `"result":[]` are two outcomes, and neither is 0."""
    prometheus.value = "NaN"
    assert await asked(prometheus) is Absence.NO_TRAFFIC
    prometheus.value = None
    assert await asked(prometheus) is Absence.NO_SERIES
    prometheus.value = "0"
    assert await asked(prometheus) == 0.0


@pytest.mark.parametrize("status", [400, 200])
async def test_a_query_error_is_a_refusal_in_the_servers_words(prometheus: FakePrometheus, status: int) -> None:
    """Field case M8: HTTP 400, and HTTP 200 with `"status":"error"`, which the client library takes for an answer."""
    prometheus.failure = (status, BAD_DATA)
    with pytest.raises(Refused, match=r"(HTTP 400|status error): invalid parameter: parse error"):
        await asked(prometheus)


@pytest.mark.parametrize(
    "body",
    [
        '{"status":"error","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"7"]}]}}',
        '{"status":"error","data":null}',
    ],
)
async def test_a_query_error_that_carries_data_is_a_refusal_all_the_same(prometheus: FakePrometheus, body: str) -> None:
    """Field case M8: what comes with an error is not read."""
    prometheus.failure = (200, body)
    with pytest.raises(Refused):
        await asked(prometheus)


async def test_no_server_is_not_a_refusal(prometheus: FakePrometheus) -> None:
    """Field case M8: a server that is gone is told apart from a query that is wrong."""
    await prometheus.server.close()
    with pytest.raises(NoAnswer, match="Connection refused"):
        await asked(prometheus)


async def test_each_kind_of_absence_is_none_with_its_own_name(prometheus: FakePrometheus) -> None:
    """Field case M8: none becomes 0.0, side by side in one reading."""
    prometheus.special |= {
        "max_over_time": "NaN",
        "histogram_quantile": None,
        "offset 1d": "+Inf",
    }
    windows, said = await asyncio.to_thread(Questions(prometheus.settings()))
    assert windows.requests_per_s_mean == 2.5
    assert (windows.requests_per_s_peak, windows.e2e_p99_s, windows.e2e_p99_day_ratio) == (None, None, None)
    assert windows.requests_per_s_day_ratio is None
    assert windows.why == {
        "requests_per_s_peak": Absence.NO_TRAFFIC,
        "e2e_p99_s": Absence.NO_SERIES,
        "requests_per_s_day_ratio": Absence.NO_TRAFFIC,
        "e2e_p99_day_ratio": Absence.NO_SERIES,
    }
    assert said is None


def test_queries_name_their_series_exactly() -> None:
    """Field case M8: counters by their `_total` name, no regular expression on names."""
    sent = [*queries.long_windows('job="vllm"').values(), queries.servers('job="vllm"')]
    for query in sent:
        assert "__name__" not in query
        assert "=~" not in query
        names = set(re.findall(r"vllm:[a-z0-9_]+", query))
        assert names <= {"vllm:request_success_total", "vllm:e2e_request_latency_seconds_bucket"}
        assert names
        assert query.count('{job="vllm"}') == len(re.findall(r"vllm:[a-z0-9_]+", query))
