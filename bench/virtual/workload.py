"""Who asks when, and for how much. The same seed asks the same.

Belongs here: arrivals that do not wait for answers, so that a queue may grow without end. Never: what becomes of them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

VOCABULARY = 512
FIRST_PLAIN_TOKEN = 8
"""Token ids below this are special tokens in most vocabularies, the tiny model's included."""


class Ask(NamedTuple):
    """One request. `at_s`: seconds after the start of the run."""

    at_s: float
    request_id: str
    prompt: tuple[int, ...]
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens, evenly spread between the two ends (both included)."""

    prompt: tuple[int, int] = (64, 256)
    answer: tuple[int, int] = (50, 150)

    def ask(self, source: random.Random, at_s: float, request_id: str) -> Ask:
        """One request whose prompt nobody else has."""
        prompt = source.choices(range(FIRST_PLAIN_TOKEN, VOCABULARY), k=source.randint(*self.prompt))
        return Ask(at_s, request_id, tuple(prompt), source.randint(*self.answer))


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals without end: `rate` requests/s from the start, and from each moment of `steps` another."""

    rate: float
    lengths: Lengths = field(default_factory=Lengths)
    steps: Sequence[tuple[float, float]] = ()
    """(from which second on, requests/s), ascending."""
    seed: int = 1
    name: str = "r"

    def asks(self) -> Iterator[Ask]:
        """In the order of their arrival. Without memory, so an arrival drawn past a step is drawn anew from there."""
        source, number = random.Random(self.seed), 0
        spans = [(0.0, self.rate), *self.steps]
        for (begin_s, rate), (end_s, _) in zip(spans, [*spans[1:], (float("inf"), 0.0)], strict=True):
            at_s = begin_s
            while rate > 0 and (at_s := at_s + source.expovariate(rate)) < end_s:
                yield self.lengths.ask(source, at_s, f"{self.name}{number}")
                number += 1


def at_once(count: int, at_s: float, lengths: Lengths, seed: int = 2, name: str = "burst") -> Iterator[Ask]:
    """So many requests at one moment."""
    source = random.Random(seed)
    for number in range(count):
        yield lengths.ask(source, at_s, f"{name}{number}")


def together(*asks: Iterable[Ask]) -> Iterator[Ask]:
    """Several workloads as one, in the order of arrival. Their request ids must differ."""
    return heapq.merge(*asks, key=lambda ask: ask.at_s)
