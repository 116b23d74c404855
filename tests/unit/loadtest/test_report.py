"""What a stepped run came to: the knee, the slope, the exit code."""

from __future__ import annotations

import pytest

from loadtest.answer import Answer
from loadtest.ledger import Account
from loadtest.plan import BASELINE, BLIND, ERRORS, HIGHEST, LATE, LIMIT, MEMORY, P99, STOPPED, Limits, Plan, Step
from loadtest.report import HEADER, code, document, row, summary


def account(qps: float, took_s: float, phase: str = BASELINE) -> Account:
    made = Account(Step(phase, qps, 60.0), lasted_s=60.0)
    for _ in range(200):
        made.end(made.begin(0.0, 0.0), Answer(first_s=0.05, took_s=took_s))
    return made


STAGES = [account(10, 0.38), account(30, 0.62), account(50, 1.1)]


def told(ended: str, *more: Account) -> dict[str, object]:
    return document("http://127.0.0.1:8000", Plan(), Limits(), "kv", [*STAGES, *more], ended)


@pytest.mark.parametrize(
    ("ended", "status"),
    [(ERRORS, 0), (P99, 0), (MEMORY, 0), (HIGHEST, 3), (LATE, 4), (BLIND, 4), (STOPPED, 130)],
)
def test_the_exit_code_says_whether_the_knee_is_known(ended: str, status: int) -> None:
    assert code(f"{ended}: so and so") == status


def test_the_step_in_which_memory_ran_out_is_past_the_knee() -> None:
    made = told(f"{MEMORY}: 99% of the KV cache's blocks are in use", account(70, 1.2, LIMIT))
    assert made["knee"] == {"held_qps": 50, "left_qps": 70, "why": "a limit was met"}
    assert made["slope"] == {"p99_ms_per_qps": 18.0, "at_zero_ms": 160.0, "r2": 0.9643}


def test_a_step_that_the_load_generator_spoiled_says_nothing_of_the_server() -> None:
    made = told(f"{LATE}: requests left 1 s after they were due", account(70, 9.0, LIMIT))
    assert made["knee"]["left_qps"] is None  # type: ignore[index]


def test_a_limit_that_only_the_last_answers_showed_counts_for_its_step() -> None:
    made = told(f"{P99}: 4 s", account(70, 3.2, LIMIT), account(90, 5.0, LIMIT))
    assert (made["knee"]["held_qps"], made["knee"]["left_qps"]) == (50, 70)  # type: ignore[index]


def test_the_lines_say_the_slope_the_knee_and_what_is_unknown() -> None:
    lines = summary(STAGES, Limits(), f"{HIGHEST}: 50 QPS were offered and no limit was met")
    assert lines[1] == "Slope: P99 rises by 18 ms for each QPS more; R2 0.96, where 1 is a straight line."
    assert lines[2].startswith("Knee: not reached, above 50 QPS")
    assert len(row(STAGES[0])) == len(HEADER)
    assert row(STAGES[0]).endswith("unknown")
