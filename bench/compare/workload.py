"""Who asks when: streams of one shape each, phase by phase. The same seed asks the same, whoever answers.

Belongs here: arrivals and prompts, and a fingerprint of both. Never: a scenario, what becomes of a request.

Arrivals are Poisson, or come in bursts: times between two of them are Gamma with a coefficient of variation over 1, as
BurstGPT (arXiv 2401.17644, section 4) finds them in production.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.compare.lengths import Shape
from bench.virtual.workload import FIRST_PLAIN_TOKEN, VOCABULARY, Ask, together

_PLAIN = range(FIRST_PLAIN_TOKEN, VOCABULARY)


@dataclass(frozen=True, slots=True)
class Hot:
    """The seeds' hot path: a share of a stream repeats one of a few prompts."""

    share: float
    prompts: int
    tokens: int
    """Of each hot prompt."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one shape, `rate` a second."""

    shape: Shape
    rate: float
    burstiness: float = 1.0
    """Coefficient of variation of the times between two arrivals; 1: Poisson."""
    longer: float = 1.0
    """Prompts are so many times as long as the shape's."""
    hot: Hot | None = None

    def asks(self, seed: str, begin_s: float, seconds: float, longest: int) -> Iterator[Ask]:
        """In the order of arrival, from `begin_s` on. A prompt and its answer together are at most `longest` tokens."""
        source = random.Random(seed)
        repeated = (
            [_prompt(random.Random(f"hot{n}"), self.hot.tokens) for n in range(self.hot.prompts)] if self.hot else []
        )
        shape, at_s, number = 1.0 / self.burstiness**2, 0.0, 0
        while self.rate > 0 and (at_s := at_s + source.gammavariate(shape, 1.0 / (shape * self.rate))) < seconds:
            answer = self.shape.answer.draw(source)
            if self.hot is not None and source.random() < self.hot.share:
                prompt = source.choice(repeated)
            else:
                prompt = _prompt(source, min(self.shape.prompt.draw(source, self.longer), longest - answer))
            yield Ask(begin_s + at_s, f"{seed}-{number}", prompt, answer)
            number += 1


def asks(phases: Sequence[tuple[float, Sequence[Stream]]], seed: int, longest: int) -> Iterator[Ask]:
    """All phases (seconds, streams) one after the other, in the order of arrival."""
    begin_s = 0.0
    for place, (seconds, streams) in enumerate(phases):
        yield from together(
            *(one.asks(f"{seed}.{place}.{n}", begin_s, seconds, longest) for n, one in enumerate(streams))
        )
        begin_s += seconds


def fingerprint(asked: Iterable[Ask]) -> str:
    """SHA-256 over moments, prompts and answer lengths: two runs with one fingerprint were asked the same."""
    digest = hashlib.sha256()
    for ask in asked:
        digest.update(struct.pack(f"<dI{len(ask.prompt)}H", ask.at_s, ask.answer_tokens, *ask.prompt))
    return digest.hexdigest()


def _prompt(source: random.Random, tokens: int) -> tuple[int, ...]:
    return tuple(source.choices(_PLAIN, k=tokens))
