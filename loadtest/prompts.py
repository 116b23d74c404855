"""The seeds' mixed hot and cold load as request bodies, from a random seed.

Belongs here: which prompt comes next, and its JSON. Never: sending it. Prompts are words and not token numbers, since
most servers take nothing else; a word is between one token and two for usual tokenizers.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from loadtest.options import Common

HOT_WORDS = (64, 160)
LONG_WORDS = (256, 400)
SHORT_WORDS = (16, 48)
WORDS = """
    account balance branch budget capital card cash charge claim client contract cost credit currency data date debt
    deposit due fee file fund gain index interest invoice issue item ledger limit loan margin market month note offer
    order owner paper pay period plan policy price profit quarter rate record report return risk sale saving share
    stock sum tax term trade transfer trust value week yield
""".split()  # noqa: SIM905  # a list of them would take a line each


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to be. `kind` is hot, long or short."""

    kind: str
    words: int
    body: str


class Prompts:
    """Draws them. The same options and `stream` draw the same ones in the same order; the hot ones are the same for
    every `stream`, so that several load processes share them and nothing else.
    """

    def __init__(self, options: Common, model: str, stream: int = 0) -> None:
        self._options = options
        self._model = model
        self._random = random.Random(f"hot {options.seed}")
        self._hot = [self._make("hot", HOT_WORDS) for _ in range(options.hot_prompts)]
        self._random = random.Random(f"cold {options.seed} {stream}")

    def draw(self) -> Prompt:
        """The next one."""
        if self._random.random() < self._options.hot_share:
            return self._random.choice(self._hot)
        if self._random.random() < self._options.long_share:
            return self._make("long", LONG_WORDS)
        return self._make("short", SHORT_WORDS)

    def _make(self, kind: str, lengths: tuple[int, int]) -> Prompt:
        words = self._random.randint(*lengths)
        text = " ".join(self._random.choices(WORDS, k=words))
        return Prompt(kind, words, json.dumps(self._request(text)))

    def _request(self, text: str) -> dict[str, Any]:
        options = self._options
        asked: dict[str, Any] = (
            {"messages": [{"role": "user", "content": text}]} if options.endpoint == "chat" else {"prompt": text}
        )
        asked |= {"model": self._model, "max_tokens": options.max_tokens, "temperature": 0, "stream": True}
        return asked if options.plain else asked | {"ignore_eos": True}
