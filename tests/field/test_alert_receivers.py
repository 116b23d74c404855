"""Receivers that fail inside HTTP 200, and batches that one alert would spoil (A4); answers that say when (A3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from alerts.receivers import Delivered, Refused, Retry
from domain.incident import Incident
from tests.told import OtherEnd, incident, notification, receiver


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    end = OtherEnd()
    await end.start()
    yield end
    await end.server.close()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("dingtalk", '{"errcode":310000,"errmsg":"keywords not in content"}'),
        ("dingtalk", '{"errcode":310000}'),
        ("feishu", '{"code":19024,"msg":"Key Words Not Found"}'),
        ("feishu", '{"code":19024}'),
    ],
)
async def test_a_refusal_inside_200_is_a_failure_that_is_seen_and_not_tried_forever(
    end: OtherEnd, kind: str, body: str
) -> None:
    """Field case A4: HTTP 200 with `{"errcode":310000}` and with `{"code":19024}`."""
    end.body = body
    answer = await end.told(receiver(kind, url=end.url))
    assert isinstance(answer, Refused)
    assert "keyword" in answer.reason


def three() -> tuple[Incident, Incident, Incident]:
    return (
        incident("first"),
        incident("second", labels={"http.status_code": "503"}),
        incident("third", over_after_s=0.0, starts_at=datetime(1, 1, 1, tzinfo=UTC)),
    )


async def test_a_label_name_with_a_dot_and_a_zero_start_spoil_no_batch(end: OtherEnd) -> None:
    """Field case A4: three alerts, one with the label `http.status_code`, one that starts at the year 1."""
    told = notification(*three())
    assert await end.told(receiver("alertmanager", url=end.url), told) == Delivered()
    first, second, third = end.latest
    assert second["labels"]["http_status_code"] == "503"
    assert first["labels"]["alertname"] == "first"
    assert third["startsAt"] == "1970-01-01T00:00:00.000Z"
    assert all(alert["startsAt"] < alert["endsAt"] for alert in end.latest)
    assert await end.told(receiver("webhook", url=end.url), told) == Delivered()
    assert [alert["labels"]["alertname"] for alert in end.latest["alerts"]] == ["first", "second", "third"]


async def test_a_429_is_taken_up_again_after_the_time_it_names_and_a_400_never(end: OtherEnd) -> None:
    """Field case A3: 429 with `Retry-After: 30`, then 200; 503; 400."""
    who = receiver("webhook", url=end.url)
    end.status, end.headers = 429, {"Retry-After": "30"}
    answer = await end.told(who)
    assert isinstance(answer, Retry)
    assert answer.after_s == 30.0
    end.status, end.headers = 503, {}
    answer = await end.told(who)
    assert isinstance(answer, Retry)
    assert answer.after_s is None
    end.status, end.body = 400, "bad label name"
    answer = await end.told(who)
    assert isinstance(answer, Refused)
    assert "HTTP 400 Bad Request (bad label name)" in answer.reason
    end.status = 200
    assert await end.told(who) == Delivered()
