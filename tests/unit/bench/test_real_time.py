"""What the comparison makes of a load on a real server, and what NVML says of the emulated GPU behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.compare import interval
from bench.emulated_gpu.clock import VirtualClock, WorkClock
from bench.emulated_gpu.nvml_feed import NvmlFeed
from bench.emulated_gpu.power import PowerModel
from bench.tables import cpu, real

POWER = PowerModel(idle_w=60, memory_w=230, cap_w=400)


@dataclass
class Device:
    busy_s: float = 0.0
    computing_s: float = 0.0


def test_nvml_shows_what_the_device_did_since_it_was_last_written(tmp_path: Path) -> None:
    clock, device, path = VirtualClock(), Device(), tmp_path / "nvml"
    feed = NvmlFeed(path, "NVIDIA A100-SXM4-80GB", 80, POWER, device, clock)
    clock.advance(2.0)
    device.busy_s, device.computing_s = 1.0, 0.5
    feed.write()
    said = path.read_text()
    assert "nvmlDeviceGetName = NVIDIA A100-SXM4-80GB" in said
    assert "nvmlDeviceGetUtilizationRates = 50 50" in said
    assert f"nvmlDeviceGetTotalEnergyConsumption = {1000 * (60 + 115 + 200)}" in said
    clock.advance(1.0)
    feed.write()
    assert "nvmlDeviceGetPowerUsage = 60000" in path.read_text(), "idle since"


def test_a_clock_of_work_stands_at_0_until_it_is_started_and_passes_sleep_at_once() -> None:
    clock = WorkClock()
    assert clock.now_s() == 0.0
    clock.start()
    clock.sleep_until(3600.0)
    assert 3600.0 <= clock.now_s() < 3610.0


def test_the_rank_correlation_is_of_the_order_and_equal_values_share_their_rank() -> None:
    assert interval.rank_correlation([1.0, 2.0, 3.0], [10.0, 11.0, 500.0]) == pytest.approx(1.0)
    assert interval.rank_correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert interval.rank_correlation([1.0, 1.0, 2.0], [5.0, 6.0, 7.0]) == pytest.approx(0.866, abs=1e-3)
    assert interval.rank_correlation([1.0, 1.0], [5.0, 6.0]) is None


def test_the_table_of_the_cpu_is_in_the_order_of_the_emulation_and_ends_with_their_agreement() -> None:
    contenders = {"low": {"emulated": 1.0, "cpu": 2.0}, "high": {"emulated": 3.0, "cpu": 1.0}}
    *_, first, second, last = cpu.table({"contenders": contenders, "rank_correlation": -1.0}).splitlines()
    assert first == "| high | 3.00 | 1.00 |"
    assert second == "| low | 1.00 | 2.00 |"
    assert last == "| rank correlation | | -1.00 |"


def test_the_table_of_real_time_has_both_clocks_and_nothing_for_what_one_does_not_know() -> None:
    virtual = {"goodput_after_30s": 2.0, "good_ratio": 1.0, "p99_ttft_s": None, "rejected_ratio": 0.0}
    document = {"contenders": {"model": {**virtual, "late_p99_s": 0.002}}, "virtual": {"model": virtual}}
    *_, first, second = real.table(document).splitlines()
    assert first == "| model | virtual | 2.000 | 100.0% |  |  |  | 0.0% |  |"
    assert second == "| model | real | 2.000 | 100.0% |  |  |  | 0.0% | 0.002 s |"
