"""The laws of emergency_purge: real pressure only, judged by its effect, back in stages, bounded, never for ever."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from controller.deciding.arbiter import Arbiter
from controller.deciding.order import Deciding
from domain.decision import Mode, Priority, Proposal, Reason, Status
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT, PREEMPT, PURGE, loosens
from domain.snapshot import Source
from domain.view import SIGNALS, View
from policies.emergency_purge import EmergencyPurge, EmergencyPurgeSettings, EmergencyState
from policies.emergency_purge.state import Phase
from policies.registry import PoliciesSettings
from tests.emergencies import CROWDED, FRESH, QUIET, TIGHT, Plant, emergencies, engine, seen
from tests.views import view

POLICY = EmergencyPurge(EmergencyPurgeSettings())
ADAPTER = TypeAdapter(EmergencyState)


def by_knob(proposals: list[Proposal]) -> dict[str, Proposal]:
    return {one.knob: one for one in proposals}


def plant(obeys: bool = True, knobs: dict[str, Any] | None = None, **settings: Any) -> Plant:
    return Plant(EmergencyPurge(EmergencyPurgeSettings(**settings)), obeys, **(knobs or {}))


def test_tight_memory_purges_half_and_cuts_the_budget_and_the_queue_at_once() -> None:
    one = plant()
    one.run(2)
    made = by_knob(one.run(4, **TIGHT))
    assert [(p.knob, p.wanted, p.priority, p.reason) for p in made.values()] == [
        (PURGE, 0.5, Priority.EMERGENCY, Reason.EMERGENCY_MEMORY),
        (MAX_NUM_BATCHED_TOKENS, 4096, Priority.EMERGENCY, Reason.EMERGENCY_MEMORY),
        (MAX_NUM_QUEUED_REQS, 100, Priority.EMERGENCY, Reason.EMERGENCY_MEMORY),
        (MAX_NUM_SEQS, 8, Priority.SHRINK, Reason.HOLD_EMERGENCY),
    ]
    assert made[PURGE].sentence == ("Purging 50% of the free cached blocks: effective GPU memory is 97.0% (over 95%).")
    assert made[PURGE].evidence["effective_memory_ratio"] == 0.97


def test_a_spike_shorter_than_three_seconds_is_no_emergency() -> None:
    one = plant()
    for _ in range(20):
        one.run(3, **TIGHT)
        one.run(1)
    assert one.emergencies() == []


@pytest.mark.parametrize(("budget", "floor", "wanted"), [(2048, 64, 2048), (4096, 64, 4096), (8192, 6000, 6000)])
def test_the_budget_goes_to_4096_never_up_and_never_under_the_engines_floor(
    budget: float, floor: float, wanted: float
) -> None:
    state = POLICY.initial_state()
    for now_s in range(5):
        state, made = POLICY.decide(state, seen(now_s, runtime=engine(budget=budget, floor=floor), **TIGHT))
    assert by_knob(list(made))[MAX_NUM_BATCHED_TOKENS].wanted == wanted


def test_without_a_queue_limit_to_set_the_rest_is_done() -> None:
    state = POLICY.initial_state()
    for now_s in range(4):
        state, made = POLICY.decide(state, seen(now_s, runtime=engine(queue=None), **TIGHT))
    assert set(by_knob(list(made))) == {PURGE, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS}
    assert by_knob(list(made))[PURGE].wanted == 0.5


FULL: dict[str, Any] = {"kv_cache_usage_ratio": 1.0, "effective_memory_ratio": 0.96, "gpu_memory_usage_ratio": 0.96}


def test_a_full_kv_cache_alone_is_no_emergency_however_large_the_pool() -> None:
    """vLLM's default leaves the card at over 90 % with a full cache: that is load."""
    one = plant()
    one.run(10, gpu_memory_usage_ratio=0.96)
    one.run(600, **FULL)
    assert one.emergencies() == []
    assert "the KV cache is full and memory does not grow" in one.sentence(Reason.HOLD_CALM)


