"""The four loads of the bench: who asks for what, and after how long. Asking and measuring never belong here.

A load is a set of clients, each a generator: it yields how long it thinks (seconds of the device's clock) and what it
then asks, and is sent the answer's tokens. The same seed makes the same clients. The sizes are part of a load's
definition and are printed with its figures; nothing here depends on what a cache does with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

VOCABULARY = 512
FIRST_PLAIN_TOKEN = 8
"""Token ids below this are special tokens in most vocabularies, the tiny model's included."""
CLIENTS = 8
"""Clients of the loads without think time, and the most requests running at once in all: the seeds' fixed batch."""
HOT_SHARE = 0.35
"""The seeds' share of hot requests."""
HOT_PROMPTS = 8
PROMPT_TOKENS = 512
ANSWER_TOKENS = 32


class Ask(NamedTuple):
    """One request."""

    request_id: str
    prompt: tuple[int, ...]
    answer_tokens: int


Client = Generator[tuple[float, Ask], list[int], None]


@dataclass(frozen=True, slots=True)
class Load:
    """One load. `clients(requests, seed)` makes its clients, who together ask about `requests` times."""

    name: str
    what: str
    clients: Callable[[int, int], list[Client]] = field(repr=False)
    hot_blocks: Callable[[int], int] = field(default=lambda block_tokens: 0, repr=False)
    """Blocks of the hot set that can ever be hit, by tokens per block."""


def _tokens(source: random.Random, count: int) -> tuple[int, ...]:
    return tuple(source.choices(range(FIRST_PLAIN_TOKEN, VOCABULARY), k=count))


def _drain(asks: Iterator[Ask]) -> list[Client]:
    """Clients without think time who take turns at one list of requests."""

    def client() -> Client:
        for ask in asks:
            yield 0.0, ask

    return [client() for _ in range(CLIENTS)]


def _mixed(requests: int, seed: int, replace_every: int | None) -> Iterator[Ask]:
    """Hot prompts among prompts nobody repeats; with `replace_every` the oldest hot prompt is replaced that often."""
    source = random.Random(seed)
    hot = [_tokens(source, PROMPT_TOKENS) for _ in range(HOT_PROMPTS)]
    for number in range(requests):
        if replace_every and number and number % replace_every == 0:
            hot = [*hot[1:], _tokens(source, PROMPT_TOKENS)]
        is_hot = source.random() < HOT_SHARE
        prompt = source.choice(hot) if is_hot else _tokens(source, PROMPT_TOKENS)
        yield Ask(f"{'hot' if is_hot else 'cold'}-{number}", prompt, ANSWER_TOKENS)


def _hot35(requests: int, seed: int) -> list[Client]:
    return _drain(_mixed(requests, seed, None))


REPLACE_EVERY = 40
"""Requests after which `moving` replaces one of its eight hot prompts: each lives 320 requests, some 14 uses."""


def _moving(requests: int, seed: int) -> list[Client]:
    return _drain(_mixed(requests, seed, REPLACE_EVERY))


def _noreuse(requests: int, seed: int) -> list[Client]:
    def asks() -> Iterator[Ask]:
        source = random.Random(seed)
        for number in range(requests):
            yield Ask(f"once-{number}", _tokens(source, PROMPT_TOKENS), ANSWER_TOKENS)

    return _drain(asks())


SESSIONS = 32
"""People talking at once in `multiturn`."""
THINK_S = 10.0
"""Their mean think time (exponential), seconds."""
FIRST_TOKENS = (64, 256)
NEXT_TOKENS = (16, 96)
TALK_TOKENS = 64
"""Tokens of each answer in `multiturn`."""
GOES_ON = 0.8
MOST_TURNS = 10
"""A conversation goes on with this chance after each turn, up to so many turns."""


def _multiturn(requests: int, seed: int) -> list[Client]:
    return [_person(seed, slot, requests // SESSIONS) for slot in range(SESSIONS)]


def _person(seed: int, slot: int, requests: int) -> Client:
    """One conversation after the other; each prompt is all that was said so far and a new message."""
    source = random.Random(seed * 1009 + slot)
    prompt: tuple[int, ...] = ()
    turn = 0
    for number in range(requests):
        if turn == MOST_TURNS or (turn and source.random() >= GOES_ON):
            prompt, turn = (), 0
        prompt += _tokens(source, source.randint(*(NEXT_TOKENS if turn else FIRST_TOKENS)))
        answer = yield source.expovariate(1 / THINK_S), Ask(f"talk-{slot}-{number}", prompt, TALK_TOKENS)
        prompt += tuple(answer)
        turn += 1


def _hot_blocks(block_tokens: int) -> int:
    return HOT_PROMPTS * ((PROMPT_TOKENS - 1) // block_tokens)


LOADS = (
    Load(
        "hot35",
        "35 % of requests repeat one of eight 512-token prompts, the rest is a cold scan",
        _hot35,
        _hot_blocks,
    ),
    Load("multiturn", "conversations that carry their history", _multiturn),
    Load("moving", "hot35, one of the eight prompts replaced every 40 requests", _moving, _hot_blocks),
    Load("noreuse", "no prompt is ever repeated", _noreuse),
)
