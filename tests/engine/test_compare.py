"""The comparison on vLLM's real scheduler, small: loads, scores, contenders, the search."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

pytest.importorskip("vllm")

from bench.compare import batching, contenders, cpu, search
from bench.compare.asking import served
from bench.compare.lengths import SHAPES, SHORT, Tokens
from bench.compare.limiters import Aimd, Gradient, Second
from bench.compare.run import ON_CPU, Job, run
from bench.compare.scenario import Objectives, Phase, Scenario
from bench.compare.scenarios import SCENARIOS, on
from bench.compare.score import PHASE_SETTLE_S, good, percentile, score
from bench.compare.workload import Hot, Stream, fingerprint
from bench.emulated_gpu.clock import WorkClock
from bench.emulated_gpu.inprocess import EngineSettings
from bench.emulated_gpu.presets import by_name
from bench.emulated_gpu.step_model import StepModel
from bench.proof.plan import PLAN
from bench.virtual import Ask, Simulation
from bench.virtual.device import Step
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.slo import Latency, Slo

GPU = by_name("A100-80G")
AIM = Objectives(0.055)
CALM = Scenario("calm", "", (Phase("only", 20.0, (Stream(SHORT, 2.0),), AIM),))
TTFT = Slo(Latency.TTFT, 95.0, 2.0)


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_lengths_have_the_published_median_and_p90(name: str) -> None:
    source = random.Random(1)
    for tokens in (SHAPES[name].prompt, SHAPES[name].answer):
        drawn = sorted(tokens.draw(source) for _ in range(20_000))
        assert drawn[10_000] == pytest.approx(tokens.median, rel=0.05)
        assert drawn[18_000] == pytest.approx(tokens.p90, rel=0.05)
        assert drawn[-1] <= tokens.most


def test_lengths_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="1 <= median < p90 <= most must hold"):
        Tokens(100, 50, 1000)


@pytest.mark.parametrize("burstiness", [1.0, 2.0])
def test_arrivals_have_the_rate_and_the_burstiness_that_were_asked_for(burstiness: float) -> None:
    short = replace(SHORT, prompt=Tokens(1, 2, 3), answer=Tokens(1, 2, 3))
    at_s = [ask.at_s for ask in Stream(short, 10.0, burstiness).asks("s", 0.0, 2000.0, 100)]
    gaps = [b - a for a, b in pairwise(at_s)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert len(at_s) / 2000.0 == pytest.approx(10.0, rel=0.05)
    assert spread / mean == pytest.approx(burstiness, rel=0.1)


def test_a_hot_share_repeats_its_prompts_and_the_rest_never_comes_again() -> None:
    asked = list(Stream(SHORT, 20.0, hot=Hot(0.35, 8, 512)).asks("s", 0.0, 100.0, 4000))
    prompts = [ask.prompt for ask in asked]
    hot = {prompt for prompt in prompts if prompts.count(prompt) > 1}
    assert len(hot) == 8
    assert sum(prompt in hot for prompt in prompts) / len(prompts) == pytest.approx(0.35, abs=0.05)


def test_a_seed_asks_the_same_and_another_does_not() -> None:
    assert fingerprint(CALM.asks(1)) == fingerprint(CALM.asks(1)) != fingerprint(CALM.asks(2))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_fits_the_engines_length_and_starts_at_0(name: str) -> None:
    scenario = on(name, GPU, quick=True)
    asked = list(scenario.asks(1))
    assert all(len(ask.prompt) + ask.answer_tokens < scenario.max_model_len for ask in asked)
    assert [ask.at_s for ask in asked] == sorted(ask.at_s for ask in asked)
    assert all(0.0 <= ask.at_s < scenario.seconds for ask in asked)
    assert scenario.at(0.0) is scenario.phases[0]
    assert scenario.at(scenario.seconds + 20.0) is scenario.phases[-1]


def test_prompts_of_contextgrow_grow_tenfold_and_requests_come_as_often_as_before() -> None:
    scenario = on("contextgrow", GPU)
    lengths: dict[str, list[int]] = {}
    for ask in scenario.asks(1):
        lengths.setdefault(scenario.at(ask.at_s).name, []).append(len(ask.prompt))
    first, *_, last = lengths.values()
    assert sum(last) / len(last) == pytest.approx(10 * sum(first) / len(first), rel=0.15)
    assert len(last) == pytest.approx(len(first), rel=0.25)


def test_a_slower_card_is_asked_less() -> None:
    slow = on("shift80", by_name("RTX-4090")).phases[0].streams[0].rate
    assert slow < on("shift80", GPU).phases[0].streams[0].rate


def test_the_proof_names_what_there_is_and_ours_is_in_each() -> None:
    for one in PLAN:
        on(one.scenario, by_name(one.gpu))
        assert {"model", "vllm_default"} <= {contenders.by_name(name).name for name in one.contenders}


def test_an_unknown_scenario_and_an_unknown_contender_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="cannot run scenario rain: known are shift55"):
        on("rain", GPU)
    with pytest.raises(ValueError, match="cannot compare fixed-8: known are vllm_default"):
        contenders.by_name("fixed-8")


def test_a_fixed_setting_stays_what_it_is_and_an_oracle_switches_when_its_phase_begins() -> None:
    two = replace(CALM, phases=(*CALM.phases, replace(CALM.phases[0], name="then")))
    still = run(Job(two, GPU, contenders.fixed(16, 512), 1))
    assert {(t.knobs[MAX_NUM_SEQS], t.knobs[MAX_NUM_BATCHED_TOKENS]) for t in still.ticks} == {(16, 512)}
    moved = run(Job(two, GPU, contenders.oracle(((0.0, 16, 512), (20.0, 8, 256))), 1))
    caps = dict(moved.knob(MAX_NUM_SEQS))
    assert {cap for at_s, cap in caps.items() if at_s < 20.0} == {16}
    assert {cap for at_s, cap in caps.items() if at_s > 21.1} == {8}


def test_the_same_job_twice_is_the_same_to_the_last_digit_whoever_steers() -> None:
    for name in ("model", "aimd", "gradient"):
        job = Job(CALM, GPU, contenders.by_name(name), 1)
        assert score(job, run(job)) == score(job, run(job))


def test_a_throttled_device_takes_longer_and_a_step_is_charged_as_computing_for_its_tokens_alone() -> None:
    slow = replace(CALM, phases=(replace(CALM.phases[0], speed=0.5),))
    fast_run, slow_run = (run(Job(one, GPU, contenders.fixed(64, 2048), 1)) for one in (CALM, slow))
    slow_s, fast_s = (one.latencies[Latency.ITL].mean for one in (slow_run, fast_run))
    assert slow_s is not None
    assert fast_s is not None
    assert slow_s > 1.9 * fast_s
    tokens = sum(one.prompt_tokens + one.answer_tokens - 1 for one in fast_run.served)
    assert fast_run.device.computing_s <= GPU.step.token_s(tokens) * (1 + 1e-9)
    assert fast_run.device.computing_s > 0.9 * GPU.step.token_s(tokens), "the prefix cache spares next to nothing here"
    assert fast_run.device.computing_s < fast_run.device.busy_s < fast_run.seconds


def test_goodput_counts_what_was_asked_and_not_what_was_answered() -> None:
    """Turned away or never answered is asked for and not good; each request is held to the moment it came."""
    job = Job(CALM, GPU, contenders.fixed(64, 384), 1)
    timeline = run(job)
    whole = score(job, timeline)
    asked = sum(1 for _ in CALM.asks(1))
    assert (whole.good_ratio, whole.rejected_ratio) == (1.0, 0.0)
    half = score(job, replace(timeline, served=timeline.served[::2]))
    assert half.good_ratio == pytest.approx(len(timeline.served[::2]) / asked)
    first = timeline.served[0]
    assert good(first, CALM)
    assert not good(replace(first, ttft_s=2.01), CALM)
    assert not good(replace(first, p95_gap_s=0.056), CALM)


def test_the_figures_of_a_phase_that_has_settled_leave_out_its_first_15_s() -> None:
    job = Job(CALM, GPU, contenders.fixed(64, 384), 1)
    timeline = run(job)
    early, late = (
        [one.ttft_s for one in timeline.served if (one.at_s >= PHASE_SETTLE_S) is is_late] for is_late in (False, True)
    )
    slow_start = tuple(replace(one, ttft_s=9.0) if one.at_s < PHASE_SETTLE_S else one for one in timeline.served)
    found = score(job, replace(timeline, served=slow_start, turned_away=(1.0, 2.0, 16.0), refused=3))
    assert early
    assert found.phase_p99_ttft_s == (percentile(late, 0.99),)
    assert found.phase_rejected_ratio[0] == pytest.approx(1 / (len(late) + 1))


class Capable:
    """A pool whose schemes keep the objectives up to a known rate; it notes what it was asked."""

    def __init__(self, capacity: dict[str, float]) -> None:
        self.capacity = capacity
        self.asked: list[tuple[str, int, float]] = []
        job = Job(CALM, GPU, contenders.fixed(64, 384), 1)
        self.real = score(job, run(job))

    def scores(self, jobs: object) -> list[object]:
        answers: list[object] = []
        for job in list(jobs):  # type: ignore[call-overload]
            name = next(name for name, one in batching.SCHEMES.items() if one == job.contender)
            rate = job.scenario.phases[0].streams[0].rate
            self.asked.append((name, job.seed, rate))
            kept = 1.0 if rate <= self.capacity[name] else 0.98
            answers.append(replace(self.real, good_ratio_after_30s=kept, qps_per_w=rate / 100.0))
        return answers


def test_a_capacity_is_the_highest_rate_that_was_kept_and_all_are_measured_at_the_static_ones() -> None:
    pool = Capable({"static 8": 6.0, "dynamic": 15.0, "dynamic + tiers": 18.0})
    document = batching.measure(pool, GPU, (4, 5), quick=True)  # type: ignore[arg-type]
    for name, capacity in pool.capacity.items():
        qps = document["schemes"][name]["qps"]
        assert capacity / batching.PRECISION <= qps <= capacity
        assert document["schemes"][name]["at_capacity"]["qps_per_w"] == pytest.approx(qps / 100.0, rel=1e-4)
    static = document["schemes"]["static 8"]["qps"]
    assert document["schemes"]["dynamic"]["qps_ratio"] == pytest.approx(15.0 / 6.0, rel=0.03)
    assert document["rates"] == {"0.8": pytest.approx(0.8 * static), "1": pytest.approx(static)}
    at_load = pool.asked[-12:]
    assert {(name, seed) for name, seed, _ in at_load} == {(name, seed) for name in batching.SCHEMES for seed in (4, 5)}
    assert {rate for *_, rate in at_load} == set(document["rates"].values())


def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.99) == 4.0
    assert percentile([], 0.99) is None


class Serial:
    """A pool in this process that notes what it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def scores(self, jobs: object) -> list[object]:
        listed = list(jobs)  # type: ignore[call-overload]
        self.ran += [job.contender.name for job in listed]
        return [score(job, run(job)) for job in listed]


