"""The loop's side of outcomes: what is put on trial, written down and remembered over a restart."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.clock import Now
from controller.deciding.arbiter import Arbiter
from controller.deciding.circumstances import Series, read
from controller.deciding.order import Deciding
from controller.history.memory import Memory
from controller.history.outcome import Outcomes, change_of
from controller.history.recorder import Recorder
from controller.history.recording import Recording
from domain.decision import Decision, Mode, Reason, Status
from domain.knobs import MAX_NUM_SEQS, PURGE
from domain.outcome import Outcome, Refuted, Verdict
from domain.slo import Latency
from domain.view import View
from policies.judgement import JudgementSettings
from policies.registry import PoliciesSettings
from policies.static import Static
from policies.trial import Change
from store.history import History
from store.writer import Writer
from store.writes import Keep
from tests.snapshots import BEGAN
from tests.views import ITL_SLO, runtime, samples, view
from tests.writers import locked, until_failing, writing, written

APPLIED = Decision(
    at=BEGAN,
    mode=Mode.AUTO,
    policy="batch_resize",
    knob=MAX_NUM_SEQS,
    old=16,
    wanted=64,
    requested=64,
    observed=64,
    status=Status.APPLIED,
    reason=Reason.GROW_DEMAND,
    sentence="Growing 16 -> 64.",
    evidence={},
)
MADE = replace(APPLIED, uid="uid-1")


class Rig:
    """The recorder, its history and the judges; a tick is a second."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.recorder = Recorder(writer, Recording(writer, hours=0, tick_s=1.0), 10.0)
        self.outcomes = Outcomes(JudgementSettings(), Memory(writer, 10.0))
        self.second = 0
        self.cap = 16.0

    def seen(self, over: float) -> View:
        measured: dict[str, Any] = {
            "completed": {Latency.ITL: samples(400, 400 * over), Latency.E2E: samples(20 + self.second % 3, 0)},
            "completed_s": 1.0,
        }
        engine = runtime(cap=self.cap)
        return view(1000.0 + self.second, runtime=engine, slos=(ITL_SLO,), running=40.0, waiting=0.0, **measured)

    async def ticks(self, count: int, over: float = 0.01, mode: Mode = Mode.AUTO) -> Rig:
        for _ in range(count):
            self.second += 1
            seen = self.seen(over)
            self.refuted, self.undo = self.outcomes.see(seen, mode)
            self.outcomes.end_tick(seen, BEGAN + timedelta(seconds=self.second), self.recorder)
        return self

    async def change(self, decision: Decision = APPLIED) -> str:
        (intended,) = await self.recorder.intend([replace(decision, status=Status.INTENDED)])
        uid = intended.uid
        assert uid is not None
        self.recorder.conclude([replace(decision, uid=uid)])
        self.outcomes.end_tick(self.seen(0.01), BEGAN + timedelta(seconds=self.second), self.recorder)
        self.cap = decision.observed or self.cap
        return uid

    async def outcome(self, uid: str) -> Any:
        await written(self.writer)
        history = History(self.writer.url)
        (found,) = [one.decision.outcome for one in await history.decisions.select() if one.decision.uid == uid]
        await history.close()
        return found


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with writing(tmp_path / "history.db") as writer:
        yield Rig(writer)


async def test_a_change_that_broke_an_objective_is_written_wanted_back_and_refuted(rig: Rig) -> None:
    await rig.ticks(60)
    uid = await rig.change()
    assert await rig.outcome(uid) is None
    await rig.ticks(30, over=0.3)
    outcome = await rig.outcome(uid)
    assert (outcome.verdict, outcome.undo) == (Verdict.WORSE, True)
    assert [(one.knob, one.wanted) for one in rig.undo] == [(MAX_NUM_SEQS, 16)]
    assert {(one.knob, one.value, one.instead_of) for one in rig.refuted} == {(MAX_NUM_SEQS, 64, 16)}


@pytest.mark.parametrize("mode", [Mode.MANUAL, Mode.PAUSED, Mode.STATIC, Mode.OBSERVE])
async def test_where_the_knobs_are_an_operators_nothing_is_wanted_back(rig: Rig, mode: Mode) -> None:
    await rig.ticks(60)
    uid = await rig.change()
    await rig.ticks(30, over=0.3, mode=mode)
    assert (await rig.outcome(uid)).verdict is Verdict.WORSE
    assert rig.undo == ()


async def test_what_was_refuted_is_remembered_over_a_restart_for_the_time_that_was_left(rig: Rig) -> None:
    await rig.ticks(60)
    await rig.change()
    await rig.ticks(30, over=0.3)
    (before,) = rig.refuted
    judged_at = BEGAN + timedelta(seconds=rig.second)
    after = Rig(rig.writer)
    await after.outcomes.restore(Now(5.0, judged_at + timedelta(seconds=100)))  # the monotonic clock began anew
    (regime,) = after.outcomes.state.regimes
    left_s = before.until_s - (1000.0 + rig.second)
    assert regime.until_s == pytest.approx(5.0 + left_s - 100, abs=10)
    assert regime.envelope == (("max_num_batched_tokens", 2048), ("max_num_seqs", 64))


