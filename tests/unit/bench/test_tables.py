"""Tables go to their places on a page and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.tables import batching, comparison, generators, main, seeds
from bench.tables.places import NoPlace, fill

PAGE = "before\n<!-- table a b -->\nold\n<!-- end -->\nafter\n<!-- table c d -->\nkept\n<!-- end -->\n"


def contender(goodput: float) -> dict[str, Any]:
    figures = dict.fromkeys(("p99_ttft_s", "p99_itl_s", "p99_e2e_s", "qps_per_w", "rejected_ratio", "good_ratio"), 0.5)
    return {**figures, "goodput_after_30s": goodput, "goodput_after_30s_half95": None, "changes": 2, "reversals": 1}


DOCUMENT: dict[str, Any] = {
    "scenario": "a",
    "gpu": "b",
    "ours": "model",
    "contenders": {"low": contender(1.0), "model": contender(2.0)},
    "ratios": {"low": {"ratio": 2.0, "half95": 0.25}, "model": {"ratio": 1.0, "half95": 0.0}},
}


def test_a_table_takes_its_own_place_and_leaves_the_rest() -> None:
    once = fill(PAGE, "a b", "new")
    assert once == PAGE.replace("old", "new")
    assert fill(once, "a b", "new") == once


def test_a_table_without_a_place_is_refused_with_the_remedy() -> None:
    with pytest.raises(NoPlace, match="no place for x y; add the lines <!-- table x y --> and <!-- end -->"):
        fill(PAGE, "x y", "new")


def test_the_best_comes_first_and_ours_has_no_ratio_to_itself() -> None:
    _, _, first, second = comparison.table(DOCUMENT).splitlines()
    assert first.startswith("| model | 2.000 |  | 50.0% |")
    assert second.startswith("| low | 1.000 | 2.00 ± 0.25 | 50.0% |")


def test_the_command_writes_all_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, good, stray = (tmp_path / name for name in ("page.md", "good.json", "stray.json"))
    page.write_text(PAGE)
    good.write_text(json.dumps(DOCUMENT))
    stray.write_text(json.dumps({**DOCUMENT, "gpu": "elsewhere"}))
    assert main([str(page), str(good), str(stray)]) == 1
    assert page.read_text() == PAGE
    assert "cannot write" in capsys.readouterr().err
    assert main([str(page), str(good)]) == 0
    assert "| model | 2.000 |" in page.read_text()


def test_phases_stand_in_a_table_of_their_own_where_the_page_wants_one(tmp_path: Path) -> None:
    by_phase = {
        "phase_goodput": [6.0, 22.9],
        "phase_p99_ttft_s": [None, 1.17],
        "phase_rejected_ratio": [0.0, 0.049],
    }
    document = {
        **DOCUMENT,
        "phases": [{"name": "before"}, {"name": "crowd"}],
        "contenders": {"model": {**contender(2.0), **by_phase}},
    }
    page, one = tmp_path / "page.md", tmp_path / "one.json"
    one.write_text(json.dumps(document))
    page.write_text(PAGE)
    assert main([str(page), str(one)]) == 0
    assert "crowd" not in page.read_text()
    page.write_text(PAGE + "<!-- table phases a b -->\n<!-- end -->\n")
    assert main([str(page), str(one)]) == 0
    assert "| contender | before | crowd |" in page.read_text()
    assert "| model | 6.00/s; ; 0.0% | 22.90/s; 1.17 s; 4.9% |" in page.read_text()


FIGURES = {
    "p99_e2e_s": 3.456,
    "p99_ttft_s": 0.5,
    "p99_itl_s": 0.05,
    "qps_per_w": 0.0251,
    "power_w": 271.4,
    "fragmentation": 0.031,
    "hit_rate": None,
    "good_ratio": 0.99,
}
SCHEME: dict[str, Any] = {
    "qps": 6.5,
    "qps_half95": 0.25,
    "qps_ratio": 1.0,
    "qps_ratio_half95": None,
    "at_capacity": FIGURES,
    "at_load": {"0.8": FIGURES},
}


def test_a_batching_table_has_a_column_a_scheme_and_goes_to_its_own_place(tmp_path: Path) -> None:
    document = {
        "table": "batching",
        "gpu": "b",
        "kept_ratio": 0.99,
        "rates": {"0.8": 5.2},
        "schemes": {"static 8": SCHEME, "dynamic": {**SCHEME, "qps": 13.0, "qps_ratio": 2.0}},
    }
    page, one = tmp_path / "page.md", tmp_path / "one.json"
    page.write_text(PAGE + "<!-- table batching b -->\n<!-- end -->\n")
    one.write_text(json.dumps(document))
    assert main([str(page), str(one)]) == 0
    rows = page.read_text().splitlines()
    assert "|  | static 8 | dynamic |" in rows
    assert "| requests/s with 99% inside the objectives | 6.50 ± 0.25 | 13.00 ± 0.25 |" in rows
    assert "| times static | 1.00 | 2.00 |" in rows
    assert "| P99 end to end, at 0.8 of static's capacity (5.20 requests/s) | 3.46 s | 3.46 s |" in rows
    assert "| prompt tokens found in the cache |  |  |" in rows
    assert batching.table(document) in page.read_text()


AT = {"p99_e2e_s": 4.0, "fragmentation": 0.02, "qps_per_w": 0.05, "power_w": 200.0}
BATCHING = {
    "table": "batching",
    "gpu": "b",
    "schemes": {
        name: {"qps": qps, "at_capacity": AT, "at_load": {"1": AT}}
        for name, qps in (("static 8", 10.0), ("dynamic", 20.0), ("dynamic + tiers", 20.0))
    },
}


def test_the_seeds_tables_have_their_figures_and_ours_and_ratios_to_the_first() -> None:
    _, _, static, dynamic, _ = seeds.schemes(BATCHING).splitlines()
    assert static.startswith("| static 8 | 42 (1.00 x) | 10.0 (1.00 x) | 350 ms (1.00 x) | 4.00 s (1.00 x) | 18 %")
    assert dynamic.startswith("| dynamic | 58 (1.38 x) | 20.0 (2.00 x) | 270 ms (0.77 x) | 4.00 s (1.00 x) | 12 %")
    hours = seeds.ledger(BATCHING).splitlines()[2]
    assert hours.endswith("| 2.78 (1.00 x) | 1.39 (0.50 x) | 1.39 (0.50 x) |"), (
        "100,000 requests at 10 and at 20 a second"
    )


def test_a_document_goes_to_any_page_that_wants_one_of_its_tables_and_to_no_other(tmp_path: Path) -> None:
    page, found = tmp_path / "page.md", tmp_path / "batching.json"
    found.write_text(json.dumps(BATCHING))
    page.write_text("<!-- table seeds ledger -->\n<!-- end -->\n")
    assert main([str(page), str(found)]) == 0
    assert "GPU hours" in page.read_text()
    page.write_text(PAGE)
    assert main([str(page), str(found)]) == 1


def test_the_seeds_load_has_the_default_first_and_ours_second() -> None:
    one = {"p99_e2e_s": 2.0, "kv_usage": 0.5, "fragmentation": 0.02, "busy_ratio": 0.9, "rejected_ratio": 0.0}
    by_name = {"vllm_default": one, "model": {**one, "p99_e2e_s": 1.0, "rejected_ratio": 0.25}}
    rates = dict.fromkeys(("10", "30", "50", "100"), by_name)
    _, _, first, *_ = seeds.load({"kv_gb": 54.0, "rates": rates}).splitlines()
    assert first == (
        "| 10 | 380 ms | 2.00 s; 1.00 s | 48 GB | 27.0 GB; 27.0 GB | 12 % | 2.0 %; 2.0 % | 65 % | 90 %; 90 % "
        "| 0.0 %; 25.0 % |"
    )


def test_the_table_ends_with_the_ratio_and_leaves_out_what_one_does_not_know() -> None:
    one: dict[str, Any] = {column: 2.0 for column, _ in generators._ROWS.values()}
    document = {"generators": {"ours": one, "theirs": {**one, "p99_e2e_s": 3.0, "late_p99_s": None}}}
    *_, e2e, late = generators.table(document).splitlines()
    assert e2e == "| end to end, P99 | 2.00 s | 3.00 s | 1.500 |"
    assert late == "| requests left late, P99 | 2.000 s |  |  |"
