"""The arguments that both load tests take, beside locust's own.

Belongs here: names, defaults, bounds, what `--help` says of them. Never: what is done with them.
"""

from __future__ import annotations

import argparse
import math
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # locust changes Python's sockets wherever it is imported
    from locust.argument_parser import LocustArgumentParser

DEFAULT_HOST = "http://127.0.0.1:8000"
"""Where vLLM listens by default."""
ENDPOINTS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


@dataclass(frozen=True, slots=True)
class Common:
    """What both tests are told. Shares are 0 to 1, lengths are words."""

    model: str | None
    token: str | None
    endpoint: str
    max_tokens: int
    hot_share: float
    hot_prompts: int
    long_share: float
    plain: bool
    seed: int
    request_timeout_s: float
    allow_remote: bool


def add_common(parser: LocustArgumentParser) -> None:
    """Adds them to locust's parser."""
    group = parser.add_argument_group("What is asked of the server")
    add = group.add_argument
    add("--model", default=None, help="name of the model; without it the first that /v1/models lists")
    add("--token-file", type=existing_file, default=None, help="file with the bearer token that the server wants")
    add("--endpoint", choices=sorted(ENDPOINTS), default="completions", help="which API is asked (default completions)")
    add("--max-tokens", type=number(1, integer=True), default=32, help="tokens of each answer (default 32)")
    add(
        "--hot-share", type=number(0, 1), default=0.35, help="share of requests that repeat a hot prompt (default 0.35)"
    )
    add("--hot-prompts", type=number(1, integer=True), default=8, help="how many hot prompts there are (default 8)")
    add("--long-share", type=number(0, 1), default=0.15, help="share of long prompts among the others (default 0.15)")
    add("--plain", action="store_true", help="leave out ignore_eos, which vLLM takes and a stricter server refuses")
    add("--seed", type=number(0, integer=True), default=1, help="of the prompts and arrivals (default 1)")
    add("--request-timeout-s", type=number(0.1), default=60.0, help="an answer that stalls for longer has failed")
    add("--allow-remote", action="store_true", help="load a server on another machine: it may be shared with others")


def common(parsed: Namespace) -> Common:
    """What was given."""
    return Common(
        model=parsed.model,
        token=parsed.token_file.read_text(encoding="utf-8").strip() if parsed.token_file else None,
        endpoint=parsed.endpoint,
        max_tokens=parsed.max_tokens,
        hot_share=parsed.hot_share,
        hot_prompts=parsed.hot_prompts,
        long_share=parsed.long_share,
        plain=parsed.plain,
        seed=parsed.seed,
        request_timeout_s=parsed.request_timeout_s,
        allow_remote=parsed.allow_remote,
    )


def number(low: float, high: float = math.inf, *, integer: bool = False) -> Callable[[str], float]:
    """A type for argparse: a finite number from `low` to `high`."""

    def read(text: str) -> float:
        try:
            value = int(text) if integer else float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            kind = "whole number" if integer else "number"
            bounds = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"{text!r} must be a {kind} {bounds}")
        return value

    return read


def numbers(text: str) -> tuple[float, ...]:
    """A type for argparse: rates that rise, as 10,30,50."""
    read = number(0.1)
    found = tuple(read(part.strip()) for part in text.split(","))
    if list(found) != sorted(set(found)):
        raise argparse.ArgumentTypeError(f"{text!r} must rise from one to the next, as 10,30,50")
    return found


def existing_file(text: str) -> Path:
    """A type for argparse: a file that can be read."""
    path = Path(text)
    try:
        path.read_bytes()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {text}: {error.strerror}; name a file that exists") from error
    return path