def test_a_full_kv_cache_and_memory_that_grows_outside_it_is_one() -> None:
    one = plant()
    one.run(10, **FULL)
    grown = FULL | {"effective_memory_ratio": 0.975, "gpu_memory_usage_ratio": 0.975}
    one.run(4, **grown)
    assert one.acts() == [(13.0, 0.5)]


def test_memory_that_runs_out_acts_at_the_first_view() -> None:
    one = plant()
    one.run(5, **FULL)
    out = FULL | {"effective_memory_ratio": 0.99, "gpu_memory_usage_ratio": 0.99}
    assert by_knob(one.run(1, **out))[PURGE].reason is Reason.EMERGENCY_OOM


def test_an_engine_that_ran_out_of_memory_and_came_back_is_not_purged_but_bounded() -> None:
    """Its cache is empty; the same load would end it again."""
    one = plant()
    one.run(5, **FULL)
    one.run(2, **(FULL | {"effective_memory_ratio": 0.97, "gpu_memory_usage_ratio": 0.97}))
    state, _ = POLICY.decide(one.state, seen(7.0, **(FULL | {"effective_memory_ratio": 0.99})))
    _, made = POLICY.decide(state, seen(30.0, runtime=engine(boot_id="boot-b")))
    told = by_knob(list(made))
    assert (told[PURGE].wanted, told[PURGE].reason) == (0.0, Reason.EMERGENCY_OOM)
    assert "No purge of an empty cache" in told[PURGE].sentence
    assert (told[MAX_NUM_BATCHED_TOKENS].wanted, told[MAX_NUM_QUEUED_REQS].wanted) == (4096, 100)


def test_another_boot_without_that_signature_ends_the_emergency() -> None:
    one = plant()
    one.run(6, **TIGHT)
    state, (said,) = POLICY.decide(one.state, seen(100.0, runtime=engine(boot_id="boot-b")))
    assert (state.phase, said.reason) == (Phase.CALM, Reason.HOLD_CALM)


def test_a_crowded_hot_tier_is_an_emergency_only_after_the_cap_had_its_turn() -> None:
    one = plant()
    one.run(30, **CROWDED)
    assert one.emergencies() == []
    assert one.run(1, **CROWDED)[0].reason is Reason.EMERGENCY_CROWDED


def test_no_further_measure_follows_while_what_began_it_is_not_known() -> None:
    one = plant(preempt_requests=2)
    one.run(31, **CROWDED)
    one.run(300, **(CROWDED | {"kv_cache_usage_ratio": None}))
    assert one.acts() == [(30.0, 0.5)]
    assert one.acts(PREEMPT) == []
    assert "cannot be judged" in one.sentence(Reason.HOLD_BLIND)


def test_between_the_two_levels_no_further_measure_follows() -> None:
    one = plant(preempt_requests=2)
    one.run(4, **TIGHT)
    one.run(300, **(TIGHT | {"effective_memory_ratio": 0.945}))
    assert one.acts(PREEMPT) == []
    assert "under its level and not yet at the clear one" in one.sentence(Reason.HOLD_EMERGENCY)


@pytest.mark.parametrize("missing", ["hot_blocks_ratio", "preemptions_per_s", "kv_cache_usage_ratio", "running"])
def test_a_tier_of_which_something_is_unknown_is_not_crowded(missing: str) -> None:
    one = plant()
    one.run(120, **(CROWDED | {missing: None}))
    assert one.emergencies() == []


@pytest.mark.parametrize("calm", [{"hot_blocks_ratio": 0.5}, {"preemptions_per_s": 0.1}, {"kv_cache_usage_ratio": 0.9}])
def test_preemptions_without_a_full_tier_or_a_full_cache_are_the_caps_business(calm: dict[str, float]) -> None:
    one = plant()
    one.run(120, **(CROWDED | calm))
    assert one.emergencies() == []


def test_a_crowded_tier_that_stays_so_is_purged_whole_once_the_interval_has_passed() -> None:
    one = plant()
    one.run(300, **CROWDED)
    assert one.acts() == [(30.0, 0.5), (150.0, 1.0)]
    assert "not relieved 120 s after measure 1: 2 preemptions/s" in one.sentence(Reason.EMERGENCY_CROWDED)