async def test_a_history_without_anything_kept_is_a_fresh_start(rig: Rig) -> None:
    await rig.outcomes.restore(Now(5.0, BEGAN))
    assert rig.outcomes.state.regimes == ()
    await rig.writer.commit(Keep("refuted", BEGAN, {"what": "is this"}), 10)
    after = Rig(rig.writer)
    await after.outcomes.restore(Now(5.0, BEGAN))
    assert after.outcomes.state.regimes == ()


async def test_switched_off_nothing_is_judged_and_no_change_piles_up(rig: Rig) -> None:
    rig.outcomes.settings = JudgementSettings(enabled=False)
    await rig.ticks(60)
    uid = await rig.change()
    await rig.ticks(60, over=0.3)
    assert await rig.outcome(uid) is None
    assert rig.recorder.take_applied() == []


async def test_what_did_not_take_effect_is_not_on_trial(rig: Rig) -> None:
    await rig.ticks(60)
    await rig.change(replace(APPLIED, status=Status.DIVERGED, observed=16))
    assert rig.outcomes.state.trial is None


def test_what_an_operator_set_an_undo_and_an_emergency_are_judged_and_stay() -> None:
    assert change_of(MADE) == Change("uid-1", MAX_NUM_SEQS, 16, 64, reversible=True)
    for final in (Reason.OPERATOR_OVERRIDE, Reason.ROLLBACK_VALUES, Reason.STATIC_BATCH, Reason.UNDO_WORSE):
        change = change_of(replace(MADE, reason=final))
        assert change is not None
        assert not change.reversible
    assert change_of(replace(MADE, policy="emergency_purge")) == Change("uid-1", MAX_NUM_SEQS, 16, 64, False)
    assert change_of(replace(MADE, knob=PURGE, old=None, requested=0.5)) == Change("uid-1", PURGE, 0.0, 0.5, False)
    assert change_of(replace(MADE, requested=16)) is None  # engine cores were brought into line


def test_the_context_of_a_tick_comes_back_from_its_recording() -> None:
    settings = PoliciesSettings.model_validate({"batch_resize": {"floor": 4}})
    deciding = Deciding(settings, Mode.AUTO, Arbiter(1.0))
    refuted = frozenset({Refuted(MAX_NUM_SEQS, 64, 16, 99.0)})
    undo, series = (Static({MAX_NUM_SEQS: 16}).decide(None, view())[1], Series("2026-01-01"))
    found = read(series.context(deciding, refuted, undo))
    assert (found.mode, found.tick_s, found.held) == (Mode.AUTO, 1.0, None)
    assert PoliciesSettings.model_validate(found.policies) == settings
    assert (found.refuted, found.undo) == (refuted, undo)
    assert read(series.context(deciding)) == replace(found, refuted=frozenset(), undo=())


def test_a_series_ends_when_the_policies_begin_anew() -> None:
    series, arbiter = Series("2026-01-01"), Arbiter(1.0)
    one, other = (Deciding(PoliciesSettings(), mode, arbiter) for mode in (Mode.AUTO, Mode.STATIC))
    numbers = [read(series.context(deciding)).series for deciding in (one, one, other, one)]
    assert numbers == [1, 1, 2, 3]
    held = read(series.context(other)).held
    assert held is not None
    assert held.values == {MAX_NUM_SEQS: 8}


async def test_a_verdict_that_could_not_be_written_is_written_later(rig: Rig) -> None:
    uid = await rig.change()
    with locked(Path(rig.writer.where)):
        rig.recorder.judged({uid: Outcome(Verdict.NEUTRAL, "Neutral.")})
        await until_failing(rig.writer)
    assert (await rig.outcome(uid)).verdict is Verdict.NEUTRAL


async def test_the_log_names_a_change_by_its_number_or_by_what_it_was(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    neutral = Outcome(Verdict.NEUTRAL, "Neutral.")
    rig.recorder.judged({await rig.change(): neutral})
    with locked(Path(rig.writer.where)):
        rig.recorder.judged({await rig.change(): neutral})
    rig.recorder.judged({"of another life": neutral})
    assert [r.message for r in caplog.records if "Neutral." in r.message] == [
        f"change 1 (max_num_seqs 16 -> 64 at {BEGAN:%H:%M:%S}): Neutral.",
        f"change of max_num_seqs 16 -> 64 at {BEGAN:%H:%M:%S}: Neutral.",
        "an earlier change: Neutral.",
    ]
