"""`vllm-governor cost` over a ledger made by hand."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from controller.__main__ import app
from controller.cli import cost_table
from controller.operations.cost import Column
from domain.cost import Figure, Tariff, figures
from domain.ledger import EnergySource, LedgerEntry
from store.database import database_url
from store.history import History

MINUTE = timedelta(minutes=1)
NOW = datetime.now(UTC).replace(second=0, microsecond=0)
DAY = timedelta(days=1)
PRICES = ("--per-kwh", "0.8", "--per-network-gb", "0.5")
ENTRY = LedgerEntry(
    at=NOW,
    resolution_s=60,
    setting={"max_num_seqs": 8.0, "max_num_batched_tokens": 2048.0},
    energy_source=EnergySource.COUNTER,
    seconds=60,
    gpu_s=240.0,
    memory_byte_s=60 * 70e9,
    energy_j=60 * 1000.0,
    idle_energy_j=6000.0,
    requests=3000.0,
    prompt_tokens=900_000.0,
    generation_tokens=20_000.0,
    response_bytes=6e7,
    cache_queries=900_000.0,
    cache_hits=540_000.0,
)
THRIFTY = replace(ENTRY, setting={"max_num_seqs": 48.0, "max_num_batched_tokens": 2048.0}, requests=6000.0)


def written(path: Path, entries: Sequence[LedgerEntry], node: str = "gpu1:8000") -> Path:
    async def write() -> None:
        history = History(database_url(str(path)), node)
        await history.open()
        await history.ledger.add(None, entries)
        await history.close()

    asyncio.run(write())
    return path


def ago(minutes: float, entry: LedgerEntry = ENTRY, **changes: Any) -> LedgerEntry:
    return replace(entry, at=NOW - minutes * MINUTE, **changes)


def ran(path: Path | None, *options: str, code: int = 0) -> str:
    db = () if path is None else ("--db", str(path))
    done = CliRunner().invoke(app, ["cost", *db, *options])
    assert done.exit_code == code, done.output
    return done.output if code == 0 else str(done.exception)


def columns(path: Path, *options: str) -> list[dict[str, Any]]:
    made: dict[str, Any] = json.loads(ran(path, "--json", *options))
    found: list[dict[str, Any]] = made["columns"]
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """An hour ago ten minutes at a cap of 8, then twenty at 48, and ten a day before."""
    entries = [ago(60 - i) for i in range(10)] + [ago(50 - i, THRIFTY) for i in range(20)]
    return written(tmp_path / "h.db", [*entries, *(ago(1500 - i, energy_j=30_000.0) for i in range(10))])


def test_the_last_day_is_one_column_of_the_seeds_rows(ledger: Path) -> None:
    output = ran(ledger, *PRICES)
    rows = [line.split("│")[1].strip() for line in output.splitlines() if line.count("│") == 3]
    assert rows[:6] == [
        "memory (GB)",
        "GPU hours",
        "energy (CNY)",
        "network (CNY)",
        "total (CNY)",
        "per 100,000 requests (CNY)",
    ]
    assert "Not in any cost, for want of a price: GPU hours." in output


def test_json_has_the_same_numbers_unrounded(ledger: Path) -> None:
    (column,) = columns(ledger, *PRICES)
    found = column["figures"]
    assert found["energy_kwh"] == 30 * 60_000 / 3.6e6 == 0.5
    assert found["energy_cost"] == pytest.approx(0.4)
    assert found["network_cost"] == pytest.approx(0.9)
    assert found["total_cost"] == pytest.approx(1.3)
    assert found["cost_per_100k_requests"] == pytest.approx(1.3 / 150_000 * 100_000)
    assert found["gpu_hours"] == pytest.approx(2)
    assert found["memory_gb"] == pytest.approx(70)
    assert found["coverage_ratio"] == pytest.approx(30 / 1440)
    assert (found["gpu_cost"], column["unknown"]["gpu_cost"]) == (None, "there is no tariff.per_gpu_hour")


def test_periods_stand_side_by_side(ledger: Path) -> None:
    first, second, third = columns(ledger, "--since", "24h", "--compare", "48h..24h", "--compare", "72h..48h", *PRICES)
    assert [one["figures"]["energy_kwh"] for one in (first, second, third)] == [0.5, pytest.approx(0.0833333), None]
    assert third["unknown"]["energy_kwh"] == "no GPU of the engine said what it used"
    assert third["figures"]["coverage_ratio"] == 0


def test_periods_alone_make_no_column_of_the_last_day(ledger: Path) -> None:
    first, second = columns(ledger, "--compare", "48h..24h", "--compare", "24h..")
    assert (first["figures"]["requests"], second["figures"]["requests"]) == (30_000, 150_000)


def test_settings_stand_side_by_side_the_longest_first_with_the_knobs_that_differ(ledger: Path) -> None:
    first, second = columns(ledger, "--by", "setting")
    assert (first["setting"], second["setting"]) == ({"max_num_seqs": 48}, {"max_num_seqs": 8})
    assert first["figures"]["requests_per_joule"] == 2 * second["figures"]["requests_per_joule"] == 0.1


def test_settings_are_told_apart_by_one_knob(ledger: Path) -> None:
    (only,) = columns(ledger, "--by", "max_num_batched_tokens")
    assert only["setting"] == {"max_num_batched_tokens": 2048}
    assert only["figures"]["measured_s"] == 1800


def test_nodes_are_summed_or_told_apart(ledger: Path) -> None:
    written(ledger, [ago(60 - i) for i in range(10)], "gpu2:8000")
    (fleet,) = columns(ledger)
    (one,) = columns(ledger, "--node", "gpu2:8000")
    assert (fleet["figures"]["requests"], one["figures"]["requests"]) == (180_000, 30_000)
    assert fleet["figures"]["memory_gb"] == pytest.approx(140)


def test_what_broke_the_measuring_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "h.db", [ago(5, gap_s=90.0, note="the daemon did not run")])
    assert f"A: {NOW - 5 * MINUTE:%Y-%m-%d %H:%M} gpu1:8000: the daemon did not run" in ran(path)


def test_an_unknown_figure_is_called_so_with_its_reason(tmp_path: Path) -> None:
    blind = ago(5, energy_source=EnergySource.NONE, energy_j=None, idle_energy_j=None)
    output = ran(written(tmp_path / "h.db", [blind]), *PRICES)
    assert "A: no GPU of the engine said what it used: energy (CNY), total (CNY)," in output
    assert "│ energy measured by" in output
    assert "unknown │" in output


def test_energy_of_a_part_of_the_time_is_said_to_be_one(tmp_path: Path) -> None:
    blind = ago(4, energy_source=EnergySource.NONE, energy_j=None, idle_energy_j=None)
    output = ran(written(tmp_path / "h.db", [ago(5), blind]), *PRICES)
    assert "A: the energy is that of 50% of the measured time." in output


def test_an_empty_ledger_says_so(tmp_path: Path) -> None:
    assert "Nothing was measured in that time." in ran(written(tmp_path / "h.db", []))


def test_a_column_without_a_measurement_says_that_once(ledger: Path) -> None:
    output = ran(ledger, "--compare", "72h..48h", "--compare", "24h..", *PRICES)
    assert [line for line in output.splitlines() if line.startswith("A: ")][1:] == [
        "A: nothing was measured in that time."
    ]


def test_the_tariff_comes_from_the_daemons_settings(ledger: Path, tmp_path: Path) -> None:
    config = tmp_path / "governor.toml"
    config.write_text(f'[store]\nurl = "{ledger}"\n[tariff]\ncurrency = "EUR"\nper_kwh = 0.3\nper_gpu_hour = 2\n')
    made = json.loads(ran(ledger, "--config", str(config), "--per-kwh", "0.4", "--json"))
    assert made["tariff"] == {"currency": "EUR", "per_kwh": 0.4, "per_gpu_hour": 2, "per_network_gb": None}
    assert made["columns"][0]["figures"]["total_cost"] == pytest.approx(0.5 * 0.4 + 2 * 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--compare", "48h"), "a period is written FROM..TO"),
        (("--compare", "24h..48h"), "it ends before it begins"),
        (("--compare", "x..24h"), "cannot use --compare x"),
        (("--since", "1h", "--until", "2h"), "it ends before it begins"),
        (("--by", "colour"), "cannot use --by colour"),
        (("--by", "setting", "--compare", "2h..1h"), "either settings or periods"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_with_its_reason(
    ledger: Path, options: tuple[str, ...], words: str
) -> None:
    assert words in ran(ledger, *options, code=1)


@pytest.mark.parametrize("width", [80, 120])
def test_three_columns_fit_the_terminal(width: int) -> None:
    """With numbers as large as a year of a fleet makes them."""
    large = replace(ENTRY, energy_j=3e13, gpu_s=3e10, requests=5e9, generation_tokens=2e12, response_bytes=5e15)
    tariff = Tariff("CNY", 0.8, 10.0, 0.5)
    made = figures([large, replace(large, energy_source=EnergySource.POWER)], 60, tariff)
    made = replace(made, joules_per_token=Figure(0.00001234))
    column = Column(NOW - DAY, NOW, {"max_num_seqs": 8.0, "max_num_queued_reqs": None}, made, 3600, ("a note",))
    console = Console(width=width, record=True, file=io.StringIO())
    for part in cost_table.parts([column] * 3, tariff):
        console.print(part)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.count("│") == 5]
    split = [row[1] for row in rows if not row[0]]
    assert not any("…" in line for line in lines)
    assert split == ([] if width == 120 else ["power"]), "a number that is broken in two is no number"
