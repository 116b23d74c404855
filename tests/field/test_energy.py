"""Field cases E2 and E3 as the ledger answers them: from readings to entries, figures and back from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from controller.history.metering import Metering
from domain.cost import Figures, Tariff, figures
from domain.ledger import EnergySource, LedgerEntry
from domain.readings.gpu import GpuReading
from domain.readings.vllm import VllmReading
from store.database import database_url
from store.history import History
from tests.snapshots import BEGAN, gpu, gpus, snapshot

TARIFF = Tariff("CNY", per_kwh=0.8)


def metered(readings: Sequence[Sequence[GpuReading]], tick_s: float = 1.0, **load: float) -> list[LedgerEntry]:
    """`load`: what each second adds to vLLM's counters."""
    meter, entries = Metering(tick_s), []
    for index, devices in enumerate(readings):
        second = index * tick_s
        vllm = VllmReading(
            running=0,
            generation_tokens=12_345 + second * load.get("generation_tokens", 0),
            requests_finished=second * load.get("requests_finished", 0),
        )
        entries += meter.take(snapshot(second, vllm, gpus=gpus(*devices)))
    return entries + meter.close()


async def told(path: Path, entries: Sequence[LedgerEntry]) -> Figures:
    """What the ledger says of it a day later."""
    history = History(database_url(str(path / "history.db")), "gpu1:8000")
    await history.open()
    await history.ledger.add(None, entries)
    await history.ledger.add(None, entries)  # a write that is repeated counts once
    until = BEGAN + timedelta(days=1)
    summed = await history.ledger.sums(BEGAN, until)
    await history.close()
    return figures(summed, 86_400, TARIFF)


async def test_a_counter_that_goes_back_is_a_gap_with_a_note_and_the_total_never_falls(tmp_path: Path) -> None:
    """Field case E2: 9000000, 9600000, 120000, 720000 mJ are 600 J, a gap and 600 J."""
    entries = metered([[gpu(energy_j=joules)] for joules in (9000.0, 9600.0, 120.0, 720.0)])
    assert [(one.energy_j, one.seconds, one.gap_s) for one in entries] == [(600, 1, 0), (600, 1, 1)]
    assert entries[1].note == "energy counter began anew: GPU-a"
    assert (await told(tmp_path, entries)).energy_kwh.value == pytest.approx(1200 / 3.6e6)


def test_the_other_cards_gain_does_not_hide_the_one_that_went_back() -> None:
    """Field case E2."""
    pairs = [(9000.0, 100.0), (9600.0, 2000.0), (10200.0, 50.0), (10800.0, 650.0)]
    entries = metered([[gpu("GPU-a", energy_j=a), gpu("GPU-b", energy_j=b)] for a, b in pairs])
    assert [(one.energy_j, one.gap_s) for one in entries] == [(2500, 0), (1200, 1)]


async def test_neighbours_are_not_billed(tmp_path: Path) -> None:
    """Field case E3: eight cards of 300 W, vLLM on two: 600 W, which the readings hold alone."""
    entries = metered([[gpu(f"GPU-{name}", energy_j=300.0 * second) for name in "ab"] for second in range(61)])
    assert [(one.energy_j, one.seconds, one.gpu_s) for one in entries] == [(36_000, 60, 120)]
    made = await told(tmp_path, entries)
    assert made.energy_kwh.value == pytest.approx(0.01)
    assert made.energy_cost.value == pytest.approx(0.008)


@pytest.mark.parametrize("source", list(EnergySource)[:2])
def test_mig_rows_count_their_card_once(source: EnergySource) -> None:
    """Field case E3: three MIG rows of 52.6 W on one card."""

    def rows(second: int) -> list[GpuReading]:
        counter = 52.6 * second if source is EnergySource.COUNTER else None
        return [gpu(f"MIG-{i}", parent_uuid="GPU-a", power_w=52.6, energy_j=counter) for i in range(3)]

    (entry,) = metered([rows(second) for second in range(11)])
    assert entry.energy_j == pytest.approx(526)
    assert (entry.energy_source, entry.gpu_s) == (source, 10)


async def test_two_idle_hours_are_idle_energy_without_joules_per_token(tmp_path: Path) -> None:
    """Field case E3: 2 h at 70 W and no token are 0.14 kWh idle, joules per token null."""
    entries = metered([[gpu(energy_j=70.0 * 60 * minute)] for minute in range(121)], tick_s=60.0)
    made = await told(tmp_path, entries)
    assert made.energy_kwh.value == made.idle_kwh.value == pytest.approx(0.14)
    assert (made.joules_per_token.value, made.joules_per_token.why) == (None, "no token was generated")
    assert made.cost_per_1k_requests.value is None


def test_cards_without_a_counter_are_integrated_from_power_and_labelled() -> None:
    """Trapezoids: 100, 300, 100 W over two seconds are 400 J."""
    (entry,) = metered([[gpu(power_w=watts)] for watts in (100.0, 300.0, 100.0)])
    assert (entry.energy_source, entry.energy_j) == (EnergySource.POWER, 400)


def test_power_is_not_integrated_over_a_gap() -> None:
    meter, entries = Metering(1.0), []
    for second in (0, 1, 2, 60, 61):
        entries += meter.take(snapshot(second, gpus=gpus(gpu(power_w=100.0))))
    entries += meter.close()
    assert [(one.energy_j, one.seconds, one.gap_s) for one in entries] == [(200, 2, 0), (100, 1, 58)]


def test_one_card_without_either_leaves_the_energy_unknown() -> None:
    """A part is not passed off as the whole."""
    (entry,) = metered([[gpu("a", energy_j=100.0 * s, power_w=100.0), gpu("b")] for s in range(5)])
    assert (entry.energy_source, entry.energy_j, entry.gpu_s) == (EnergySource.NONE, None, 8)


def test_one_card_without_a_counter_has_all_of_them_integrated() -> None:
    (entry,) = metered([[gpu("a", energy_j=99.0 * s, power_w=100.0), gpu("b", power_w=50.0)] for s in range(5)])
    assert (entry.energy_source, entry.energy_j) == (EnergySource.POWER, 600)


def test_while_a_card_is_lost_the_energy_is_unknown_and_its_past_is_not_made_up_for() -> None:
    meter, entries = Metering(1.0), []
    for second in range(31):
        both = gpu("a", energy_j=300.0 * second), gpu("b", energy_j=300.0 * second)
        reading = gpus(both[0], lost=("b",)) if 10 < second <= 20 else gpus(*both)
        entries += meter.take(snapshot(second, VllmReading(generation_tokens=second), gpus=reading))
    entries += meter.close()
    assert [(one.energy_source, one.energy_j) for one in entries] == [
        (EnergySource.COUNTER, 6000),
        (EnergySource.NONE, None),
        (EnergySource.COUNTER, 5400),
    ]
    assert sum(one.generation_tokens or 0 for one in entries) == 30
