"""Which token the emulated GPU produces. The rule belongs here; who asked for the token never does.

A token depends on the request's id and on its position in the answer and on nothing else, so whoever holds an answer
can tell whether it is this request's own, whole, in order and without a repeat.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from bench.tiny_model import FIRST_PRINTABLE_ID, PRINTABLE_COUNT

_MASK = 0xFFFFFFFF


def seed_of(request_id: str) -> int:
    """The 32-bit number that stands for a request id; two requests share one only by a rare chance."""
    return zlib.crc32(request_id.encode())


@dataclass(frozen=True, slots=True)
class TokenRule:
    """Deterministic answers out of a range of token ids.

    The default range is the printable ASCII characters of ``bench.tiny_model``, one character a token, so that the
    text of an answer is as long as its tokens and no special token ever ends it.
    Raises ``ValueError`` when the range is empty or begins below 0.
    """

    first_id: int = FIRST_PRINTABLE_ID
    """Lowest token id produced."""
    count: int = PRINTABLE_COUNT
    """How many ids are used, from ``first_id`` on; the end must lie within the model's vocabulary."""

    def __post_init__(self) -> None:
        if self.first_id < 0:
            raise ValueError(f"cannot use first_id={self.first_id!r}: it must be at least 0")
        if self.count < 1:
            raise ValueError(f"cannot use count={self.count!r}: it must be at least 1")

    def token(self, seed: int, position: int) -> int:
        """The token at ``position`` (0 is the first of the answer) of the request whose ``seed_of`` is ``seed``."""
        mixed = (seed + (position + 1) * 0x9E3779B1) & _MASK
        mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & _MASK
        return self.first_id + (mixed ^ (mixed >> 13)) % self.count

    def answer(self, request_id: str, length: int) -> list[int]:
        """The first ``length`` tokens of the request's answer: what a test expects to receive."""
        seed = seed_of(request_id)
        return [self.token(seed, position) for position in range(length)]
