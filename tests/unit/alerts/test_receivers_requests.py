"""What each receiver sends, byte for byte, over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts.receivers import Delivered
from domain.alert import Severity
from domain.incident import Incident, Notification
from tests.told import CHATS, KINDS, NOON, TAKEN, OtherEnd, incident, notification, receiver

TEXT_LIMIT = {"slack": 3000, "dingtalk": 20_000, "feishu": 20_000, "wecom": 4096}
NASTY = "<!channel> @here @Channel <at id=all></at> **b** [x](http://evil) `c` & \\ \n# h"


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    end = OtherEnd()
    await end.start()
    yield end
    await end.server.close()


def text_of(kind: str, body: Any) -> str:
    """The message in the body of a chat's request."""
    match kind:
        case "slack":
            text = body["attachments"][0]["text"]
        case "feishu":
            text = body["card"]["elements"][0]["content"]
        case "wecom":
            text = body["markdown"]["content"]
        case _:
            text = body["markdown"]["text"]
    assert isinstance(text, str)
    return text


async def test_a_signed_webhook_is_verified_by_who_takes_it(end: OtherEnd, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret-of-ops\n")
    (tmp_path / "token").write_text("t0ken-of-ops\n")
    signed = receiver("webhook", url=f"{end.url}/in", secret_file=tmp_path / "secret", token_file=tmp_path / "token")
    assert await end.told(signed) == Delivered()
    headers = end.got_headers[-1]
    stamp = headers["X-Governor-Timestamp"]
    assert int(stamp) == NOON.timestamp()
    expected = hmac.digest(b"s3cret-of-ops", f"{stamp}.".encode() + end.got[-1], "sha256").hex()
    assert headers["X-Governor-Signature"] == f"sha256={expected}"
    assert headers["Authorization"] == "Bearer t0ken-of-ops"
    assert headers["Idempotency-Key"] == "n-1"
    assert headers["Content-Type"] == "application/json"


async def test_dingtalk_gets_a_signed_markdown_message(end: OtherEnd, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SEC0123456789")
    end.body = TAKEN["dingtalk"]
    url = f"{end.url}/robot/send?access_token=abc"
    robot = receiver("dingtalk", "http://governor:9178", url=url, secret_file=tmp_path / "secret")
    assert await end.told(robot) == Delivered()
    query = end.queries[-1]
    assert query["access_token"] == "abc"
    assert query["timestamp"] == str(int(NOON.timestamp() * 1000))
    signed = hmac.digest(b"SEC0123456789", f"{query['timestamp']}\nSEC0123456789".encode(), "sha256")
    assert base64.b64decode(query["sign"], validate=True) == signed
    assert end.latest == {
        "msgtype": "markdown",
        "markdown": {
            "title": "[FIRING:1] CRITICAL kv_cache_full on gpu1:8000",
            "text": "#### \\[FIRING:1\\] CRITICAL kv\\_cache\\_full on gpu1:8000  \n"
            "vllm-governor on gpu1:8000 · [open](http://governor:9178)  \n"
            "**kv\\_cache\\_full** (critical) since 2026-07-30 12:00:00 UTC, for 0 s  \n"
            "KV cache is nearly full  \n"
            "0.97 is above 0.95 for 60 s",
        },
    }


async def test_feishu_gets_a_signed_card(end: OtherEnd, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("feishu-secret")
    end.body = TAKEN["feishu"]
    bot = receiver("feishu", url=f"{end.url}/open-apis/bot/v2/hook/x", secret_file=tmp_path / "secret")
    told = notification(incident(severity=Severity.WARNING))
    assert await end.told(bot, told, NOON + timedelta(minutes=5)) == Delivered()
    body = end.latest
    stamp = body["timestamp"]
    assert stamp == str(int(NOON.timestamp()) + 300)
    assert base64.b64decode(body["sign"]) == hmac.new(f"{stamp}\nfeishu-secret".encode(), b"", hashlib.sha256).digest()
    assert body["msg_type"] == "interactive"
    assert body["card"]["header"] == {
        "title": {"tag": "plain_text", "content": "[FIRING:1] WARNING kv_cache_full on gpu1:8000"},
        "template": "orange",
    }
    assert text_of("feishu", body) == (
        "vllm-governor on gpu1:8000\n"
        "**kv_cache_full** (warning) since 2026-07-30 12:00:00 UTC, for 5 min\n"
        "KV cache is nearly full\n"
        "0.97 is above 0.95 for 60 s"
    )


async def test_wecom_gets_a_coloured_markdown_message(end: OtherEnd) -> None:
    end.body = TAKEN["wecom"]
    told = notification(incident(over_after_s=3900, labels={"gpu": "3"}), truncated=2)
    assert await end.told(receiver("wecom", url=end.url), told) == Delivered()
    assert end.latest == {
        "msgtype": "markdown",
        "markdown": {
            "content": '<font color="info">**[RESOLVED:1]\u200b CRITICAL kv_cache_full on gpu1:8000**</font>\n'
            "vllm-governor on gpu1:8000\n"
            "**kv_cache_full** (critical) is resolved since 2026-07-30 13:05:00 UTC, after 1 h 5 min\n"
            "KV cache is nearly full\n"
            "gpu=3\n"
            "2 more alerts of this group are not shown"
        },
    }


async def test_slack_gets_its_title_and_a_coloured_attachment_that_mattermost_shows_too(end: OtherEnd) -> None:
    told = notification(incident(), incident("engine_down", Severity.WARNING, labels={"a&b": "<1>"}))
    assert await end.told(receiver("slack", "https://gov/a?b=1&c=2", url=end.url), told) == Delivered()
    assert end.latest == {
        "text": "[FIRING:2] CRITICAL kv_cache_full and 1 more on gpu1:8000",
        "attachments": [
            {
                "color": "#d00000",
                "fallback": "[FIRING:2] CRITICAL kv_cache_full and 1 more on gpu1:8000",
                "mrkdwn_in": ["text"],
                "text": "vllm-governor on gpu1:8000 · <https://gov/a?b=1&amp;c=2|open>\n"
                "*kv_cache_full* (critical) since 2026-07-30 12:00:00 UTC, for 0 s\n"
                "KV cache is nearly full\n"
                "0.97 is above 0.95 for 60 s\n"
                "*engine_down* (warning) since 2026-07-30 12:00:00 UTC, for 0 s\n"
                "KV cache is nearly full\n"
                "0.97 is above 0.95 for 60 s\n"
                "a_b=&lt;1&gt;",
            }
        ],
    }


async def test_alertmanager_is_told_at_its_api_with_an_end_four_intervals_ahead(end: OtherEnd) -> None:
    for url in (end.url, f"{end.url}/", f"{end.url}/api/v2/alerts", f"{end.url}/am"):
        who = receiver("alertmanager", url=url, resend_s=30)
        assert await end.told(who, now=NOON + timedelta(minutes=1)) == Delivered()
    assert end.paths == ["/api/v2/alerts"] * 3 + ["/am/api/v2/alerts"]
    (alert,) = end.latest
    assert alert["endsAt"] == "2026-07-30T12:03:00.000Z"


@pytest.mark.parametrize("kind", CHATS)
async def test_a_value_cannot_call_everybody_or_forge_a_link(end: OtherEnd, kind: str) -> None:
    end.body = TAKEN.get(kind, "ok")
    told = notification(incident(annotations={"summary": NASTY, "description": NASTY}, labels={"team": NASTY}))
    assert await end.told(receiver(kind, url=end.url), told) == Delivered()
    text = text_of(kind, end.latest)
    forged = {
        "slack": ["<!channel>", "@here", "@Channel"],
        "feishu": ["<at id=all>"],
        "wecom": ["<at id=all>"],
        "dingtalk": ["`c`"],
    }[kind]
    if kind != "slack":  # To which asterisks are no more than that.
        forged += ["**b**"]
    assert "[x](http" not in text
    assert [mark for mark in [*forged, "\n# h"] if mark in text] == []


@pytest.mark.parametrize("kind", CHATS)
@pytest.mark.parametrize("letter", ["a", "警", "🔥", '"', "&", "\\", "\ud800"])
async def test_a_message_stays_inside_the_services_limit(end: OtherEnd, kind: str, letter: str) -> None:
    end.body = TAKEN.get(kind, "ok")
    words = {"summary": letter * 400, "description": letter * 30_000}
    told = notification(*(incident(f"alert{number}{letter}", annotations=words) for number in range(64)))
    assert await end.told(receiver(kind, url=end.url), told) == Delivered()
    text = text_of(kind, end.latest)
    size = len(end.got[-1]) if kind in ("dingtalk", "feishu") else len(text.encode())
    assert (len(text) if kind == "slack" else size) <= TEXT_LIMIT[kind]
    assert "alert0" in text
    assert "…" in text


def shapes() -> list[Notification]:
    nothing: dict[str, str] = {}
    bare = Incident("x", Severity.INFO, nothing, incident().state, NOON, NOON)
    return [notification(), notification(bare), notification(incident(over_after_s=1), bare), notification(truncated=9)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", range(4))
def test_every_shape_of_a_notification_makes_a_request_in_json(kind: str, shape: int) -> None:
    request = receiver(kind, url="http://h/").request(shapes()[shape], NOON)
    assert json.loads(request.body)