def test_a_crowded_tier_is_purged_twice_before_anybody_is_preempted() -> None:
    one = plant(preempt_requests=2)
    one.run(300, **CROWDED)
    assert one.acts() == [(30.0, 0.5), (150.0, 1.0)]
    assert one.acts(PREEMPT) == [(180.0, 2.0)]


def test_preemptions_or_the_age_of_the_queue_that_fall_are_relief() -> None:
    for better in ({"preemptions_per_s": 1.5}, {"oldest_waiting_s": 3.0}):
        one = plant()
        one.run(31, **CROWDED)
        one.run(30, **(CROWDED | better))
        assert one.state.relieved
        assert "brings relief" in one.sentence(Reason.HOLD_EMERGENCY)


def test_a_measure_is_judged_after_its_effect_window_and_not_before() -> None:
    one = plant()
    one.run(33, **TIGHT)
    assert Reason.NOT_RELIEVED not in one.reasons()
    one.run(1, **TIGHT)
    assert one.reasons()[-1] is Reason.NOT_RELIEVED


def test_not_relieved_is_said_and_running_requests_are_left_alone() -> None:
    one = plant()
    one.run(400, **TIGHT)
    assert one.acts() == [(3.0, 0.5)]
    assert one.acts(PREEMPT) == []
    said = one.sentence(Reason.NOT_RELIEVED)
    assert "effective GPU memory 97.0%, was effective GPU memory 97.0%" in said
    assert "the purge counts as not made, no running request is preempted (preempt_requests is 0)" in said


def test_preemption_follows_only_where_it_was_configured_and_once() -> None:
    one = plant(preempt_requests=4)
    one.run(400, **TIGHT)
    assert one.acts(PREEMPT) == [(33.0, 4.0)]
    assert "every measure was taken" in one.sentence(Reason.NOT_RELIEVED)


def test_while_an_emergency_lasts_what_it_cut_is_held_before_any_raise_and_left_open_to_cuts() -> None:
    one = plant()
    one.run(4, **TIGHT)
    held = by_knob(one.run(1, **TIGHT))
    assert (held[MAX_NUM_BATCHED_TOKENS].wanted, held[MAX_NUM_BATCHED_TOKENS].priority) == (4096, Priority.SHRINK)
    assert (held[MAX_NUM_QUEUED_REQS].wanted, held[MAX_NUM_QUEUED_REQS].priority) == (100, Priority.SHRINK)
    assert (held[MAX_NUM_SEQS].wanted, held[MAX_NUM_SEQS].priority) == (8, Priority.SHRINK)


def test_the_cap_is_held_until_the_budget_is_back() -> None:
    one = plant()
    one.run(5, **TIGHT)
    one.run(200)
    held = {at for at, p in one.made if p.knob == MAX_NUM_SEQS}
    stages = {at: p.reason for at, p in one.made if p.knob == PURGE}
    before = (Reason.HOLD_CALM, Reason.RECOVERY_QUEUE, Reason.RECOVERY_DONE)
    assert held == {at for at, reason in stages.items() if reason not in before}


def test_recovery_is_staged_and_everything_comes_back() -> None:
    one = plant()
    one.run(5, **TIGHT)
    one.run(200)
    assert one.state.phase is Phase.CALM
    assert one.changes(MAX_NUM_BATCHED_TOKENS) == [4096, 5120, 6144, 7168, 8192]
    assert one.changes(MAX_NUM_QUEUED_REQS) == [100, NO_LIMIT]
    assert one.reasons() == [
        Reason.HOLD_CALM,
        Reason.EMERGENCY_MEMORY,
        Reason.HOLD_EMERGENCY,
        Reason.RECOVERY_HOLD,
        Reason.RECOVERY_BUDGET,
        Reason.RECOVERY_QUEUE,
        Reason.RECOVERY_DONE,
        Reason.HOLD_CALM,
    ]
    for stage, reason in enumerate((Reason.RECOVERY_HOLD, Reason.RECOVERY_BUDGET, Reason.RECOVERY_QUEUE), 1):
        assert f"stage {stage} of 4" in one.sentence(reason)
    assert "stage 4 of 4" in one.sentence(Reason.RECOVERY_DONE)


