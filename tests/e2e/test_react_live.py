"""`python -m bench react` on a real vLLM: breaches are provoked, and each is answered by a change that is read back."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.setup import places

BREACHES = 5


@pytest.mark.long
def test_every_provoked_breach_is_seen_and_answered() -> None:
    command = [sys.executable, "-m", "bench", "react", "--breaches", str(BREACHES), "--json"]
    done = subprocess.run(command, cwd=places.ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["n"], found["provoked"], found["unanswered"], found["unseen"]) == (BREACHES, BREACHES, 0, 0)
    assert 0 < found["breach_to_applied_s_p50"] <= found["breach_to_applied_s_p99"]
    assert found["breach_to_applied_s_p99"] <= found["load_to_applied_s_p99"]
    assert found["goal_s"] == pytest.approx(found["tick_s"] + found["step_s"] + 0.1)
