"""What each receiver makes of the answer, over real HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from alerts.receivers import Delivered, Refused, Retry
from alerts.receivers.base import retry_after_s
from tests.told import CHATS, KINDS, TAKEN, OtherEnd, receiver


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    end = OtherEnd()
    await end.start()
    yield end
    await end.server.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_the_service_takes_is_delivered(end: OtherEnd, kind: str) -> None:
    end.body = TAKEN.get(kind, "ok")
    assert await end.told(receiver(kind, url=f"{end.url}/hook")) == Delivered()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_an_overload_or_a_failure_of_the_service_is_tried_again_when_it_says(
    end: OtherEnd, kind: str, status: int
) -> None:
    end.status, end.headers, end.body = status, {"Retry-After": "30"}, "later"
    answer = await end.told(receiver(kind, url=end.url))
    assert isinstance(answer, Retry)
    assert answer.after_s == 30.0
    assert answer.reason.startswith(f"cannot deliver to ops: HTTP {status} ")
    assert "(later)" in answer.reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413])
async def test_a_plain_refusal_is_not_tried_again(end: OtherEnd, kind: str, status: int) -> None:
    end.status, end.body = status, "no_service"
    answer = await end.told(receiver(kind, url=end.url))
    assert isinstance(answer, Refused)
    assert "no_service" in answer.reason


@pytest.mark.parametrize("kind", CHATS)
async def test_a_page_of_a_proxy_with_200_is_no_delivery(end: OtherEnd, kind: str) -> None:
    end.body = "<html>Be right back</html>"
    answer = await end.told(receiver(kind, url=end.url))
    assert isinstance(answer, Retry)
    assert "Be right back" in answer.reason


@pytest.mark.parametrize(
    ("kind", "body", "after_s"),
    [
        ("dingtalk", '{"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}', 60.0),
        ("dingtalk", '{"errcode":410100,"errmsg":"发送速度太快而限流"}', 60.0),
        ("dingtalk", '{"errcode":-1,"errmsg":"系统繁忙"}', 60.0),
        ("dingtalk", '{"status":1111,"wait":5,"source":"x5","punish":"deny"}', 5.0),
        ("feishu", '{"code":11232,"data":{},"msg":"frequency limited psm[lark.oapi.app_platform_runtime]"}', None),
        ("feishu", '{"code":9499,"msg":"too many request"}', None),
        ("wecom", '{"errcode":45009,"errmsg":"api freq out of limit"}', 60.0),
        ("wecom", '{"errcode":-1,"errmsg":"system busy"}', 60.0),
    ],
)
async def test_too_many_messages_inside_200_are_told_again_later(
    end: OtherEnd, kind: str, body: str, after_s: float | None
) -> None:
    end.body = body
    answer = await end.told(receiver(kind, url=end.url))
    assert isinstance(answer, Retry)
    assert answer.after_s == after_s


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("dingtalk", '{"errcode":310000,"errmsg":"keywords not in content"}', "code 310000.*keyword"),
        ("dingtalk", '{"errcode":300005,"errmsg":"token is not exist"}', "access_token is unknown"),
        ("feishu", '{"code":19021,"msg":"sign match fail or timestamp is not within one hour"}', "secret_file"),
        ("feishu", '{"code":19024,"msg":"Key Words Not Found"}', "code 19024.*keyword"),
        ("feishu", '{"code":9499,"msg":"Bad Request"}', "code 9499"),
        ("feishu", '{"StatusCode":19001,"StatusMessage":"param invalid"}', "token is unknown"),
        ("wecom", '{"errcode":93000,"errmsg":"invalid webhook url"}', "key is unknown"),
        ("wecom", '{"errcode":40058,"errmsg":"markdown.content exceed max length 4096"}', "code 40058"),
        ("slack", '{"ok":false,"error":"invalid_payload"}', "invalid_payload"),
    ],
)
async def test_a_refusal_inside_200_is_a_refusal_with_its_words_and_a_remedy(
    end: OtherEnd, kind: str, body: str, words: str
) -> None:
    end.body = body
    answer = await end.told(receiver(kind, url=end.url))
    assert isinstance(answer, Refused)
    assert re.search(words, answer.reason)


def test_retry_after_is_seconds_or_a_date_and_at_most_an_hour() -> None:
    sent = "Thu, 30 Jul 2026 12:00:00 GMT"
    assert retry_after_s({"retry-after": " 30 "}) == 30.0
    assert retry_after_s({"Retry-After": "Thu, 30 Jul 2026 12:02:00 GMT", "Date": sent}) == 120.0
    assert retry_after_s({"Retry-After": "Thu, 30 Jul 2026 11:00:00 GMT", "Date": sent}) == 0.0
    assert retry_after_s({"Retry-After": "9" * 12}) == 3600.0
    for unreadable in ("", "soon", "-5", "Thu, 30 Jul 2026 12:02:00 GMT"):
        assert retry_after_s({"Retry-After": unreadable}) is None
    assert retry_after_s({}) is None


async def test_a_date_of_a_real_server_counts_from_its_own_clock(end: OtherEnd) -> None:
    end.status = 503
    end.headers = {"Retry-After": "Thu, 30 Jul 2026 12:00:45 GMT", "Date": "Thu, 30 Jul 2026 12:00:00 GMT"}
    answer = await end.told(receiver("webhook", url=end.url))
    assert isinstance(answer, Retry)
    assert answer.after_s == 45.0


def test_a_request_that_got_no_answer_is_tried_again() -> None:
    who = receiver("slack", url="http://h/")
    assert who.failed(TimeoutError()) == Retry("cannot deliver to ops: TimeoutError; it is tried again")