def test_a_budget_that_another_policy_lowers_on_its_way_back_is_left_to_it() -> None:
    one = plant()
    one.run(5, **TIGHT)
    one.run(80)
    assert one.state.stage == 2
    one._engine["budget"] = 4608.0
    one.run(60)
    assert one.state.phase is Phase.CALM
    assert one.changes(MAX_NUM_BATCHED_TOKENS)[-1] < 8192
    assert one._engine == {"budget": 4608.0, "queue": NO_LIMIT}
    assert "the budget is left to the other policies" in one.sentence(Reason.RECOVERY_DONE)


def test_a_budget_that_is_not_let_back_does_not_keep_the_queue_bounded() -> None:
    one = plant()
    one.run(5, **TIGHT)
    for _ in range(150):
        one.run(1)
        one._engine["budget"] = 4096.0
    assert one.state.phase is Phase.CALM
    assert one._engine["queue"] == NO_LIMIT


def test_after_running_out_of_memory_no_two_policies_pull_at_the_budget() -> None:
    deciding = Deciding(PoliciesSettings(), Mode.AUTO, Arbiter(1.0))
    values, budgets = {"budget": 8192.0, "queue": NO_LIMIT}, [8192.0]
    for now in range(700):
        grows = {"effective_memory_ratio": 0.985, "gpu_memory_usage_ratio": 0.9 + 0.002 * (now - 30)}
        figures = grows if 30 <= now < 75 else {}
        seen_view = seen(float(now), runtime=engine(**values, cap=64, waiting=0), requests_per_s=100.0, **figures)
        for one in deciding.decide(datetime(2026, 1, 1, tzinfo=UTC), seen_view).decisions:
            if one.status is Status.INTENDED and one.requested is not None:
                name = {MAX_NUM_BATCHED_TOKENS: "budget", MAX_NUM_QUEUED_REQS: "queue"}.get(one.knob)
                values |= {name: one.requested} if name is not None else {}
        budgets += [values["budget"]] if values["budget"] != budgets[-1] else []
    assert budgets == [8192, 4096, 5120, 6144, 7168, 8192]
    assert values["queue"] == NO_LIMIT


@pytest.mark.parametrize("between", [Mode.AUTO, Mode.PAUSED, Mode.STATIC])
def test_what_an_emergency_cut_comes_back_after_a_reload_or_a_maintenance_window_in_it(between: Mode) -> None:
    """With nobody else to move the queue limit."""
    table, arbiter = PoliciesSettings.model_validate({"load_shed": {"enabled": False}}), Arbiter(1.0)
    deciding = Deciding(table, Mode.AUTO, arbiter)
    values = {"budget": 8192.0, "queue": NO_LIMIT}
    for now in range(400):
        if now in (50, 60):
            before, deciding = deciding, Deciding(table, between if now == 50 else Mode.AUTO, arbiter)
            deciding.adopt(before)
        seen_view = seen(float(now), runtime=engine(**values, waiting=0), **(TIGHT if 30 <= now < 75 else {}))
        for one in deciding.decide(datetime(2026, 1, 1, tzinfo=UTC), seen_view).decisions:
            name = {MAX_NUM_BATCHED_TOKENS: "budget", MAX_NUM_QUEUED_REQS: "queue"}.get(one.knob)
            if name is not None and one.status is Status.INTENDED and one.requested is not None:
                values[name] = one.requested
        if now == 48:
            assert values == {"budget": 4096, "queue": 100}
    assert values["queue"] == NO_LIMIT


