"""The table of docs/policies.md that gives each row of the seeds a home: nothing in it may be missing or out of date.

Belongs here: reading the table, and holding it against settings, constants and tests. Never: what a policy does.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from policies.guards import GuardSettings
from policies.registry import PoliciesSettings

ROOT = Path(__file__).parents[2]
HEADING = "## The seeds, row by row"
ROWS = 116
"""Counted in the seeds; a row that is left out is a number without a home."""
PARTS = {"alerts", "estimator", "ledger", "plugin", "preflight"}
"""Homes that are no policy: what tells people, what measures, adds up, carries a knob, looks before the work."""
LATER = {
    "connections",
    "load test",
    "outlook",
    "proof",
    "recommendations",
}
"""The steps that rows may wait for."""
ROOTS = {"policies": PoliciesSettings(), "guards": GuardSettings()}


class Row(NamedTuple):
    """One row; settings and tests without their backquotes."""

    seeds: str
    home: str
    settings: tuple[str, ...]
    tests: tuple[str, ...]
    note: str


def _quoted(cell: str) -> tuple[str, ...]:
    return () if cell == "-" else tuple(re.findall(r"`([^`]+)`", cell))


def _rows() -> list[Row]:
    text = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    _, found, part = text.partition(HEADING)
    assert found, f"docs/policies.md has no section {HEADING!r}"
    rows = []
    for line in part.split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| ") or cells[0] in ("seeds", "---"):
            continue
        assert len(cells) == 5, f"not five cells: {line}"
        seeds, home, settings, tests, note = cells
        rows.append(Row(seeds, home.strip("`"), _quoted(settings), _quoted(tests), note))
    return rows


TABLE = _rows()
BUILT = [row for row in TABLE if not row.home.startswith("later: ")]
WAITING = [row for row in TABLE if row.home.startswith("later: ")]


def _names(row: Row) -> str:
    return row.seeds


def _value(path: str) -> Any:
    """What a dotted name stands for. Raises AttributeError, KeyError, IndexError or ImportError."""
    if ":" in path:
        module, _, path = path.partition(":")
        found: Any = importlib.import_module(module)
        steps = path.split(".")
    else:
        root, *steps = path.split(".")
        found = ROOTS[root]
    while steps:
        name, *indices = re.findall(r"[^\[\]]+", steps.pop(0))
        if name == "rules":
            rules = {rule.name: rule for rule in found.in_force}
            found = rules[steps.pop(0)]
        else:
            found = getattr(found.condition if name == "threshold" and hasattr(found, "condition") else found, name)
        for index in indices:
            found = found[int(index)]
    return found


def _default(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    return words[text] if text in words else float(text)


def test_no_row_is_lost() -> None:
    assert len(TABLE) == ROWS
    assert len({row.seeds for row in TABLE}) == ROWS


@pytest.mark.parametrize("row", BUILT, ids=_names)
def test_a_row_that_is_built_names_a_home_that_exists_and_a_test(row: Row) -> None:
    assert row.home in {*PoliciesSettings.model_fields, *PARTS}
    assert row.tests
    assert row.settings or row.note, "without a setting the row has to say what stands in"


@pytest.mark.parametrize("row", BUILT, ids=_names)
def test_its_settings_exist_and_have_the_defaults_that_it_names(row: Row) -> None:
    for setting in row.settings:
        path, equals, value = setting.partition(" = ")
        assert equals, f"{setting} names no default"
        found = _value(path)
        assert found == _default(value), f"{path} is {found!r}"


@pytest.mark.parametrize("row", BUILT, ids=_names)
def test_its_tests_exist(row: Row) -> None:
    for test in row.tests:
        path, _, name = test.partition("::")
        source = ROOT / path
        assert source.is_file(), f"there is no {path}"
        assert re.search(rf"^(async )?def {re.escape(name)}\(", source.read_text(encoding="utf-8"), re.MULTILINE), test


def test_a_row_that_waits_names_its_step_and_nothing_that_holds_it_already() -> None:
    assert {row.home.removeprefix("later: ") for row in WAITING} <= LATER
    assert not any(row.settings or row.tests for row in WAITING)


@pytest.mark.parametrize(
    "path",
    ["policies.batch_resize.flor", "policies.profiles:A100_80G.max", "policies.alert_thresholds.rules.gpu.for_s"],
)
def test_a_name_that_leads_nowhere_is_found_out(path: str) -> None:
    with pytest.raises((AttributeError, KeyError)):
        _value(path)
