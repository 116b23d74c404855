"""The laws of testing on several vLLMs: which packages an environment needs of its own, and what the table says."""

from __future__ import annotations

from typing import Any

from bench.engines.table import render
from bench.setup import engines, places, venvs


def test_an_environment_needs_no_extra_and_nothing_that_does_not_fit_the_cpus_torch() -> None:
    requirements = [
        "xgrammar==0.2.7; platform_machine == 'x86_64'",
        "torch==2.13.0+cpu",
        "torchvision; platform_machine != 's390x'",
        "torchcodec>=0.14",
        'pandas; extra == "bench"',
        'scipy; python_version > "3" and extra == "audio"',
    ]
    assert engines.needed(requirements) == ["xgrammar==0.2.7; platform_machine == 'x86_64'", "torch==2.13.0+cpu"]


def test_the_newest_version_is_the_environment_that_the_others_share() -> None:
    assert engines.environment(venvs.VLLM_VERSION) == places.VLLM_ENV
    assert engines.VERSIONS[-1] == venvs.VLLM_VERSION
    others = {engines.environment(version) for version in engines.FURTHER_VERSIONS}
    assert len(others) == len(engines.FURTHER_VERSIONS)
    assert places.VLLM_ENV not in others


def _knob(support: str, reason: str | None = None) -> dict[str, Any]:
    return {"support": support, "reason": reason}


def _found(cap: dict[str, Any], returncode: int = 0) -> dict[str, Any]:
    purge = {**_knob("native"), "preempt": _knob("off", "it is not safe")}
    core = {"knobs": {"cap": cap}, "purge": purge}
    return {
        "suite": {"passed": 9, "failed": 1, "returncode": returncode},
        "live_passed": True,
        "live": {"runtime": {"engines": [core]}, "stats": {"engines": [{"kv": {}, "padding": None}]}},
        "kinds": {
            "as it starts": core,
            "other": {**core, "knobs": {"cap": _knob("off", "no such thing")}},
            "same": core,
            "broken": {"failed": "ValueError: no"},
        },
    }


def test_the_table_says_support_by_version_and_each_reason_once() -> None:
    text = render(
        {
            "1": _found(_knob("limited", "step by step")),
            "2": _found(_knob("native")),
            "3": _found(_knob("limited", "step by step")),
        }
    )
    assert "| `cap` | limited [1] | native | limited [1] |" in text
    assert text.count("step by step") == 1
    assert "| `POST purge`: preempt | off [2] | off [2] | off [2] |" in text
    assert "| `GET stats`: kv | native | native | native |" in text
    assert "| `GET stats`: padding | none | none | none |" in text
    assert "| 1 | 9 passed, 1 failed | passed |" in text


def test_other_engines_are_told_by_what_differs() -> None:
    text = render({"1": _found(_knob("native"))})
    assert "| other | `cap` | off [2] |" in text
    assert "| same | all | the same |" in text
    assert "| broken | all | not run: ValueError: no |" in text
    assert "2. no such thing." in text


def test_a_version_that_did_not_start_leaves_its_column_empty() -> None:
    found = {**_found(_knob("native")), "live": None, "live_passed": False}
    text = render({"1": found, "2": _found(_knob("native"))})
    assert "| `cap` | - | native |" in text
    assert "| 1 | 9 passed, 1 failed | failed |" in text
