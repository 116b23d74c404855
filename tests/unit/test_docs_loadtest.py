"""docs/loadtest.md tells of options that the load tests have, and of all that are theirs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from loadtest.plan import Limits, Plan
from tests.docs_text import ROOT, blocks, spans

PAGE = ROOT / "docs" / "loadtest.md"
OURS = ("What is asked of the server", "The steps", "What ends it")


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """What each says of itself; in a process of its own, since locust changes Python's sockets."""

    def said(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    locusts = said("-m", "locust")
    return {name: said(f"loadtest/{name}") + locusts for name in ("mixed_workload.py", "stepped.py")}


def options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])(--[a-z][\w-]+|-[a-z]\b)", text))


def test_every_option_that_is_told_is_there(helps: dict[str, str]) -> None:
    told = {line for text in (*blocks(PAGE), *spans(PAGE)) for line in text.splitlines()}
    lines = [line for line in told if line.startswith(("--", "-")) or "locust -f" in line]
    assert lines
    for line in lines:
        name = next((one for one in helps if one in line), None)
        known = options(helps[name]) if name else set().union(*map(options, helps.values()))
        assert options(line) <= known, line


def test_every_option_of_ours_is_told(helps: dict[str, str]) -> None:
    sections = re.split(r"\n(?=\S)", helps["stepped.py"])
    ours = set().union(*(options(one) for one in sections if one.startswith(OURS))) | {"--think-s"}
    assert len(ours) > 15
    assert ours <= options(PAGE.read_text(encoding="utf-8"))


def test_the_seeds_numbers_are_the_defaults_that_the_page_tells() -> None:
    plan, limits, text = Plan(), Limits(), PAGE.read_text(encoding="utf-8")
    assert f"{', '.join(f'{qps:g}' for qps in plan.stages_qps[:-1])} and {plan.stages_qps[-1]:g} QPS" in text
    assert f"{plan.stage_s / 60:g} minutes each" in text
    assert f"{plan.step_qps:g} QPS more every {plan.step_s:g} s" in text
    assert f"{100 * limits.error_ratio:g} % of the requests" in text
    assert f"P99 passes {limits.p99_s:g} s" in text