def test_the_search_runs_a_cap_that_is_never_reached_once_and_its_score_is_that_of_a_run_of_its_own() -> None:
    pool = Serial()
    found = search.grid(pool, CALM, GPU, (4, 64, 128), (512, 2048))  # type: ignore[arg-type]
    assert set(found) == {(cap, budget) for cap in (4, 64, 128) for budget in (512, 2048)}
    assert "fixed-64-512" not in pool.ran
    own = Job(CALM, GPU, contenders.fixed(64, 512), search.SEARCH_SEED)
    assert score(own, run(own)) == found[64, 512]
    best = search.finalists(found, 2)
    assert len({one.name for one in best}) == 2
    assert search.oracle(found, CALM).switches[0][0] == 0.0


@pytest.mark.parametrize(
    ("phases", "tried"),
    [
        ({128: (5.0, 5.0), 32: (3.0, 3.0), 8: (1.0, 1.0)}, {128, 32}),
        ({128: (5.0, 5.0), 32: (0.0, 5.0), 8: (1.0, 1.0)}, {128, 32, 8}),
    ],
    ids=["far below everywhere", "as good in one phase"],
)
def test_the_search_ends_at_a_cap_that_is_far_below_the_best_and_wins_no_phase(
    phases: dict[int, tuple[float, float]], tried: set[int]
) -> None:
    job = Job(CALM, GPU, contenders.fixed(128, 2048), search.SEARCH_SEED)
    some = score(job, run(job))

    class Told:
        def scores(self, jobs: list[Job]) -> list[object]:
            by_phase = [phases[job.contender.cap] for job in jobs]
            return [
                replace(some, phase_goodput=one, goodput_after_30s=sum(one) / 2, most_running=200) for one in by_phase
            ]

    found = search.grid(Told(), CALM, GPU, (8, 32, 128), (512, 2048))  # type: ignore[arg-type]
    assert {cap for cap, _ in found} == tried


