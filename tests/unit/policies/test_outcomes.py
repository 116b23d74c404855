"""When changes are judged, what is wanted back, what is remembered."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.history.dataclass_json import decoder, encoder
from domain.decision import Priority, Reason
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, NO_LIMIT
from domain.outcome import Outcome, Verdict
from domain.slo import Latency, Slo
from domain.view import View
from policies import outcomes
from policies.judgement import JudgementSettings
from policies.outcomes import OutcomesState
from policies.trial import Change, shown
from tests.views import runtime, samples, view

SETTINGS = JudgementSettings()
ITL = Slo(Latency.ITL, percentile=95, bound_s=0.05)


class Run:
    """Ticks of one second against an engine with a cap. `over`: the share of inter-token latencies over the bound."""

    def __init__(self) -> None:
        self.state = OutcomesState()
        self.now_s = 1000.0
        self.cap = 16.0
        self.boot_id = "boot-a"
        self.maximum = 64.0
        self.verdicts: dict[int, Outcome] = {}

    def view(self, over: float, *, inside: float = 40.0, per_s: float = 20.0, known: bool = True) -> View:
        measured: dict[str, Any] = {}
        if known:
            wobble = 1 + 0.1 * math.sin(1.7 * self.now_s)
            measured = {
                "completed_s": 1.0,
                "completed": {
                    Latency.ITL: samples(400, round(400 * over * wobble)),
                    Latency.TTFT: samples(per_s, 0),
                    Latency.E2E: Histogram((1.0, math.inf), (per_s, per_s), per_s * wobble),
                },
            }
        engine = runtime(cap=self.cap, maximum=self.maximum, boot_id=self.boot_id)
        return view(self.now_s, runtime=engine, slos=(ITL,), running=inside, waiting=0.0, **measured)

    def ticks(self, count: int, over: float = 0.02, **load: Any) -> Run:
        for _ in range(count):
            self.now_s += 1
            self.state, verdicts = outcomes.observe(self.state, self.view(over, **load), SETTINGS)
            self._note(verdicts)
        return self

    def change(self, number: int, cap: float, **changes: Any) -> Run:
        made = Change(str(number), MAX_NUM_SEQS, self.cap, cap, **changes)
        self.state, verdicts = outcomes.changed(self.state, self.view(0.02), [made], SETTINGS)
        self._note(verdicts)
        self.cap = cap
        return self

    def _note(self, verdicts: outcomes.Verdicts) -> None:
        self.verdicts |= {int(uid): outcome for uid, outcome in verdicts.items()}

    def said(self) -> dict[int, Verdict]:
        return {number: outcome.verdict for number, outcome in self.verdicts.items()}

    def refuted(self, **load: Any) -> set[float]:
        return {one.value for one in outcomes.refuted(self.state, self.view(0.02, **load))}


def bad(run: Run | None = None) -> Run:
    """A raise to 64 that broke the objective."""
    return (run or Run()).ticks(60).change(1, 64).ticks(40, over=0.2)


def test_a_change_is_judged_after_its_effect_delay_and_twenty_seconds() -> None:
    run = Run().ticks(60).change(1, 24)
    assert run.ticks(22).said() == {}
    assert run.ticks(3).said() == {1: Verdict.NEUTRAL}
    assert run.verdicts[1].numbers["instead_of"] == 16


def test_a_change_that_broke_an_objective_is_wanted_back_before_every_policy() -> None:
    run = bad()
    assert run.said() == {1: Verdict.WORSE}
    assert run.verdicts[1].undo
    (proposal,) = outcomes.proposals(run.state)
    assert (proposal.knob, proposal.wanted, proposal.priority) == (MAX_NUM_SEQS, 16, Priority.ROLLBACK)
    assert proposal.reason is Reason.UNDO_WORSE
    assert proposal.sentence.startswith(
        "Undoing max_num_seqs 16 -> 64: since then inter_token_latency over 0.05 s went"
    )


def test_an_undo_ends_once_the_knob_moved_and_is_no_second_undo() -> None:
    run = bad().change(2, 16, reversible=False)
    assert outcomes.proposals(run.state) == ()
    run.ticks(40, over=0.9)
    assert run.said()[2] is Verdict.WORSE
    assert not run.verdicts[2].undo
    assert outcomes.proposals(run.state) == ()


def test_an_undo_that_is_withheld_for_long_is_given_up() -> None:
    assert outcomes.proposals(bad().ticks(61, over=0.2).state) == ()


def test_a_bad_setting_is_avoided_at_that_load_and_everything_past_it() -> None:
    run = bad()
    (one,) = outcomes.refuted(run.state, run.view(0.0))
    assert (one.covers(MAX_NUM_SEQS, 64), one.covers(MAX_NUM_SEQS, 72), one.covers(MAX_NUM_SEQS, 56)) == (
        True,
        True,
        False,
    )
    assert not one.covers(MAX_NUM_BATCHED_TOKENS, 64)
    run.ticks(15, inside=400.0, per_s=200.0)
    assert run.refuted() == set()
    run.ticks(15)
    assert run.refuted() == {64}


def test_a_bad_setting_is_tried_again_after_a_while_and_the_while_doubles() -> None:
    run = bad().change(2, 16, reversible=False).ticks(500)
    assert run.refuted() == {64}
    assert run.ticks(200).refuted() == set()
    run.change(3, 64).ticks(40, over=0.2).change(4, 16, reversible=False).ticks(900)
    assert run.refuted() == {64}
    assert run.ticks(400).refuted() == set()


def test_a_restart_with_the_same_start_up_values_is_the_same_engine() -> None:
    run = bad()
    run.cap, run.boot_id = 64.0, "boot-b"
    assert run.ticks(20).refuted() == {64}
    run.maximum = 128.0
    assert run.ticks(20).refuted() == set()


def test_a_load_that_is_not_known_is_taken_for_the_same() -> None:
    assert bad().ticks(30, known=False).refuted() == {64}


def test_a_change_whose_knob_moves_again_at_once_is_superseded_and_the_last_is_judged_for_all() -> None:
    """A climb in quick steps: no step can be judged, the climb can."""
    run = Run().ticks(60)
    for number, cap in ((1, 24), (2, 32), (3, 40)):
        run.change(number, cap).ticks(3)
    run.ticks(25, over=0.2)
    assert run.said() == {1: Verdict.SUPERSEDED, 2: Verdict.SUPERSEDED, 3: Verdict.WORSE}
    assert "by the change of max_num_seqs 24 -> 32" in run.verdicts[1].sentence
    assert run.verdicts[3].numbers["instead_of"] == 16
    assert [one.wanted for one in outcomes.proposals(run.state)] == [16]


def test_a_change_that_is_ended_early_is_judged_where_there_is_enough() -> None:
    run = Run().ticks(60).change(1, 64).ticks(16, over=0.2).change(2, 56)
    assert run.said() == {1: Verdict.WORSE}
    assert not run.verdicts[1].undo  # another change has taken its place
    assert outcomes.proposals(run.state) == ()


def test_a_change_with_nothing_before_it_is_unclear_at_once_and_the_next_one_is_compared_with_it() -> None:
    run = Run().ticks(4).change(1, 24).ticks(15).change(2, 64)
    assert run.said() == {1: Verdict.UNCLEAR}
    run.ticks(30, over=0.3)
    assert run.said()[2] is Verdict.WORSE
    assert run.verdicts[2].numbers["instead_of"] == 24


def test_changes_that_never_rest_end_unclear() -> None:
    run = Run().ticks(60)
    for number in range(1, 90):
        run.change(number, 24.0 + number % 2).ticks(5)
    assert Verdict.UNCLEAR in run.said().values()


def test_a_change_under_another_load_is_unclear_with_the_numbers() -> None:
    run = Run().ticks(60).change(1, 24).ticks(121, over=0.3, inside=200.0, per_s=90.0)
    assert run.said() == {}
    run.ticks(5, over=0.3, inside=200.0, per_s=90.0)
    assert run.said() == {1: Verdict.UNCLEAR}
    assert "had the same load" in run.verdicts[1].sentence
    assert run.refuted() == set()


def test_blind_ticks_are_no_evidence() -> None:
    run = Run().ticks(60).change(1, 24).ticks(130, known=False)
    assert run.said() == {1: Verdict.UNCLEAR}


def test_a_restart_ends_the_trial() -> None:
    run = Run().ticks(60).change(1, 24).ticks(5)
    run.boot_id = "boot-b"
    assert run.ticks(1).said() == {1: Verdict.UNCLEAR}
    assert "began anew" in run.verdicts[1].sentence


def test_another_hand_on_a_knob_ends_the_trial() -> None:
    run = Run().ticks(60).change(1, 24).ticks(10)
    run.cap = 40.0
    assert run.ticks(1).said() == {1: Verdict.UNCLEAR}
    assert "max_num_seqs moved by another hand" in run.verdicts[1].sentence
    assert run.ticks(60).said() == {1: Verdict.UNCLEAR}


def test_two_changes_of_one_tick_are_judged_and_undone_together() -> None:
    run = Run().ticks(60)
    made = [Change("1", MAX_NUM_SEQS, 16, 64), Change("2", MAX_NUM_BATCHED_TOKENS, 1024, 2048)]
    run.state, _ = outcomes.changed(run.state, run.view(0.02), made, SETTINGS)
    run.cap = 64
    run.ticks(40, over=0.2)
    assert run.said() == {1: Verdict.WORSE, 2: Verdict.WORSE}
    assert run.verdicts[1].numbers["together_with"] == MAX_NUM_BATCHED_TOKENS
    assert {(one.knob, one.wanted) for one in outcomes.proposals(run.state)} == {
        (MAX_NUM_SEQS, 16),
        (MAX_NUM_BATCHED_TOKENS, 1024),
    }


def test_what_cannot_be_taken_back_is_judged_and_stays() -> None:
    run = Run().ticks(60).change(1, 64, reversible=False).ticks(40, over=0.2)
    assert (run.said(), run.verdicts[1].undo) == ({1: Verdict.WORSE}, False)
    assert run.refuted() == set()


def test_the_state_survives_json() -> None:
    run = bad().change(2, 16).ticks(5)
    encode, decode = encoder(OutcomesState), decoder(OutcomesState)
    assert encode is not None
    assert decode is not None
    assert decode(json.loads(json.dumps(encode(run.state)))) == run.state


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["tick", "tick", "tick", "blind", "change", "foreign", "restart", "trial", "trial"]),
        st.integers(0, 20),
        st.floats(0, 1) | st.just(0.2),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_whatever_happens_each_change_gets_one_verdict_at_most_and_an_undo_goes_back_to_what_was_there(
    steps: list[tuple[str, int, float]],
) -> None:
    run, seen, number, were = Run(), dict[int, Verdict](), 0, {16.0}
    for what, count, share in steps:
        if what in ("tick", "blind"):
            run.ticks(count, over=share, known=what == "tick")
        elif what == "trial":  # long enough before and after for a verdict
            number += 1
            run.ticks(60).change(number, 8.0 * (1 + count % 8)).ticks(40, over=share)
        elif what == "change":
            number += 1
            run.change(number, 8.0 * (1 + count % 8))
        elif what == "foreign":
            run.cap = 8.0 * (1 + count % 8)
            run.ticks(1)
        else:
            run.boot_id = f"boot-{count}"
            run.ticks(1)
        were.add(run.cap)
        for one in outcomes.proposals(run.state):
            assert one.wanted in were
            assert one.wanted != run.cap
        for key, outcome in run.verdicts.items():
            assert seen.setdefault(key, outcome.verdict) is outcome.verdict
    assert set(seen) <= set(range(1, number + 1))


def test_the_same_views_and_changes_give_the_same_verdicts() -> None:
    one, other = bad().change(2, 16).ticks(40), bad().change(2, 16).ticks(40)
    assert (one.verdicts, one.state) == (other.verdicts, other.state)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (NO_LIMIT, "no limit"),
        (1048576.0, "1048576"),
        (24.0, "24"),
        (0.0, "0"),
        (0.35, "0.35"),
        (0.1 + 0.2, "0.3"),
        (1e300, "1e+300"),
        (math.nan, "nan"),
    ],
)
def test_a_sentence_writes_whole_numbers_out(value: float, said: str) -> None:
    assert shown(value) == said
