"""The proof runs what its plan says, and touches the page once all of it is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.proof import command
from bench.proof.plan import PLAN
from bench.setup import places
from bench.tables import summary
from bench.tables.places import has

RATIO = {"ratio": 1.25, "half95": 0.05}


def document(scenario: str) -> dict[str, Any]:
    figures = dict.fromkeys(("p99_ttft_s", "p99_itl_s", "p99_e2e_s", "qps_per_w", "rejected_ratio", "good_ratio"), 0.5)
    ours = {**figures, "goodput_after_30s": 2.0, "goodput_after_30s_half95": 0.1, "good_ratio_after_30s": 0.97}
    return {
        "scenario": scenario,
        "gpu": "A100-80G",
        "ours": "model",
        "best_fixed": "fixed-8-256",
        "contenders": {"model": {**ours, "changes": 3, "reversals": 1}},
        "ratios": {"model": {"ratio": 1.0, "half95": 0.0}, "fixed-8-256": RATIO, "vllm_default": RATIO},
    }


class Runs:
    """Stands in for `bench compare`: notes its arguments and writes what it would."""

    def __init__(self, fails_at: str = "") -> None:
        self.asked: list[list[str]] = []
        self.fails_at = fails_at

    def main(self, arguments: Sequence[str]) -> int:
        self.asked.append(list(arguments))
        scenario = arguments[arguments.index("--scenario") + 1]
        if scenario == self.fails_at:
            return 3
        Path(arguments[-1]).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments[-1]).write_text(json.dumps(document(scenario)))
        return 0


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "compare.md"
    path.write_text("".join(f"<!-- table {one.scenario} A100-80G -->\n<!-- end -->\n" for one in PLAN))
    return path


def test_what_is_chosen_runs_on_the_named_seeds_and_its_tables_are_written(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs()
    monkeypatch.setattr(command, "compare", runs)
    chosen = ["--only", "steady,flash", "--docs", str(page.parent), "--into", str(tmp_path / "out"), "--json"]
    assert command.main([*chosen, "--seeds", "3", "--first-seed", "21"]) == 0
    assert [one[one.index("--scenario") + 1] for one in runs.asked] == ["steady", "flash"]
    assert all(one[:4] == ["--seeds", "3", "--first-seed", "21"] for one in runs.asked)
    assert page.read_text().count("| model | 2.000") == 2
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["scenarios"]["flash"]["ratios"]["vllm_default"] == RATIO


def test_a_comparison_that_fails_ends_the_proof_and_leaves_the_page(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = page.read_text()
    monkeypatch.setattr(command, "compare", Runs(fails_at="idle"))
    chosen = ["--only", "steady,idle,flash", "--docs", str(page.parent), "--into", str(tmp_path / "out")]
    assert command.main(chosen) == 3
    assert page.read_text() == before


def test_the_page_has_a_place_for_every_table_of_the_proof() -> None:
    text = (places.ROOT / "docs" / "compare.md").read_text()
    wanted = [f"{one.scenario} {one.gpu}" for one in PLAN]
    others = ("batching A100-80G", "cpu", "real flash A100-80G", summary.NAME)
    assert [name for name in (*wanted, *others) if not has(text, name)] == []
    seeds = (places.ROOT / "docs" / "benchmarks.md").read_text()
    assert [name for name in ("seeds schemes", "seeds load", "seeds ledger") if not has(seeds, name)] == []


def test_an_unknown_comparison_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "steady,rain"])
    assert "cannot run rain: known are shift55" in capsys.readouterr().err


def test_the_summary_has_a_row_a_comparison_and_nothing_for_who_took_no_part() -> None:
    _, _, row = summary.table([document("flash")]).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:4] == ["flash", "A100-80G", "2.000", "97.0%"]
    assert cells[4:8] == ["1.250 ± 0.050 (fixed-8-256)", "", "1.250 ± 0.050", ""]