def test_no_undo_lets_more_in_while_an_emergency_is_acted_on() -> None:
    deciding = Deciding(PoliciesSettings(), Mode.AUTO, Arbiter(1.0))
    undo = Proposal("outcomes", MAX_NUM_SEQS, 16, Reason.UNDO_WORSE, "because.", priority=Priority.ROLLBACK)
    pressed = seen(0.0, runtime=engine(cap=8, running=8), **TIGHT)
    told = []
    for now in range(12):
        decided = deciding.decide(datetime(2026, 1, 1, tzinfo=UTC), replace(pressed, now_s=float(now)), further=[undo])
        told += [one.reason for one in decided.decisions if one.knob == MAX_NUM_SEQS]
    assert (told[0], told[-1]) == (Reason.UNDO_WORSE, Reason.HOLD_EMERGENCY)


def test_stage_one_lasts_a_minute_and_nothing_moves_in_it() -> None:
    one = plant()
    one.run(5, **TIGHT)
    before = len(one.made)
    one.run(60)
    assert {p.reason for _, p in one.made[before:]} == {Reason.RECOVERY_HOLD}
    assert one.run(1)[0].reason is Reason.RECOVERY_BUDGET


def test_the_queue_limit_that_was_set_before_is_the_one_that_comes_back() -> None:
    one = plant()
    one._engine["queue"] = 500.0
    one.run(5, **TIGHT)
    one.run(200)
    assert one.changes(MAX_NUM_QUEUED_REQS) == [100, 500]


def test_steps_back_have_no_priority_of_their_own() -> None:
    """An operator, a rollback and a cut go before them, and every guard applies."""
    one = plant()
    one.run(5, **TIGHT)
    one.run(200)
    steps = [p for _, p in one.made if p.sentence.startswith(("Raising", "Releasing"))]
    assert len(steps) == 5
    assert {p.priority for p in steps} == {None}


def test_pressure_that_comes_back_begins_anew_and_doubles_the_hold() -> None:
    one = plant()
    one.run(5, **TIGHT)
    one.run(30)
    one.run(5, **TIGHT)
    assert one.state.relapses == 1
    assert "the last purge is" in one.sentence(Reason.HOLD_RATE_LIMIT)
    one.run(119)
    assert one.reasons()[-1] is Reason.RECOVERY_HOLD
    one.run(2)
    assert one.reasons()[-1] is Reason.RECOVERY_BUDGET


def test_between_the_two_levels_the_clock_of_a_stage_starts_again() -> None:
    one = plant()
    one.run(5, **TIGHT)
    one.run(50)
    one.run(1, effective_memory_ratio=0.94)
    one.run(60)
    assert one.reasons()[-1] is Reason.RECOVERY_HOLD


BLIND: list[dict[str, Any]] = [
    {"problems": {Source.METRICS: "500"}},
    {"problems": {Source.GPU: "NVML is lost"}},
    {"ages_s": FRESH | {Source.METRICS: 10.0}},
    {"ages_s": FRESH | {Source.STATS: 10.0}},
    {"effective_memory_ratio": None},
    {"asleep": True},
]


@pytest.mark.parametrize("blind", BLIND)
def test_recovery_takes_no_step_on_unknown_or_stale_figures(blind: dict[str, Any]) -> None:
    one = plant()
    one.run(5, **TIGHT)
    one.run(20)
    one.run(500, **blind)
    assert one.changes(MAX_NUM_BATCHED_TOKENS) == [4096]
    assert one.changes(MAX_NUM_QUEUED_REQS) == [100]
    one.run(30)
    assert one.reasons()[-1] is Reason.RECOVERY_HOLD


def test_an_emergency_on_unknown_figures_is_neither_judged_nor_escalated() -> None:
    one = plant(preempt_requests=4)
    one.run(5, **TIGHT)
    one.run(300, **(TIGHT | {"problems": {Source.GPU: "NVML is lost"}}))
    assert one.acts(PREEMPT) == []
    assert "cannot be judged" in one.sentence(Reason.HOLD_BLIND)


