"""docs/check.md: the table of checks is what the checks are.

Belongs here: holding the two against each other. Never: what a check does (tests/unit/controller/preflight).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.preflight.checks import CHECKS
from controller.preflight.result import Check, State
from controller.preflight.running import LIMIT_S
from tests.nvml import NvmlRig, scripted_nvml
from tests.preflight_cases import CASES
from tests.preflight_scene import Case, Scene

TEXT = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for line in TEXT.partition("## Every check")[2].splitlines()
    if line.startswith("| `")
    for cells in [re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))]
}
CURED = [case for case in CASES if case.cure is not None]


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


def test_the_table_has_every_check_in_its_order_and_no_other() -> None:
    assert list(ROWS) == [check.name for check in CHECKS]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_row_says_what_has_to_hold_what_can_come_of_it_and_who_asks(check: Check) -> None:
    asks, states, _cure, source = ROWS[check.name]
    told = ", ".join(state.value.replace("_", " ") for state in State if state in check.states)
    assert (asks, states, source) == (check.asks, told, check.source)


@pytest.mark.parametrize("case", CURED, ids=lambda case: case.id)
async def test_a_row_names_the_program_of_every_cure(scene: Scene, case: Case) -> None:
    case.make(scene)
    cure = (await scene.ask(case.check)).cure
    assert cure is not None
    programs = re.findall(r"(?:^|&& |\| )(?:sudo )?\(?(?:umask \d+ && )?([\w-]+)", cure)
    assert programs
    assert any(program in ROWS[case.check][2] for program in programs), cure


def test_every_state_has_a_line_and_the_limit_is_the_limit() -> None:
    for state in State:
        assert f"\n| {state.value.replace('_', ' ')} | " in TEXT
    assert f"takes longer than {LIMIT_S:g} s" in TEXT