def seen(running: int, late: float, itl_s: float) -> Second:
    ttft = Histogram((2.0, float("inf")), (100.0 - late, 100.0), 50.0)
    return Second(running, ttft, Histogram((1.0, float("inf")), (100.0, 100.0), 100.0 * itl_s), TTFT)


def test_aimd_cuts_when_too_many_are_late_and_rises_by_one_while_the_limit_is_used() -> None:
    assert Aimd().update(100.0, seen(100, 6.0, 0.03)) == pytest.approx(90.0)
    assert Aimd().update(100.0, seen(50, 5.0, 0.03)) == 101.0
    assert Aimd().update(100.0, seen(49, 0.0, 0.03)) == 100.0


def test_the_gradient_falls_when_latency_leaves_its_long_term_and_rests_while_the_limit_is_not_used() -> None:
    limiter = Gradient()
    assert limiter.update(64.0, seen(64, 0.0, 0.03)) > 64.0
    assert limiter.update(64.0, seen(64, 0.0, 0.12)) < 64.0
    assert limiter.update(64.0, seen(10, 0.0, 0.12)) == 64.0


def test_the_twin_of_a_cpu_is_the_law_of_its_steps_whatever_else_the_machine_did_now_and_then() -> None:
    source, law = random.Random(1), StepModel(4.0, 30.0, 50.0)
    held = [(source.randint(1, 900), source.randint(0, 20_000)) for _ in range(300)]
    taken = [Step(*one, law.step_s(*one) + (0.5 if n % 100 == 0 else 0.0)) for n, one in enumerate(held)]
    found = cpu.fit(taken)
    assert found.base_ms == pytest.approx(4.0, rel=0.01)
    assert found.per_token_us == pytest.approx(30.0, rel=0.01)
    assert found.per_context_token_ns == pytest.approx(50.0, rel=0.01)


