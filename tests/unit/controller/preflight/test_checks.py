"""Every check comes out with every state that it declares, in words with numbers, with a command where it has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.setup.engines import VERSIONS
from controller.preflight.checks import CHECKS, chunked_prefill, vllm_version
from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, State
from tests.nvml import NvmlRig, scripted_nvml
from tests.preflight_cases import CASES
from tests.preflight_scene import BY_NAME, Case, Scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    with scripted_nvml(tmp_path) as nvml:
        rig = NvmlRig(nvml)
        (tmp_path / "scene").mkdir()
        made = Scene(tmp_path / "scene", rig)
        yield made
        for undo in made.undo:
            undo()
        await rig.sensor.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_check_comes_out_as_the_scene_has_it(scene: Scene, case: Case) -> None:
    case.make(scene)
    found = await scene.ask(case.check)
    assert (found.state, found.why) == (case.state, found.why)
    assert case.says in found.why
    if case.cure is None:
        assert found.cure is None
    else:
        assert found.cure is not None
        assert case.cure in found.cure


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_state_that_a_check_declares_has_a_scene_and_no_other_has(check: Check) -> None:
    assert {case.state for case in CASES if case.check == check.name} == check.states


def test_each_check_is_named_as_its_file_and_there_is_no_file_that_is_not_listed() -> None:
    folder = Path(__file__).parents[4] / "controller" / "preflight" / "checks"
    assert sorted(BY_NAME) == sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    assert len(BY_NAME) == len(CHECKS)


def test_every_check_can_be_good_and_can_be_bad() -> None:
    assert [check.name for check in CHECKS if PASS not in check.states or not check.states & {WARN, FAIL}] == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
async def test_a_check_that_raises_is_unknown_with_the_error(scene: Scene, check: Check) -> None:
    def breaks(_around: object) -> None:
        raise RuntimeError("a file that nobody foresaw")

    broken = Check(check.name, check.asks, check.source, check.states, breaks)  # type: ignore[arg-type]
    found = broken.answer(await scene.around())
    assert found.state is UNKNOWN
    assert "RuntimeError: a file that nobody foresaw" in found.why


def test_the_versions_that_count_as_tried_are_those_that_the_bench_tries() -> None:
    assert vllm_version.TRIED == VERSIONS


def test_the_plugin_says_that_prompts_are_whole_in_the_words_that_the_check_looks_for() -> None:
    source = Path(__file__).parents[4] / "engine" / "vllm_governor_engine" / "knobs" / "long_prefill.py"
    assert f'Support("off", "{chunked_prefill.OFF}' in source.read_text(encoding="utf-8")


def test_a_state_is_written_as_the_rest_api_has_it() -> None:
    assert [state.value for state in State] == ["pass", "warn", "fail", "not_applicable", "unknown"]