def test_an_emergency_that_nothing_relieves_ends_and_leaves_the_knobs_where_they_are() -> None:
    one = plant(longest_s=600)
    one.run(4, **TIGHT)
    one.run(600, **TIGHT)
    assert one.state.phase is Phase.CALM
    assert "not relieved by then, the knobs stay" in one.sentence(Reason.NOT_RELIEVED)
    assert one.changes(MAX_NUM_BATCHED_TOKENS) == [4096]


def test_no_more_than_three_emergencies_an_hour() -> None:
    one = plant(longest_s=60, purge_interval_s=0)
    one.run(3000, **TIGHT)
    assert len(one.acts()) == 3
    assert "3 emergencies within the hour: this one is a person's" in one.sentence(Reason.HOLD_RATE_LIMIT)
    one.run(605, **TIGHT)
    assert len(one.acts()) == 4


def test_where_nothing_can_be_judged_it_abstains_and_names_the_sources() -> None:
    unknown = {
        "effective_memory_ratio": None,
        "hot_blocks_ratio": None,
        "ages_s": {Source.METRICS: 0, Source.RUNTIME: 0},
    }
    (said,) = plant().run(1, **unknown)
    assert (said.wanted, said.reason) == (None, Reason.ABSTAIN_UNKNOWN)
    assert "gpu has given nothing" in said.sentence


def test_a_calm_engine_is_told_as_a_hold_with_the_numbers() -> None:
    (said,) = plant().run(1)
    assert (said.knob, said.wanted, said.reason) == (PURGE, 0.0, Reason.HOLD_CALM)
    assert said.sentence == (
        "No emergency: effective GPU memory is 60.0% (95% is pressure); the hot tier crowds nobody out."
    )


def test_the_levels_have_to_be_in_order() -> None:
    with pytest.raises(ValidationError, match=r"memory_clear_ratio must be under memory_ratio = 0\.95"):
        EmergencyPurgeSettings(memory_clear_ratio=0.95)
    with pytest.raises(ValidationError, match="hold_s must not be over max_hold_s = 30"):
        EmergencyPurgeSettings(max_hold_s=30.0)


# --- for any views ---

ratios = st.one_of(st.none(), st.floats(0.0, 1.0), st.sampled_from([0.0, 0.94, 0.96, 0.99, 1.0]))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "effective_memory_ratio": ratios,
    "gpu_memory_usage_ratio": ratios,
    "kv_cache_usage_ratio": ratios,
    "hot_blocks_ratio": ratios,
    "preemptions_per_s": st.one_of(st.none(), st.floats(0.0, 50.0)),
    "oldest_waiting_s": st.one_of(st.none(), st.floats(0.0, 100.0)),
    "running": st.one_of(st.none(), st.floats(0.0, 300.0)),
    "stalled_s": st.one_of(st.none(), st.floats(0.0, 200.0)),
    "asleep": st.sampled_from([None, False, False, True]),
    "problems": st.dictionaries(st.sampled_from(list(Source)), st.just("lost"), max_size=2),
    "ages_s": st.dictionaries(st.sampled_from(list(Source)), st.floats(0.0, 20.0)),
}
pictures = st.fixed_dictionaries({}, optional=VALUES)
boots = st.sampled_from(["boot-a"] * 8 + ["boot-b"])
spells = st.lists(st.tuples(st.integers(1, 120), pictures, boots), max_size=10)


def play(
    told: list[tuple[int, dict[str, Any], str]], base: dict[str, Any], policy: EmergencyPurge = POLICY
) -> list[tuple[View, tuple[Proposal, ...], EmergencyState]]:
    state, now_s, made = policy.initial_state(), 0.0, []
    values = {"budget": 8192.0, "queue": NO_LIMIT}
    for seconds, changes, boot_id in told:
        for _ in range(seconds):
            one = view(now_s, **(base | changes | {"runtime": engine(boot_id=boot_id, **values)}))
            state, proposals = policy.decide(state, one)
            made.append((one, proposals, state))
            for p in proposals:
                if p.wanted is not None and p.knob in (MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS):
                    values["budget" if p.knob == MAX_NUM_BATCHED_TOKENS else "queue"] = p.wanted
            now_s += 1.0
    return made


