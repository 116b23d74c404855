"""The prompts of the bench's load: mixed short and long ones, part of them repeats of a few hot ones, all from a seed.

What is sent and in which order belongs here. Sending it, timing it and counting it never do.
"""

import json
import random
from dataclasses import dataclass

#: Token ids below this are special tokens in most vocabularies, the tiny model's included.
FIRST_PLAIN_TOKEN = 8


@dataclass(frozen=True, slots=True)
class PromptMix:
    """How prompts are drawn. Shares are 0..1; lengths are tokens, both ends included.

    `hot_share` of the requests repeat one of `hot_count` fixed prompts (the seeds' 35 % and eight); of the rest,
    `long_share` are long and the others short. The tiny model's vocabulary holds 512 ids, so `vocabulary` stays there:
    any real model knows those ids too.
    """

    hot_share: float = 0.35
    hot_count: int = 8
    hot_tokens: tuple[int, int] = (64, 160)
    long_share: float = 0.15
    long_tokens: tuple[int, int] = (256, 400)
    short_tokens: tuple[int, int] = (16, 48)
    vocabulary: int = 512

    def __post_init__(self) -> None:
        for name in ("hot_share", "long_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"cannot draw prompts with {name} = {getattr(self, name)}: give a share from 0 to 1")
        for name in ("hot_tokens", "long_tokens", "short_tokens"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise ValueError(f"cannot draw prompts with {name} = {low}..{high}: give 1 <= low <= high")
        if self.hot_count < 1 or self.vocabulary <= FIRST_PLAIN_TOKEN:
            raise ValueError(
                f"cannot draw prompts with hot_count = {self.hot_count} and vocabulary = {self.vocabulary}: "
                f"give at least 1 hot prompt and more than {FIRST_PLAIN_TOKEN} tokens"
            )

    def longest_tokens(self) -> int:
        """The longest prompt that can be drawn, in tokens."""
        return max(self.hot_tokens[1], self.long_tokens[1], self.short_tokens[1])


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to be: its class (`hot`, `long` or `short`), its length in tokens, its encoded JSON body."""

    kind: str
    tokens: int
    body: bytes


class PromptSource:
    """Draws prompts from a mix. The same seed draws the same prompts in the same order."""

    def __init__(self, mix: PromptMix, *, model: str, max_tokens: int, seed: int) -> None:
        self._mix = mix
        self._random = random.Random(seed)
        self._tail = (
            f',"model":{json.dumps(model)},"max_tokens":{max_tokens},"ignore_eos":true,"temperature":0}}'
        ).encode()
        self._hot = [self._make("hot", mix.hot_tokens) for _ in range(mix.hot_count)]

    def draw(self) -> Prompt:
        """The next prompt."""
        mix = self._mix
        if self._random.random() < mix.hot_share:
            return self._random.choice(self._hot)
        if self._random.random() < mix.long_share:
            return self._make("long", mix.long_tokens)
        return self._make("short", mix.short_tokens)

    def _make(self, kind: str, lengths: tuple[int, int]) -> Prompt:
        tokens = self._random.randint(*lengths)
        ids = self._random.choices(range(FIRST_PLAIN_TOKEN, self._mix.vocabulary), k=tokens)
        return Prompt(kind, tokens, b'{"prompt":[' + ",".join(map(str, ids)).encode() + b"]" + self._tail)
