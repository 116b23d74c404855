"""The laws of diagnosis: every leaf of the seeds' trees by name, with evidence, hysteresis and an action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from domain.diagnosis import Cause, Diagnosis
from domain.knobs import HOT_CACHE_RATIO, MAX_NUM_BATCHED_TOKENS
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo
from domain.snapshot import Source
from domain.view import SIGNALS, View
from policies.diagnosis import DiagnosisSettings, DiagnosisState, diagnose
from tests.emergencies import FRESH, engine, seen
from tests.views import ITL_SLO, knob, samples, with_knobs

ADAPTER = TypeAdapter(DiagnosisState)
A100 = ("NVIDIA A100-SXM4-80GB",)


def hot(ratio: float, budget: float = 8192, maximum: float = 16384) -> EngineRuntime:
    """An engine with a hot tier, and a budget that may be larger than a card bears."""
    return with_knobs(
        engine(),
        knob(HOT_CACHE_RATIO, ratio, 0.0, 0.0, 0.9),
        knob(MAX_NUM_BATCHED_TOKENS, budget, maximum, 64, maximum),
    )


class Clinic:
    """One view a second."""

    def __init__(self, growth_factor: float | None = None, **changes: Any) -> None:
        self.state = DiagnosisState()
        self.now_s = 0.0
        self.settings = DiagnosisSettings(**changes)
        self.growth_factor = growth_factor
        self.found: dict[Cause, Diagnosis] = {}

    def run(self, seconds: int, **changes: Any) -> set[Cause]:
        for _ in range(seconds):
            self.see(seen(self.now_s, **changes))
        return set(self.found)

    def see(self, view: View) -> None:
        self.state, found = diagnose(self.state, view, self.settings, self.growth_factor)
        self.found = {one.cause: one for one in found}
        self.now_s += 1.0


def test_a_healthy_engine_has_no_diagnosis() -> None:
    assert Clinic().run(300) == set()


TIGHT: dict[str, Any] = {"effective_memory_ratio": 0.97, "kv_cache_usage_ratio": 0.6}
SWING: dict[str, Any] = {"requests_per_s_swing_ratio": 0.35}
THRASH: dict[str, Any] = {"kv_cache_usage_ratio": 1.0, "preemptions_per_s": 1.6}

LEAVES: list[tuple[Cause, dict[str, Any], float | None, str]] = [
    (
        Cause.BUDGET_BEYOND_CARD,
        TIGHT | {"runtime": hot(0.35, 12288), "gpu_names": A100},
        None,
        "GPU memory is 97.0% used and max_num_batched_tokens 12288 is over the 8192 that an A100-80G bears.",
    ),
    (
        Cause.HOT_RATIO_TOO_HIGH,
        TIGHT | {"runtime": hot(0.5)},
        None,
        "hot_cache_ratio is 0.5, over the 0.4 of the seeds' range, while GPU memory is 97.0% and the KV cache 60.0% "
        "used.",
    ),
    (
        Cause.ALLOCATOR_PRESSURE,
        TIGHT | {"runtime": hot(0.35)},
        None,
        "Memory outside the KV cache: GPU memory is 97.0% used, unknown of the allocator's is split and unused.",
    ),
    (
        Cause.ALLOCATOR_PRESSURE,
        {"allocator_fragmentation_ratio": 0.4},
        None,
        "Memory outside the KV cache: GPU memory is 60.0% used, 40.0% of the allocator's is split and unused.",
    ),
    (Cause.GROWTH_TOO_FAST, SWING, 2.0, "The request rate swings by 35.0% and the growth factor 2 is over 1.8."),
    (Cause.GROWTH_TOO_SLOW, SWING, 1.2, "The request rate swings by 35.0% and the growth factor 1.2 is under 1.3."),
    (
        Cause.HOT_MIX_ABOVE_RATIO,
        SWING | {"hot_requests_ratio": 0.45, "runtime": hot(0.35)},
        None,
        "The request rate swings by 35.0% and 45.0% of the requests are hot (over 40%).",
    ),
    (
        Cause.REGROUPING,
        {"latency_slope_ratio": 0.8, "regroupings_per_s": 4.0},
        None,
        "P99 rose by 80.0% within a minute while the admission window reordered arrivals 4 times a second.",
    ),
    (
        Cause.KV_THRASHING,
        THRASH | {"running": 72.0},
        None,
        "The KV cache is 100.0% used by 72 running requests and 1.6 requests/s are thrown out of it and computed "
        "again.",
    ),
]


@pytest.mark.parametrize(("cause", "sick", "factor", "sentence"), LEAVES)
def test_each_leaf_has_its_name_its_numbers_and_what_is_done(
    cause: Cause, sick: dict[str, Any], factor: float | None, sentence: str
) -> None:
    clinic = Clinic(growth_factor=factor)
    assert cause not in clinic.run(10, **sick)
    assert cause in clinic.run(1, **sick)
    said = clinic.found[cause]
    assert said.sentence == sentence
    assert said.action
    assert said.evidence


@pytest.mark.parametrize(("cause", "sick", "factor", "sentence"), LEAVES)
def test_a_diagnosis_goes_once_its_clear_level_has_lasted(
    cause: Cause, sick: dict[str, Any], factor: float | None, sentence: str
) -> None:
    clinic = Clinic(growth_factor=factor)
    clinic.run(11, **sick)
    well = {"effective_memory_ratio": 0.6, "requests_per_s_swing_ratio": 0.1, "latency_slope_ratio": 0.0}
    well |= {"allocator_fragmentation_ratio": 0.1, "kv_cache_usage_ratio": 0.3, "preemptions_per_s": 0.0}
    well = {name: value for name, value in well.items() if name in sick or name == "effective_memory_ratio"}
    assert cause in clinic.run(30, **(sick | well))
    assert cause not in clinic.run(1, **(sick | well))


@pytest.mark.parametrize(("cause", "sick", "factor", "sentence"), LEAVES)
def test_what_is_unknown_neither_begins_a_diagnosis_nor_ends_it(
    cause: Cause, sick: dict[str, Any], factor: float | None, sentence: str
) -> None:
    clinic = Clinic(growth_factor=factor)
    unknown = {name: None for name in (*sick, "effective_memory_ratio") if name in SIGNALS}
    lost = {"ages_s": FRESH | {Source.GPU: 9.0, Source.STATS: 9.0}}
    assert clinic.run(60, **(sick | unknown | lost)) == set()
    clinic.run(11, **sick)
    assert cause in clinic.run(120, **(sick | unknown | lost))
    assert clinic.found[cause].sentence == sentence


def test_between_the_two_levels_a_diagnosis_stays() -> None:
    clinic = Clinic()
    clinic.run(11, **THRASH)
    assert Cause.KV_THRASHING in clinic.run(300, kv_cache_usage_ratio=0.93, preemptions_per_s=0.15)


def test_the_factor_inside_its_range_is_not_to_blame_for_a_swing() -> None:
    assert Clinic(growth_factor=1.5).run(60, **SWING) == set()
    assert Clinic(growth_factor=None).run(60, **SWING) == set()


def test_a_jump_of_latency_without_regrouping_is_not_regrouping() -> None:
    assert Clinic().run(60, latency_slope_ratio=0.8, regroupings_per_s=0.0) == set()


@pytest.mark.parametrize(("names", "budget"), [(("NVIDIA L4",), 12288), ((), 12288), (A100, 8192)])
def test_a_budget_is_to_blame_only_on_a_card_whose_limit_is_known(names: tuple[str, ...], budget: float) -> None:
    found = Clinic().run(60, **TIGHT, runtime=hot(0.35, budget), gpu_names=names)
    assert Cause.BUDGET_BEYOND_CARD not in found


def test_a_full_kv_cache_is_not_pressure_outside_it() -> None:
    """Field case R6 and R5: a full pool on a full card is load."""
    found = Clinic().run(60, effective_memory_ratio=0.97, kv_cache_usage_ratio=1.0, gpu_memory_usage_ratio=0.97)
    assert found == set()


# --- throughput ---

LOAD: dict[str, Any] = {"demand": 20.0, "waiting": 20.0, "batch_size_current": 32.0, "prompt_spread": 1.5}


def rates(tokens_per_s: float) -> dict[str, float]:
    return {"prompt_tokens_per_s": tokens_per_s / 2, "generation_tokens_per_s": tokens_per_s / 2}


def test_a_drop_of_throughput_with_prompts_of_very_different_length_is_named() -> None:
    clinic = Clinic()
    assert clinic.run(120, **LOAD, **rates(4000)) == set()
    assert clinic.run(11, **(LOAD | {"prompt_spread": 6.0}), **rates(2000)) == {Cause.LENGTH_SPREAD}
    assert "long prompts are 6 times as long as short ones" in clinic.found[Cause.LENGTH_SPREAD].sentence
    assert clinic.found[Cause.LENGTH_SPREAD].evidence["tokens_per_s"] == 2000


def test_requests_that_run_one_by_one_while_others_wait_are_a_serial_fallback() -> None:
    clinic = Clinic()
    clinic.run(120, **LOAD, **rates(4000))
    assert clinic.run(11, **(LOAD | {"batch_size_current": 1.0}), **rates(500)) == {Cause.SERIAL_FALLBACK}
    assert "a step holds 1 requests while 20 wait" in clinic.found[Cause.SERIAL_FALLBACK].sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"demand": 0.0, "waiting": 0.0, "prompt_spread": 6.0, "batch_size_current": 1.0},
        {"prompt_spread": 2.0},
        {"prompt_spread": None, "batch_size_current": None},
    ],
)
def test_a_lull_or_a_drop_that_nothing_explains_is_no_diagnosis(changes: dict[str, Any]) -> None:
    clinic = Clinic()
    clinic.run(120, **LOAD, **rates(4000))
    assert clinic.run(60, **(LOAD | changes), **rates(1000)) == set()


def test_what_is_usual_is_learned_under_load_for_a_minute_first() -> None:
    clinic = Clinic()
    clinic.run(30, **LOAD, **rates(4000))
    assert clinic.run(20, **(LOAD | {"prompt_spread": 6.0}), **rates(2000)) == set()


def test_a_lull_does_not_lower_what_is_usual() -> None:
    clinic = Clinic()
    clinic.run(120, **LOAD, **rates(4000))
    clinic.run(1200, **(LOAD | {"demand": 0.0, "waiting": 0.0}), **rates(100))
    assert clinic.state.usual_tokens_per_s == pytest.approx(4000)


# --- objectives ---

TTFT_SLO = Slo(Latency.TTFT, percentile=95, bound_s=0.05)
E2E_SLO = Slo(Latency.E2E, percentile=95, bound_s=0.05)


@pytest.mark.parametrize(
    ("slo", "queue_s", "inference_s", "cause"),
    [
        (ITL_SLO, None, None, Cause.INFERENCE_BOUND),
        (TTFT_SLO, None, None, Cause.QUEUE_BOUND),
        (E2E_SLO, 2.0, 1.0, Cause.QUEUE_BOUND),
        (E2E_SLO, 1.0, 2.0, Cause.INFERENCE_BOUND),
        (E2E_SLO, None, None, None),
    ],
)
def test_a_missed_objective_is_laid_on_the_queue_or_on_inference(
    slo: Slo, queue_s: float | None, inference_s: float | None, cause: Cause | None
) -> None:
    latencies = {slo.latency: samples(1000, 200)}
    for latency, mean_s in ((Latency.QUEUE, queue_s), (Latency.INFERENCE, inference_s)):
        if mean_s is not None:
            latencies[latency] = samples(1000, 200, mean_s=mean_s)
    clinic = Clinic()
    assert clinic.run(11, slos=(slo,), latencies=latencies) == ({cause} if cause is not None else set())
    if cause is not None:
        assert "20.0% of 1000" in clinic.found[cause].sentence


def test_an_objective_with_too_few_samples_or_missed_by_noise_is_no_diagnosis() -> None:
    for total, over in ((19, 19), (100, 8)):
        assert Clinic().run(60, slos=(TTFT_SLO,), latencies={Latency.TTFT: samples(total, over)}) == set()


# --- the engine's own state ---

DOWN: dict[str, Any] = {
    "runtime": None,
    "problems": {Source.METRICS: "cannot reach vLLM at http://x: refused", Source.RUNTIME: "waiting for it"},
}


def test_an_engine_that_does_not_answer_is_down_after_three_seconds_and_up_at_its_first_answer() -> None:
    clinic = Clinic()
    clinic.run(10)
    assert clinic.run(3, **DOWN) == set()
    assert clinic.run(600, **DOWN) == {Cause.ENGINE_DOWN}
    assert "cannot reach vLLM at http://x: refused" in clinic.found[Cause.ENGINE_DOWN].sentence
    assert clinic.run(1) == set()


def test_another_boot_takes_the_old_ones_diagnoses_along() -> None:
    clinic = Clinic()
    clinic.run(11, **THRASH)
    assert clinic.run(1, runtime=engine(boot_id="boot-b")) == set()


@pytest.mark.parametrize(
    "blind", [{"problems": {Source.METRICS: "it carries no vLLM series"}}, {"ages_s": FRESH | {Source.METRICS: 9.0}}]
)
def test_an_engine_that_answers_without_metrics_is_blind_not_down(blind: dict[str, Any]) -> None:
    clinic = Clinic()
    assert clinic.run(5, **blind) == {Cause.BLIND}
    assert "--disable-log-stats" in (clinic.found[Cause.BLIND].action or "")
    assert clinic.run(1) == set()


def test_a_plugin_that_is_missing_is_neither_down_nor_blind() -> None:
    assert Clinic().run(60, runtime=None, problems={Source.RUNTIME: "has no governor plugin"}) == set()


def test_a_sleeping_engine_is_asleep_and_not_stuck() -> None:
    clinic = Clinic()
    asleep = {"asleep": True, "running": 0.0, "waiting": 4.0, "requests_per_s": 0.0, "generation_tokens_per_s": 0.0}
    assert clinic.run(120, **asleep) == {Cause.ENGINE_ASLEEP}
    assert clinic.run(1, asleep=False) == set()
    assert Clinic().run(60, asleep=None) == set()


def test_a_minute_without_a_token_while_requests_run_is_no_progress() -> None:
    clinic = Clinic()
    assert clinic.run(5, stalled_s=59.0) == set()
    assert clinic.run(1, stalled_s=60.0) == {Cause.NO_PROGRESS}
    assert "Restart the engine" in (clinic.found[Cause.NO_PROGRESS].action or "")
    assert clinic.run(1) == set()


def test_a_minute_in_which_requests_wait_and_nothing_runs_is_no_progress() -> None:
    idle = {"running": 0.0, "waiting": 5.0, "generation_tokens_per_s": 0.0, "requests_per_s": 0.0}
    clinic = Clinic()
    assert clinic.run(60, **idle) == set()
    assert clinic.run(1, **idle) == {Cause.NO_PROGRESS}


def test_long_answers_of_which_none_ends_are_progress() -> None:
    """Tokens come, and nobody holds a slot without running."""
    long = {"running": 8.0, "waiting": 5.0, "deferred": 0.0, "requests_per_s": 0.0, "generation_tokens_per_s": 400.0}
    assert Clinic().run(300, **long) == set()


# --- settings ---


def test_clear_levels_have_to_be_on_the_other_side() -> None:
    for changes in ({"memory_clear_ratio": 0.95}, {"throughput_clear_ratio": 0.3}, {"kv_clear_ratio": 0.95}):
        with pytest.raises(ValidationError, match="must be under"):
            DiagnosisSettings(**changes)


def test_the_seeds_numbers_are_the_defaults() -> None:
    s = DiagnosisSettings()
    assert (s.swing_ratio, s.growth_factor_min, s.growth_factor_max, s.hot_requests_ratio) == (0.30, 1.3, 1.8, 0.40)
    assert (s.a100_budget_tokens, s.hot_ratio_max, s.fragmentation_ratio, s.length_spread) == (8192, 0.4, 0.35, 2.0)


# --- for any views ---

values = st.one_of(st.none(), st.floats(0.0, 1.0), st.floats(0.0, 100.0))
pictures = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(SIGNALS, values),
        "asleep": st.sampled_from([None, False, True]),
        "problems": st.dictionaries(st.sampled_from(list(Source)), st.just("lost"), max_size=2),
        "runtime": st.sampled_from([None, engine(), hot(0.5, 12288)]),
    },
)
spells = st.lists(st.tuples(st.integers(1, 40), pictures), max_size=5)


@settings(max_examples=20, deadline=None)
@given(spells)
def test_each_diagnosis_is_told_once_with_a_sentence_and_the_state_survives_a_round_trip(
    told: list[tuple[int, dict[str, Any]]],
) -> None:
    state, now_s = DiagnosisState(), 0.0
    for seconds, changes in told:
        for _ in range(seconds):
            one = seen(now_s, **changes)
            before = state
            state, found = diagnose(before, one)
            assert len({d.cause for d in found}) == len(found)
            assert all(d.sentence.endswith(".") for d in found)
            now_s += 1.0
        assert diagnose(before, one) == (state, found)
        assert ADAPTER.validate_json(ADAPTER.dump_json(state)) == state


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sets(st.sampled_from(sorted(SIGNALS))), min_size=1, max_size=3))
def test_a_view_of_unknowns_begins_no_diagnosis_of_load_or_memory(missing: list[set[str]]) -> None:
    clinic = Clinic(growth_factor=2.0)
    for names in missing:
        assert clinic.run(30, **dict.fromkeys(names | {"stalled_s"})) == set()


def test_every_cause_has_a_line_in_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert [cause for cause in Cause if f"`{cause}`" not in text] == []