@settings(max_examples=60, deadline=None)
@given(spells, st.sampled_from([QUIET | TIGHT, QUIET | TIGHT | CROWDED, QUIET | FULL]))
def test_no_emergency_begins_on_a_view_with_unknown_or_stale_inputs(
    told: list[tuple[int, dict[str, Any], str]], base: dict[str, Any]
) -> None:
    for seen_view, proposals, _ in play(told, base):
        if not emergencies(proposals):
            continue
        assert seen_view.asleep is not True
        for source in (Source.METRICS, Source.RUNTIME):
            assert source not in seen_view.problems
            assert seen_view.ages_s[source] <= 3.0
        begun = next((p for p in proposals if p.knob == PURGE and p.wanted), None)
        if begun is not None and begun.reason in (Reason.EMERGENCY_MEMORY, Reason.EMERGENCY_OOM):
            assert Source.GPU not in seen_view.problems
            assert seen_view.ages_s[Source.GPU] <= 3.0
            assert seen_view.effective_memory_ratio is not None
            assert seen_view.effective_memory_ratio > 0.95
        if begun is not None and begun.reason is Reason.EMERGENCY_CROWDED:
            assert None not in (seen_view.hot_blocks_ratio, seen_view.preemptions_per_s, seen_view.kv_cache_usage_ratio)


@settings(max_examples=60, deadline=None)
@given(spells)
def test_acts_are_bounded_and_nothing_loosens_on_a_view_that_does_not_show_relief(
    told: list[tuple[int, dict[str, Any], str]],
) -> None:
    policy = EmergencyPurge(EmergencyPurgeSettings(preempt_requests=2))
    purges, preemptions = [], []
    for seen_view, proposals, _ in play(told, QUIET | TIGHT, policy):
        assert len({p.knob for p in proposals}) == len(proposals)
        for p in proposals:
            assert p.sentence.endswith(".")
            if p.knob == PURGE and p.wanted:
                purges.append(seen_view.now_s)
            elif p.knob == PREEMPT:
                preemptions.append(seen_view.now_s)
            elif p.knob in (MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS) and p.wanted is not None:
                knob = seen_view.runtime.knob(p.knob) if seen_view.runtime else None
                assert knob is not None
                assert knob.value is not None
                assert p.wanted >= (knob.minimum or 0)
                if loosens(p.knob, knob.value, p.wanted):
                    assert seen_view.asleep is not True
                    assert Source.METRICS not in seen_view.problems
                    assert seen_view.effective_memory_ratio is not None or seen_view.preemptions_per_s is not None
    assert all(later - earlier >= 120.0 for earlier, later in pairwise(purges))
    for acts in (purges, preemptions):
        assert all(sum(at <= other < at + 3600.0 for other in acts) <= 3 for at in acts)


@settings(max_examples=15, deadline=None)
@given(spells)
def test_every_emergency_ends(told: list[tuple[int, dict[str, Any], str]]) -> None:
    policy = EmergencyPurge(EmergencyPurgeSettings(longest_s=300.0))
    began: float | None = None
    for seen_view, _, state in play([*told, (350, {}, "boot-a")], QUIET | TIGHT, policy):
        began = None if state.phase is Phase.CALM else began if began is not None else seen_view.now_s
        assert began is None or seen_view.now_s - began <= 300.0


@settings(max_examples=20, deadline=None)
@given(spells)
def test_the_state_survives_a_json_round_trip_and_goes_on_the_same(
    told: list[tuple[int, dict[str, Any], str]],
) -> None:
    for seen_view, _, state in play(told, QUIET | TIGHT)[::23]:
        again = ADAPTER.validate_json(ADAPTER.dump_json(state))
        assert again == state
        later = seen(seen_view.now_s + 1.0, **TIGHT)
        assert POLICY.decide(again, later) == POLICY.decide(state, later)


def test_evidence_names_are_signals() -> None:
    (said,) = plant().run(1)
    assert set(said.evidence) <= set(SIGNALS)
    assert {f.name for f in fields(EmergencyState)} >= {"phase", "stage", "measure", "relieved"}
