"""How long prompts and answers are, by kind of work, each from a public source.

Belongs here: the shapes and where they come from. Never: when requests come.

A length is log-normal through two published figures and cut off at the source's longest (or the engine's). Medians and
90th percentiles of the Azure traces were computed from the files of github.com/Azure/AzurePublicDataset
(AzureLLMInferenceTrace_conv.csv, _code.csv; November 2023, described in Patel et al., "Splitwise", ISCA 2024): means of
the conversation trace are 1,155 and 211 tokens, of the code trace 2,048 and 28.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

P90 = 1.2815515655446004
"""The 90th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One length in tokens. Raises ValueError when the figures are out of order."""

    median: float
    p90: float
    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.median < self.p90 <= self.most:
            raise ValueError(f"cannot draw lengths from {self}: 1 <= median < p90 <= most must hold")

    def draw(self, source: random.Random, factor: float = 1.0) -> int:
        """One length, `factor` times as long, the longest too; at least 1."""
        drawn = source.lognormvariate(math.log(self.median), math.log(self.p90 / self.median) / P90)
        return max(1, round(min(self.most, drawn) * factor))


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of work."""

    name: str
    source: str
    prompt: Tokens
    answer: Tokens


CHAT = Shape("chat", "Azure LLM inference trace 2023, conversation", Tokens(1020, 2735, 14050), Tokens(129, 424, 1000))
CODE = Shape("code", "Azure LLM inference trace 2023, code", Tokens(1469, 5194, 7437), Tokens(13, 55, 1899))
SUMMARY = Shape(
    "summary",
    "arXiv summarisation as tabled in Agrawal et al., Sarathi-Serve, OSDI 2024",
    Tokens(7059, 12985, 15000),
    Tokens(208, 371, 1000),
)
RAG = Shape(
    "rag",
    "LongBench as tabled in Zhong et al., DistServe, OSDI 2024: means 1,738 and 91 tokens; the spread is ours",
    Tokens(1534, 2912, 12000),
    Tokens(80, 152, 1000),
)
SHORT = Shape(
    "short",
    "the seeds' question-and-answer: 350 tokens a request on average; the split and the spread are ours",
    Tokens(250, 400, 1000),
    Tokens(70, 120, 400),
)
SHAPES = {shape.name: shape for shape in (CHAT, CODE, SUMMARY, RAG, SHORT)}
