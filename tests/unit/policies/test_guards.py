"""The guards: laws for any sequence of views and proposals, and each guard by itself."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.history.dataclass_json import decoder, encoder
from domain.decision import Mode, Priority, Proposal, Reason
from domain.knobs import (
    ADMISSION_DELAY_MS,
    HOT_CACHE_RATIO,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_QUEUED_REQS,
    MAX_NUM_SEQS,
    NO_LIMIT,
    PURGE,
    TRAITS,
    loosens,
    tightens,
)
from domain.outcome import Refuted
from domain.runtime import EngineRuntime
from domain.snapshot import Source
from domain.view import View
from policies.guards import GuardSettings, GuardState, Override, Rules, Ruling, rule, withdraw
from tests.views import knob, runtime, view, with_knobs

TICK_S = 1.0
BOUNDS = {
    MAX_NUM_SEQS: (1, 256),
    MAX_NUM_BATCHED_TOKENS: (64, 8192),
    MAX_NUM_QUEUED_REQS: (0, 1_000_000),
    ADMISSION_DELAY_MS: (0, 100),
}
STARTUP: dict[str, float] = {
    MAX_NUM_SEQS: 256,
    MAX_NUM_BATCHED_TOKENS: 8192,
    MAX_NUM_QUEUED_REQS: NO_LIMIT,
    ADMISSION_DELAY_MS: 0,
}
CALM = GuardSettings(warm_up_s=0.0)


def engine(values: dict[str, float], boot_id: str = "boot-a", running: int = 0) -> EngineRuntime:
    knobs = (knob(name, value, STARTUP[name], *BOUNDS[name]) for name, value in values.items())
    return with_knobs(runtime(boot_id=boot_id, running=running, waiting=0), *knobs)


def propose(name: str, wanted: float | None, priority: Priority | None = None, policy: str = "p") -> Proposal:
    return Proposal(policy, name, wanted, Reason.HOLD_STEADY, "because", priority=priority)


def rules(mode: Mode = Mode.AUTO, table: GuardSettings = CALM, **more: Any) -> Rules:
    return Rules(mode, TICK_S, table, **more)


@dataclass
class Change:
    """One that the engine carried out."""

    at_s: float
    boot: int
    old: float
    new: float
    priority: Priority | None

    @property
    def direction(self) -> int:
        return (self.new > self.old) - (self.new < self.old)


@dataclass
class World:
    """An engine under the guards; `changes` is what it carried out."""

    table: GuardSettings = field(default_factory=GuardSettings)
    state: GuardState = field(default_factory=GuardState)
    values: dict[str, float] = field(default_factory=lambda: dict(STARTUP))
    now_s: float = 100.0
    boot: int = 0
    changes: dict[str, list[Change]] = field(default_factory=lambda: {name: [] for name in BOUNDS})
    told: list[tuple[Ruling, ...]] = field(default_factory=list)
    blind_loosenings: list[Ruling] = field(default_factory=list)

    def step(self, happens: Step) -> None:
        self.now_s += happens.after_s
        if happens.restarts:
            self.boot, self.values = self.boot + 1, dict(STARTUP)
        self.values |= happens.moved
        seen = self.picture(happens)
        self.state, rulings = rule(self.state, seen, happens.proposals, rules(table=self.table))
        self.told.append(rulings)
        for ruling in rulings:
            self.carry_out(ruling, happens)

    def picture(self, happens: Step) -> View:
        ages = {} if happens.metrics_age_s is None else {Source.METRICS: happens.metrics_age_s}
        known = engine(self.values, f"boot-{self.boot}", happens.running)
        return view(
            self.now_s,
            runtime=None if happens.silent else known,
            ages_s={**ages, Source.RUNTIME: happens.runtime_age_s},
        )

    def carry_out(self, ruling: Ruling, happens: Step) -> None:
        name, new, old = ruling.proposal.knob, ruling.requested, ruling.old
        if new is None or old is None:
            return
        fresh = (
            happens.metrics_age_s is not None
            and happens.metrics_age_s <= self.table.stale_ticks * TICK_S
            and happens.runtime_age_s <= self.table.stale_ticks * TICK_S
        )
        operator = ruling.proposal.priority is Priority.OPERATOR
        if loosens(name, old, new) and not fresh and not operator:
            self.blind_loosenings.append(ruling)
        if happens.ignored:
            return
        self.values[name] = new
        self.changes[name].append(Change(self.now_s, self.boot, old, new, ruling.proposal.priority))


@dataclass(frozen=True)
class Step:
    """What happens at one tick."""

    after_s: float
    proposals: tuple[Proposal, ...]
    metrics_age_s: float | None = 0.0
    runtime_age_s: float = 0.0
    silent: bool = False
    restarts: bool = False
    ignored: bool = False
    running: int = 0
    moved: dict[str, float] = field(default_factory=dict)


NUMBERS = st.one_of(
    st.none(),
    st.just(math.nan),
    st.just(math.inf),
    st.floats(-10, 10_000),
    st.integers(0, 300).map(float),
)
PRIORITIES = st.one_of(st.none(), st.sampled_from(Priority))
PROPOSALS = st.lists(st.builds(propose, st.sampled_from(sorted(BOUNDS)), NUMBERS, PRIORITIES), max_size=5).map(tuple)
MOVES = st.dictionaries(st.just(MAX_NUM_SEQS), st.integers(1, 256).map(float), max_size=1)
RARELY = st.integers(0, 9).map(lambda n: n == 0)
STEPS = st.lists(
    st.builds(
        Step,
        after_s=st.sampled_from([0.2, 1.0, 1.0, 1.0, 3.0, 10.0, 70.0]),
        proposals=PROPOSALS,
        metrics_age_s=st.sampled_from([0.0, 0.0, 0.0, 2.0, 5.0, None]),
        runtime_age_s=st.sampled_from([0.0, 0.0, 0.0, 0.0, 9.0]),
        silent=RARELY,
        restarts=RARELY,
        ignored=RARELY,
        running=st.sampled_from([0, 0, 0, 40]),
        moved=st.one_of(st.just({}), st.just({}), MOVES),
    ),
    max_size=40,
)
SWINGS = st.lists(
    st.builds(
        Step,
        after_s=st.sampled_from([1.0, 3.0, 3.0, 10.0]),
        proposals=st.sampled_from([16.0, 128.0]).map(lambda cap: (propose(MAX_NUM_SEQS, cap),)),
    ),
    min_size=20,
    max_size=60,
)
"""A policy that cannot make up its mind, and nothing else that would keep it from a change."""
TABLES = st.builds(
    GuardSettings,
    warm_up_s=st.sampled_from([0.0, 5.0]),
    max_reversals=st.integers(2, 5),
    reversal_window_s=st.sampled_from([10.0, 180.0]),
    cooldown_ratio=st.sampled_from([0.0, 0.5, 2.0]),
    dwell_doublings=st.sampled_from([0, 6]),
)


def lived(steps: list[Step], table: GuardSettings) -> World:
    world = World(table)
    for step in steps:
        world.step(step)
    return world


@settings(max_examples=60, deadline=None)
@given(STEPS, TABLES)
def test_knobs_stay_inside_their_bounds(steps: list[Step], table: GuardSettings) -> None:
    for name, changes in lived(steps, table).changes.items():
        low, high = BOUNDS[name]
        for change in changes:
            assert low <= change.new <= high or change.new == STARTUP[name]


@settings(max_examples=60, deadline=None)
@given(STEPS, TABLES)
def test_what_goes_in_one_call_leaves_each_request_under_the_cap_a_token_of_the_budget(
    steps: list[Step], table: GuardSettings
) -> None:
    for rulings in lived(steps, table).told:
        by_knob = {ruling.proposal.knob: ruling for ruling in rulings if ruling.requested is not None}
        cap, budget = by_knob.get(MAX_NUM_SEQS), by_knob.get(MAX_NUM_BATCHED_TOKENS)
        if cap is None or budget is None or None in (cap.requested, cap.old, budget.requested, budget.old):
            continue
        was_so = (cap.old or 0) > (budget.old or 0)  # somebody else's doing: a cut must not be stopped by it
        assert was_so or (cap.requested or 0) <= (budget.requested or 0)


@settings(max_examples=60, deadline=None)
@given(STEPS, TABLES)
def test_a_knob_rests_after_each_change_unless_an_operator_or_an_emergency_cut_comes(
    steps: list[Step], table: GuardSettings
) -> None:
    for name, changes in lived(steps, table).changes.items():
        for before, after in pairwise(changes):
            cut = after.priority is Priority.EMERGENCY and tightens(name, after.old, after.new)
            if after.priority is not Priority.OPERATOR and not cut:
                assert after.at_s - before.at_s >= table.rest_s(name) - 1e-9


def test_a_change_sent_just_before_the_engine_restarted_still_makes_its_knob_rest() -> None:
    cut = Step(1.0, (propose(MAX_NUM_SEQS, 128),))
    again = replace(cut, after_s=0.2, restarts=True)
    world = lived([cut, again], CALM)
    assert [change.at_s for change in world.changes[MAX_NUM_SEQS]] == [101.0]


@settings(max_examples=150, deadline=None)
@given(STEPS | SWINGS, TABLES)
def test_no_knob_turns_back_more_often_than_allowed(steps: list[Step], table: GuardSettings) -> None:
    for changes in lived(steps, table).changes.values():
        turns = [
            after.at_s
            for before, after in pairwise(changes)
            if before.boot == after.boot
            and before.direction * after.direction < 0
            and Priority.OPERATOR not in (before.priority, after.priority)
        ]
        for at_s in turns:
            assert sum(at_s <= other < at_s + table.reversal_window_s for other in turns) <= table.max_reversals


@settings(max_examples=60, deadline=None)
@given(STEPS, TABLES)
def test_nothing_is_loosened_on_unknown_or_old_readings(steps: list[Step], table: GuardSettings) -> None:
    assert lived(steps, table).blind_loosenings == []


@settings(max_examples=40, deadline=None)
@given(STEPS, TABLES)
def test_the_same_history_gives_the_same_rulings_to_the_last_bit(steps: list[Step], table: GuardSettings) -> None:
    once, again = lived(steps, table), lived(steps, table)
    assert repr(once.told) == repr(again.told)
    assert repr(once.state) == repr(again.state)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_the_state_survives_a_round_trip_through_json(steps: list[Step]) -> None:
    state = lived(steps, CALM).state
    encode, decode = encoder(GuardState), decoder(GuardState)
    assert encode is not None
    assert decode is not None
    assert decode(json.loads(json.dumps(encode(state)))) == state


def one(world: World, *proposals: Proposal, after_s: float = 1.0, **happens: Any) -> Ruling:
    """The ruling on the first of them."""
    world.step(Step(after_s, proposals, **happens))
    return next(ruling for ruling in world.told[-1] if ruling.proposal == proposals[0])


def calm(**table: Any) -> World:
    """An engine that was met, with a cap of 32."""
    world = World(GuardSettings(**({"warm_up_s": 0.0} | table)))
    world.values[MAX_NUM_SEQS] = 32.0
    world.step(Step(1.0, ()))
    return world


def test_right_after_meeting_an_engine_and_after_its_restart_nothing_is_changed() -> None:
    world = World(GuardSettings(warm_up_s=5.0))
    world.values[MAX_NUM_SEQS] = 32.0
    assert one(world, propose(MAX_NUM_SEQS, 16)).notes == (
        "withheld: the engine was met 0.0 s ago, no change before 5 s",
    )
    assert one(world, propose(MAX_NUM_SEQS, 16), after_s=5.0).requested == 16
    assert one(world, propose(MAX_NUM_SEQS, 64), restarts=True).withheld
    assert one(world, propose(MAX_NUM_SEQS, 64), after_s=5.0).requested == 64


def test_old_metrics_withhold_what_loosens_and_let_a_cut_through() -> None:
    world = calm()
    assert one(world, propose(MAX_NUM_SEQS, 40), metrics_age_s=4.0).notes == ("withheld: metrics is 4.0 s old",)
    assert one(world, propose(ADMISSION_DELAY_MS, 20), metrics_age_s=4.0).withheld
    assert one(world, propose(MAX_NUM_SEQS, 24), metrics_age_s=4.0).requested == 24


@pytest.mark.parametrize("age_s", [4.0, None])
def test_no_emergency_is_acted_on_blindly(age_s: float | None) -> None:
    for wish in (propose(PURGE, 0.5, Priority.EMERGENCY), propose(MAX_NUM_SEQS, 8, Priority.EMERGENCY)):
        assert one(calm(), wish, metrics_age_s=age_s).withheld


def test_while_a_cut_drains_neither_a_second_cut_nor_anything_that_loosens_goes_through() -> None:
    world = calm()
    said = "withheld: the last cut of max_num_seqs is draining, 40 still run"
    for wish in (propose(MAX_NUM_SEQS, 16), propose(MAX_NUM_SEQS, 48), propose(MAX_NUM_QUEUED_REQS, 100)):
        ruling = one(world, wish, running=40)
        assert ruling.notes == ((said,) if wish.knob == MAX_NUM_SEQS else ())
    world.values[MAX_NUM_BATCHED_TOKENS] = 2048.0
    assert one(world, propose(MAX_NUM_BATCHED_TOKENS, 4096), running=40).notes == (said,)
    assert one(world, propose(MAX_NUM_SEQS, 16, Priority.EMERGENCY), running=40).requested == 16


def test_a_second_cut_waits_for_the_effect_of_the_first_and_a_cut_after_a_raise_does_not() -> None:
    world = calm()
    delay_s = TRAITS[MAX_NUM_SEQS].effect_delay_s
    assert one(world, propose(MAX_NUM_SEQS, 24)).requested == 24
    assert one(world, propose(MAX_NUM_SEQS, 16), after_s=delay_s - 0.5).withheld
    assert one(world, propose(MAX_NUM_SEQS, 16), after_s=0.5).requested == 16
    assert one(world, propose(MAX_NUM_SEQS, 24), after_s=10 * delay_s).requested == 24
    assert one(world, propose(MAX_NUM_SEQS, 16), after_s=1.5).requested == 16


def test_the_dwell_doubles_with_each_turn_and_halves_after_quiet_time() -> None:
    world = calm(max_reversals=1000, dwell_decay_s=100.0)

    def waited_s(wanted: float) -> float:
        for tries in range(1000):
            if one(world, propose(MAX_NUM_SEQS, wanted), after_s=0.5).requested is not None:
                return 0.5 * (tries + 1)
        raise AssertionError("never let through")

    assert waited_s(24) == 0.5
    raises = []
    for _ in range(4):
        raises.append(waited_s(32))
        waited_s(24)
    assert raises[0] > 0.5
    assert all(later >= 2 * sooner for sooner, later in pairwise(raises)), raises
    world.step(Step(1000.0, ()))
    assert waited_s(32) == 0.5


def test_a_raise_leaves_room_for_the_cut_that_may_have_to_follow() -> None:
    world = calm(max_reversals=3, reversal_window_s=180.0, dwell_doublings=0)
    for wanted in (24, 32, 24):
        assert one(world, propose(MAX_NUM_SEQS, wanted), after_s=5.0).requested == wanted
    assert one(world, propose(MAX_NUM_SEQS, 32), after_s=5.0).notes == (
        "withheld: max_num_seqs turned back 2 times within 180 s",
    )
    assert one(world, propose(MAX_NUM_SEQS, 16), after_s=5.0).requested == 16
    assert one(world, propose(MAX_NUM_SEQS, 32), after_s=180.0).requested == 32


def test_one_knob_is_loosened_at_a_time_and_a_cut_of_another_does_not_wait() -> None:
    world = calm()
    world.values[MAX_NUM_BATCHED_TOKENS] = 2048.0
    both = (propose(MAX_NUM_SEQS, 40), propose(MAX_NUM_BATCHED_TOKENS, 4096), propose(ADMISSION_DELAY_MS, 20))
    assert one(world, *both).requested == 40
    told = {ruling.proposal.knob: ruling for ruling in world.told[-1]}
    assert told[MAX_NUM_BATCHED_TOKENS].notes == (
        "withheld: one at a time: max_num_seqs was loosened 0.0 s ago, its effect takes 3 s",
    )
    assert told[ADMISSION_DELAY_MS].withheld
    assert one(world, propose(MAX_NUM_BATCHED_TOKENS, 1024)).requested == 1024
    assert one(world, propose(ADMISSION_DELAY_MS, 20), after_s=3.0).requested == 20


def test_a_limit_grows_in_bounded_steps_and_is_cut_at_once() -> None:
    world = calm()
    grown = one(world, propose(MAX_NUM_SEQS, 200))
    assert (grown.requested, grown.notes) == (64, ("stepped from 200 to 64: at most 2 times as much at once",))
    assert one(world, propose(MAX_NUM_SEQS, 8), after_s=10.0).requested == 8


def test_what_was_refuted_is_withheld_until_it_expires_but_not_from_a_rollback() -> None:
    bad = frozenset({Refuted(MAX_NUM_SEQS, 48, 32, until_s=160.0)})

    def asked(wanted: float, now_s: float, priority: Priority | None = None) -> Ruling:
        seen = view(now_s, runtime=engine(STARTUP | {MAX_NUM_SEQS: 32.0}))
        _, (ruling,) = rule(GuardState(), seen, [propose(MAX_NUM_SEQS, wanted, priority)], rules(refuted=bad))
        return ruling

    assert asked(48, 100.0).notes == ("withheld: max_num_seqs at 48 was worse than 32, not again for 60 s",)
    assert asked(56, 100.0).withheld
    assert asked(40, 100.0).requested == 40
    assert asked(48, 160.0).requested == 48
    assert asked(48, 100.0, Priority.ROLLBACK).requested == 48


def test_an_operators_word_beats_every_policy_but_an_emergency_until_its_time_is_up() -> None:
    word = Override(MAX_NUM_SEQS, 48.0, until_s=160.0)

    def asked(now_s: float, cap: float, *proposals: Proposal) -> Ruling:
        seen = view(now_s, runtime=engine(STARTUP | {MAX_NUM_SEQS: cap}))
        _, (ruling,) = rule(GuardState(), seen, proposals, rules(overrides=(word,)))
        return ruling

    cut, undo = propose(MAX_NUM_SEQS, 16), propose(MAX_NUM_SEQS, 16, Priority.ROLLBACK)
    assert asked(100.0, 32.0, cut, undo).requested == 48
    held = asked(100.0, 48.0, cut)
    assert (held.requested, held.proposal.policy) == (None, "operator")
    assert held.proposal.sentence == "The operator set max_num_seqs to 48, for another 60 s."
    assert asked(100.0, 48.0, propose(MAX_NUM_SEQS, 8, Priority.EMERGENCY)).requested == 8
    assert asked(160.0, 48.0, cut).requested == 16


def test_an_operators_word_is_kept_inside_the_engines_bounds() -> None:
    for wanted, requested in ((256 * 4, 256), (0, 1)):
        seen = view(100.0, runtime=engine(STARTUP | {MAX_NUM_SEQS: 32.0}))
        _, (ruling,) = rule(GuardState(), seen, (), rules(overrides=(Override(MAX_NUM_SEQS, wanted, until_s=200.0),)))
        assert ruling.requested == requested
        assert ruling.notes[0].startswith(f"clamped from {wanted} to {requested}")


@pytest.mark.parametrize(
    ("mode", "policy_may", "operator_may"),
    [
        (Mode.AUTO, True, True),
        (Mode.STATIC, True, True),
        (Mode.MANUAL, False, True),
        (Mode.OBSERVE, False, False),
        (Mode.PAUSED, False, False),
    ],
)
def test_who_may_change_what_in_which_mode(mode: Mode, policy_may: bool, operator_may: bool) -> None:
    seen = view(100.0, runtime=engine(STARTUP | {MAX_NUM_SEQS: 32.0}))
    for priority, may in ((None, policy_may), (Priority.OPERATOR, operator_may)):
        _, (ruling,) = rule(GuardState(), seen, [propose(MAX_NUM_SEQS, 16, priority)], rules(mode))
        assert (ruling.requested == 16) is may


def test_priorities_decide_and_among_equals_caution() -> None:
    seen = view(100.0, runtime=engine(STARTUP | {MAX_NUM_SEQS: 32.0}))

    def chosen(*proposals: Proposal) -> float | None:
        _, (ruling,) = rule(GuardState(), seen, proposals, rules())
        return ruling.proposal.wanted

    grow, more, hold, cut = (propose(MAX_NUM_SEQS, wanted) for wanted in (40, 48, 32, 24))
    assert chosen(grow, cut) == 24
    assert chosen(more, grow) == 40
    assert chosen(hold, grow) == 40
    assert chosen(grow, propose(MAX_NUM_SEQS, 32, Priority.SHRINK)) == 32
    assert chosen(cut, propose(MAX_NUM_SEQS, 32, Priority.SHRINK)) == 24
    assert chosen(propose(MAX_NUM_SEQS, None), grow) == 40
    assert chosen(propose(MAX_NUM_SEQS, math.nan), hold) == 32


def test_the_same_step_wished_by_two_policies_happens_once() -> None:
    seen = view(100.0, runtime=with_knobs(engine(STARTUP), knob(HOT_CACHE_RATIO, 0.3, 0.0, 0.0, 0.9)))
    wishes = [propose(HOT_CACHE_RATIO, 0.35, policy=name) for name in ("cache_ratio", "stability")]
    _, rulings = rule(GuardState(), seen, wishes, rules())
    assert [(ruling.proposal.policy, ruling.requested) for ruling in rulings] == [("cache_ratio", 0.35)]


def test_a_purge_is_an_act_and_rests_like_a_knob() -> None:
    world = calm()
    world.changes[PURGE] = []
    assert one(world, propose(PURGE, 0.0)).requested is None
    assert one(world, propose(PURGE, 1.5)).requested == 1.0
    world.values.pop(PURGE, None)
    assert one(world, propose(PURGE, 0.5), after_s=5.0).withheld
    world.values.pop(PURGE, None)
    assert one(world, propose(PURGE, 0.5), after_s=60.0).requested == 0.5


def beside(cap: float, budget: float, floor: float, running: int, *proposals: Proposal) -> list[float | None]:
    """What is requested of each, at an engine whose floor of the budget is this."""
    tokens = knob(MAX_NUM_BATCHED_TOKENS, budget, 8192, floor, 8192)
    known = with_knobs(runtime(cap=cap, running=running, waiting=0, maximum=1024), tokens)
    _, rulings = rule(GuardState("boot-a", met_s=0.0), view(runtime=known), proposals, rules())
    found = {ruling.proposal.knob: ruling.requested for ruling in rulings}
    return [found[one.knob] for one in proposals]


def test_a_cap_grows_no_further_than_the_token_budget_gives_each_request_a_token() -> None:
    assert beside(256, 330, 256, 200, propose(MAX_NUM_SEQS, 384)) == [328]
    assert beside(256, 256, 256, 200, propose(MAX_NUM_SEQS, 384)) == [None]
    assert beside(64, 600, 256, 60, propose(MAX_NUM_SEQS, 256)) == [128]  # at most twice
    assert beside(64, 400, 256, 60, propose(MAX_NUM_SEQS, 128)) == [96]  # three drafts each
    assert beside(64, 5000, 4096, 60, propose(MAX_NUM_SEQS, 96)) == [96]  # the floor is a whole prompt's
    assert beside(256, 8192, 8192, 200, propose(MAX_NUM_SEQS, 384)) == [384]  # started below its own floor


def test_a_cut_of_the_budget_comes_before_a_raise_of_the_cap_beside_it() -> None:
    cut = propose(MAX_NUM_BATCHED_TOKENS, 160)
    assert beside(128, 512, 128, 120, propose(MAX_NUM_SEQS, 200), cut) == [160, 160]
    operators = propose(MAX_NUM_SEQS, 200, Priority.OPERATOR), propose(MAX_NUM_BATCHED_TOKENS, 160, Priority.OPERATOR)
    assert beside(128, 512, 128, 120, *operators) == [200, 200]


def test_letting_go_of_a_limit_needs_no_step() -> None:
    world = calm()
    world.values[MAX_NUM_QUEUED_REQS] = 100.0
    assert one(world, propose(MAX_NUM_QUEUED_REQS, NO_LIMIT)).requested == NO_LIMIT


def test_a_limit_that_vllm_was_started_with_is_the_most_there_is() -> None:
    limited = knob(MAX_NUM_QUEUED_REQS, 100.0, 500.0, 0, 500.0)
    seen = view(100.0, runtime=with_knobs(engine(STARTUP), limited))
    _, (ruling,) = rule(GuardState(), seen, [propose(MAX_NUM_QUEUED_REQS, NO_LIMIT, Priority.OPERATOR)], rules())
    assert ruling.requested == 500.0


def test_what_was_not_sent_is_no_failure_of_the_engine() -> None:
    seen = view(100.0, runtime=engine(STARTUP | {MAX_NUM_SEQS: 32.0}))
    state, _ = rule(GuardState(), seen, [propose(MAX_NUM_SEQS, 24)], rules())
    again, (ruling,) = rule(withdraw(state), replace(seen, now_s=101.0), [propose(MAX_NUM_SEQS, 24)], rules())
    assert ruling.requested == 24
    _, (unheard,) = rule(again, replace(seen, now_s=102.0), [propose(MAX_NUM_SEQS, 24)], rules())
    assert unheard.notes == ("withheld: max_num_seqs rests after 1 changes without effect",)


def test_a_cooldown_of_an_unknown_knob_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="max_num_sequences is no knob"):
        GuardSettings(cooldown_s={"max_num_sequences": 3})
