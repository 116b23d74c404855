"""Two generators are given the same load, and what they say is put side by side."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("vllm")

from bench.compare import generators
from bench.compare.asking import Asked, served
from bench.virtual.workload import Ask


def test_the_trace_has_each_requests_moment_and_lengths_and_no_prompt_twice() -> None:
    asks = [Ask(0.5, "a", (8,) * 5, 4), Ask(1.25, "b", (8,) * 5, 1)]
    first, second = (json.loads(line) for line in generators.trace(asks).splitlines())
    assert (first["timestamp"], first["input_length"], first["output_length"]) == (0.5, 5, 4)
    assert (second["timestamp"], second["input_length"], second["output_length"]) == (1.25, 5, 1)
    assert first["hash_ids"] != second["hash_ids"]


def test_both_are_told_in_seconds_under_the_same_names() -> None:
    found = Asked([served(Ask(60.0, "a", (8,) * 5, 3), [60.5, 60.51, 60.75], 3)], [0.01, 0.24], late_s=[0.001])
    result = {f"{q}_{name}_ms": 500.0 for q in ("p50", "p99") for name in ("ttft", "itl", "e2el")} | {"completed": 7}
    ours, theirs = generators.ours(found), generators.theirs(result)
    assert ours.keys() == theirs.keys()
    assert (ours["p50_ttft_s"], ours["p99_itl_s"], ours["p99_e2e_s"], ours["answered"]) == (0.5, 0.24, 0.75, 1)
    assert (theirs["p99_e2e_s"], theirs["answered"], theirs["late_p99_s"]) == (0.5, 7, None)