def test_a_slower_cpu_is_asked_less_and_given_more_time() -> None:
    slow, fast = (cpu.load(StepModel(base, token, 100.0), 10.0).phases[0] for base, token in ((8.0, 60.0), (4.0, 30.0)))
    assert slow.streams[0].rate == pytest.approx(fast.streams[0].rate / 2)
    assert slow.objectives.itl_s > 1.9 * fast.objectives.itl_s


def test_on_the_cpu_the_model_runs_and_its_steps_are_timed() -> None:
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    clock = WorkClock()
    settings = EngineSettings(num_blocks=128, block_size=32, extra=ON_CPU)
    asked = [Ask(0.0, "a", tuple(range(8, 72)), 4)]
    simulation = Simulation(settings, asked, None, clock=clock, executor_class=UniProcExecutor)
    try:
        clock.start()
        timeline = simulation.run(0.5)
        while not timeline.served:
            timeline = simulation.run(0.5)
    finally:
        simulation.close()
    assert [one.answer_tokens for one in timeline.served] == [4]
    assert [step.tokens for step in timeline.device.taken] == [64, 1, 1, 1]
    assert [step.context_tokens for step in timeline.device.taken] == [0, 64, 65, 66]
    assert 0.0 < timeline.device.busy_s <= timeline.seconds


def test_tokens_that_came_in_one_piece_waited_once() -> None:
    one = served(Ask(1.0, "a", (8,) * 5, 4), [1.5, 1.6, 1.9], tokens=4)
    assert one.ttft_s == pytest.approx(0.5)
    assert one.e2e_s == pytest.approx(0.9)
    assert one.p95_gap_s == one.worst_gap_s == pytest.approx(0.3)
