"""What the comparison rests on and needs no vLLM: the emulated cards, their power, intervals, the report."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.compare import interval, report
from bench.compare.command import main
from bench.emulated_gpu.power import PowerModel
from bench.emulated_gpu.presets import CARDS, LLAMA_8B, Model, by_name, roofline
from policies.profiles import of_gpu


@pytest.mark.parametrize("name", CARDS)
def test_a_preset_is_the_roofline_of_its_card(name: str) -> None:
    """A decode step is the weights once through the memory, a prompt token is two operations a parameter."""
    card, preset = CARDS[name], by_name(name)
    weights_s = 2 * LLAMA_8B.parameters / (card.bandwidth_gb_per_s * 1e9)
    assert preset.step.step_s(1, 0) == pytest.approx(weights_s / 0.8 + preset.step.token_s(1), rel=1e-2)
    assert preset.step.token_s(1) == pytest.approx(2 * LLAMA_8B.parameters / (card.tflops * 1e12 * 0.6), rel=1e-2)
    used_gb = LLAMA_8B.weight_gb + preset.num_blocks * 16 * LLAMA_8B.kv_bytes_per_token / 1e9
    assert used_gb == pytest.approx(0.9 * card.memory_gb - 2.0, rel=1e-2)
    profile = of_gpu(preset.nvml_name)
    assert profile is not None, "the daemon must know the card by NVML's name"
    assert profile.name.replace(" ", "-") == name


def test_a_model_that_leaves_no_room_for_a_cache_is_refused_with_the_remedy() -> None:
    huge = Model("huge", 70e9, 80, 8, 128)
    with pytest.raises(ValueError, match=r"its weights take 140\.0 of 24 GB; take a smaller model"):
        roofline("RTX-4090", CARDS["RTX-4090"], huge)


def test_an_unknown_card_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="cannot emulate V100: known are A100-80G, H100-PCIE-80G, RTX-4090"):
        by_name("V100")


def test_power_goes_from_idle_over_reading_memory_to_the_boards_limit() -> None:
    power = PowerModel(idle_w=60, memory_w=230, cap_w=400)
    assert power.energy_j(10, 0, 0) == pytest.approx(600)
    assert power.energy_j(10, 10, 0) == pytest.approx(2300)
    assert power.energy_j(10, 10, 10) == pytest.approx(4000)
    assert power.energy_j(10, 4, 1) == pytest.approx(6 * 60 + 3 * 230 + 400)
    with pytest.raises(ValueError, match="idle_w <= memory_w <= cap_w"):
        PowerModel(idle_w=60, memory_w=50, cap_w=400)


def test_an_interval_is_students_over_the_seeds_and_unknown_of_one() -> None:
    assert interval.half_width([1.0]) is None
    assert interval.half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 * 1.0 / math.sqrt(3))


def test_a_ratio_is_paired_by_seed() -> None:
    """Seeds differ in load far more than contenders do: only pairs show that."""
    ratio, half = interval.ratio([1.1, 2.2, 3.3], [1.0, 2.0, 3.0])
    assert ratio == pytest.approx(1.1)
    assert half == pytest.approx(0.0, abs=1e-9)
    assert interval.ratio([1.0], [0.0]) == (None, None)


def test_no_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seeds", "0"])
    assert "cannot score on 0 seeds: it takes at least 1" in capsys.readouterr().err


def test_a_table_of_its_own_takes_no_contenders(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--table", "batching", "--contenders", "model"])
    assert "cannot use --table with --report or --contenders" in capsys.readouterr().err


def test_the_report_needs_no_network_and_escapes_names() -> None:
    column = dict.fromkeys(report._COLUMNS, 1.0)
    contender: dict[str, Any] = {**column, "goodput_after_30s_half95": None, "phase_goodput": [1.0]}
    document: dict[str, Any] = {
        "scenario": "<b>",
        "what": "a & b",
        "gpu": "A100-80G",
        "clock": "virtual",
        "seeds": [1],
        "phases": [{"name": "all"}],
        "contenders": {"model": contender, "fixed-8-256": contender},
        "grid": [{"cap": 8, "budget": 256, "good_ratio": 0.5}],
        **dict.fromkeys(("oracle", "vllm_default", "seed")),
        "best_fixed": "fixed-8-256",
        "ours": "model",
    }
    page = report.page([document])
    assert "&lt;b&gt; on A100-80G" in page
    assert "<script src=" not in page
    assert "fixed-8-256" in page
