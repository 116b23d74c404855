"""A streamed answer: what is timed, what makes it a failed one."""

from __future__ import annotations

import io
from itertools import count

import pytest

from loadtest.answer import Answer, read


class Body(io.BytesIO):
    """A response's body."""

    def readline(self, sep: bytes = b"\n") -> bytes:  # type: ignore[override]
        return super().readline()


def piece(text: str, reason: str = "null") -> str:
    return f'data: {{"choices":[{{"text":"{text}","finish_reason":{reason}}}]}}\n\n'


def taken(stream: str) -> Answer:
    """Each look at the clock is a second later; the request was due at 0 s."""
    answer, seconds = Answer(), count(1.0)
    read(answer, Body(stream.encode()), 0.0, lambda: next(seconds))
    return answer


def test_the_first_token_and_the_gaps_between_tokens_are_timed() -> None:
    answer = taken(piece("a") + piece("b") + piece("c", '"length"') + "data: [DONE]\n\n")
    assert (answer.cause, answer.first_s, answer.gaps_s, answer.tokens) == (None, 1.0, [1.0, 1.0], 3)


def test_a_chats_opening_and_what_ends_an_answer_are_no_tokens() -> None:
    opening = 'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
    said = 'data: {"choices":[{"delta":{"content":"hello"},"finish_reason":null}]}\n\n'
    end = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: {"choices":[],"usage":{}}\n\n'
    assert taken(opening + said + end + "data: [DONE]\n\n").tokens == 1


def test_a_token_that_decodes_to_no_text_is_one_all_the_same() -> None:
    assert taken(piece("a") + piece("") + piece("", '"length"') + "data: [DONE]\n\n").tokens == 2


@pytest.mark.parametrize(
    ("stream", "cause"),
    [
        (piece("a"), "ended before its [DONE]"),
        ("data: [DONE]\n\n", "no token"),
        (piece("a") + 'data: {"error":{"message":"engine died"}}\n\n', "engine died"),
        ("data: <html>\n\n", "holds no completion"),
    ],
)
def test_an_answer_that_broke_off_is_a_failed_one(stream: str, cause: str) -> None:
    assert cause in (taken(stream).cause or "")
