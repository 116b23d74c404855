"""Mode and parameters changed at run time, on top of the file: hot, kept, shown, taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.operations.application import Operations
from controller.operations.refusal import Kind, Refused
from domain.decision import Mode
from domain.knobs import MAX_NUM_SEQS
from tests.loop_rig import GROWS, Rig, ticks
from tests.operations_rig import ada, audited, operations, restarted
from tests.writers import locked, until_failing, written


@pytest.fixture
async def desk(rig: Rig) -> Operations:
    made = operations(rig)
    await made.restore()
    await ticks(rig, GROWS)
    return made


async def refused(call: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    return caught.value


async def test_a_mode_that_is_switched_counts_from_the_call_on(rig: Rig, desk: Operations) -> None:
    state = await desk.mode.set(ada(), Mode.PAUSED, "maintenance by hand")
    assert (state.in_force, state.configured, state.file) == (Mode.PAUSED, Mode.PAUSED, Mode.AUTO)
    assert state.changed is not None
    assert (state.changed.actor, state.changed.comment) == ("ada", "maintenance by hand")
    patches = len(rig.engine.patches)
    await ticks(rig, 4)
    assert len(rig.engine.patches) == patches


async def test_mode_static_holds_the_fixed_batch_and_names_it_as_the_fallback(rig: Rig, desk: Operations) -> None:
    await desk.mode.set(ada(), Mode.MANUAL)
    rig.engine.cap = 32
    await ticks(rig, 1)
    await desk.mode.set(ada(), Mode.STATIC)
    assert rig.engine.cap == 8
    await ticks(rig, 1)
    assert rig.engine.fallback[MAX_NUM_SEQS] == 8


async def test_it_outlives_a_restart_and_is_shown_beside_what_the_file_says(rig: Rig, desk: Operations) -> None:
    await desk.mode.set(ada(), Mode.PAUSED)
    again = await restarted(rig)
    state = again.mode.now()
    assert (state.in_force, state.file, state.survives_restart) == (Mode.PAUSED, Mode.AUTO, True)
    assert (await again.mode.reset(ada())).in_force is Mode.AUTO
    assert (await restarted(rig)).mode.now().changed is None


async def test_the_mode_that_the_file_has_is_no_change(desk: Operations) -> None:
    await desk.mode.set(ada(), Mode.PAUSED)
    assert (await desk.mode.set(ada(), Mode.AUTO)).changed is None
    error = await refused(desk.mode.reset(ada()))
    assert error.kind is Kind.CONFLICT


async def test_what_holds_another_mode_in_force_is_said(desk: Operations) -> None:
    await desk.rollback.enter(ada())
    state = await desk.mode.set(ada(), Mode.PAUSED)
    assert (state.in_force, state.configured) == (Mode.STATIC, Mode.PAUSED)
    assert state.because is not None
    assert state.because.startswith("a rollback is in force since")


async def test_the_seeds_switch_in_the_environment_stays_over_an_operator(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_DISABLE_DYNAMIC", "1")
    rig.build(mode="static")
    error = await refused(operations(rig).mode.set(ada(), Mode.AUTO))
    assert (error.kind, error.reason[:21]) == (Kind.CONFLICT, "VLLM_DISABLE_DYNAMIC ")


async def test_parameters_count_from_the_next_tick_on_and_no_policy_else_begins_anew(
    rig: Rig, desk: Operations
) -> None:
    state = await desk.policies.set(ada(), "batch_resize", {"floor": 16, "model": {"dead_band_ratio": 0.2}})
    assert state.settings["floor"] == 16
    assert {one.key: (one.value, one.file) for one in state.changed} == {
        "floor": (16, 8),
        "model.dead_band_ratio": (0.2, 0.1),
    }
    assert rig.loop.settings.policies.batch_resize.model.dead_band_ratio == 0.2
    await ticks(rig, 1)


async def test_a_policy_is_switched_off_and_on(rig: Rig, desk: Operations) -> None:
    state = await desk.policies.disable(ada(), "load_shed")
    assert (state.enabled, state.runs) == (False, False)
    assert "load_shed" not in {policy.name for policy in rig.loop.policies}
    state = await desk.policies.enable(ada(), "load_shed")
    assert (state.enabled, state.runs, state.changed) == (True, True, ())


@pytest.mark.parametrize(
    ("name", "values", "kind", "field", "said"),
    [
        ("batch_resize", {"floor": 0}, Kind.INVALID, "floor", "policies.batch_resize.floor = 0"),
        ("batch_resize", {"flor": 8}, Kind.INVALID, "flor", "did you mean floor?"),
        ("batch_resize", {"model": {"dead_band_ratio": "x"}}, Kind.INVALID, "model.dead_band_ratio", "number"),
        ("batch_resize", {"model.dead_band_ratio": 0.2}, Kind.INVALID, None, "nest tables"),
        ("batch_resize", {}, Kind.INVALID, "values", "no key is named"),
        ("emergency_purge", {"memory_ratio": 0.5}, Kind.INVALID, None, "memory_clear_ratio must be under"),
        ("batch_size", {"floor": 8}, Kind.UNKNOWN, "name", "there is no such policy"),
    ],
)
async def test_what_the_policys_settings_refuse_changes_nothing(
    desk: Operations, name: str, values: dict[str, Any], kind: Kind, field: str | None, said: str
) -> None:
    before = desk.policies.all()
    error = await refused(desk.policies.set(ada(), name, values))
    assert (error.kind, error.field) == (kind, field)
    assert said in str(error)
    assert desk.policies.all() == before


async def test_a_table_of_numbers_cannot_be_switched(desk: Operations) -> None:
    assert desk.policies.one("capacity").enabled is None
    assert (await refused(desk.policies.disable(ada(), "capacity"))).kind is Kind.INVALID


async def test_changed_parameters_outlive_a_restart_and_are_taken_back_one_by_one_or_all(
    rig: Rig, desk: Operations
) -> None:
    await desk.policies.set(ada(), "batch_resize", {"floor": 16, "ladder_step": 4})
    again = await restarted(rig)
    assert rig.loop.settings.policies.batch_resize.floor == 16
    state = await again.policies.reset(ada(), "batch_resize", "floor")
    assert (state.settings["floor"], state.settings["ladder_step"]) == (8, 4)
    state = await again.policies.reset(ada(), "batch_resize")
    assert (state.settings["ladder_step"], state.changed) == (8, ())
    assert (await refused(again.policies.reset(ada(), "batch_resize"))).kind is Kind.CONFLICT
    assert (await restarted(rig)).policies.one("batch_resize").changed == ()


async def test_a_reload_takes_the_file_and_leaves_what_was_changed_on_top(rig: Rig, tmp_path: Path) -> None:
    file = tmp_path / "governor.toml"
    text = f'[engine]\nurl = "{rig.engine.url}"\n[guards]\nwarm_up_s = 0\n'
    file.write_text(text)
    rig.build()
    desk = operations(rig, file)
    await desk.restore()
    await desk.policies.set(ada(), "batch_resize", {"floor": 16})
    await desk.mode.set(ada(), Mode.PAUSED)
    file.write_text(f'mode = "observe"\n{text}[policies.batch_resize]\nfloor = 4\nladder_step = 4\n[api]\nport = 0\n')
    made = await desk.reload.run(ada())
    assert {"mode", "policies.batch_resize.floor", "policies.batch_resize.ladder_step"} <= set(made.changed)
    assert made.at_next_start == ("api.port",)
    assert made.over_file == ("mode", "policies.batch_resize.floor")
    assert (rig.loop.settings.mode, desk.mode.now().file) == (Mode.PAUSED, Mode.OBSERVE)
    batch = rig.loop.settings.policies.batch_resize
    assert (batch.floor, batch.ladder_step) == (16, 4)
    assert (await desk.mode.reset(ada())).in_force is Mode.OBSERVE


async def test_a_file_that_is_wrong_keeps_the_old_settings_and_is_a_problem_until_it_is_right(
    rig: Rig, tmp_path: Path
) -> None:
    file = tmp_path / "governor.toml"
    text = f'[engine]\nurl = "{rig.engine.url}"\n'
    file.write_text(text + 'mdoe = "paused"\n')
    desk = operations(rig, file)
    await desk.restore()
    error = await refused(desk.reload.run(ada()))
    assert error.kind is Kind.INVALID
    assert "there is no such key" in str(error)
    assert desk.reload.now().last_failure == error.reason
    assert [one.what for one in desk.problems()] == ["settings"]
    file.write_text(text)
    await desk.reload.run(ada())
    assert desk.problems() == ()
    assert [entry[1:2] + entry[3:] for entry in await audited(rig)][1] == ("settings.reload", "ok")


async def test_a_change_that_no_longer_goes_with_the_file_is_left_out_and_said(rig: Rig, desk: Operations) -> None:
    await desk.policies.set(ada(), "emergency_purge", {"memory_clear_ratio": 0.9})
    await desk.policies.set(ada(), "batch_resize", {"floor": 16})
    again = await restarted(rig, policies={"emergency_purge": {"memory_ratio": 0.8, "memory_clear_ratio": 0.7}})
    policies = rig.loop.settings.policies
    assert (policies.emergency_purge.memory_clear_ratio, policies.batch_resize.floor) == (0.7, 16)
    (problem,) = again.problems()
    assert "policies.emergency_purge.memory_clear_ratio" in problem.reason


async def test_what_was_changed_is_taken_up_once_the_history_answers(rig: Rig, desk: Operations) -> None:
    await desk.mode.set(ada(), Mode.PAUSED)
    await written(rig.writer)
    with locked(rig.path):
        rig.loop.memory.put("something", rig.clock().wall, {})
        await until_failing(rig.writer)
        again = await restarted(rig, answers=False)
        await ticks(rig, 1)
        assert again.mode.now().configured is Mode.AUTO
        assert "settings" in {one.what for one in again.problems()}
        await again.policies.set(ada(), "batch_resize", {"floor": 16})
    await written(rig.writer)
    while not again.run_time.known:
        await ticks(rig, 1)
    await ticks(rig, 1)
    assert rig.loop.settings.mode is Mode.PAUSED
    assert rig.loop.settings.policies.batch_resize.floor == 16
    assert set((await restarted(rig)).run_time.changes.names()) == {"mode", "policies.batch_resize.floor"}


async def test_every_policy_says_in_a_sentence_what_it_is_about(desk: Operations) -> None:
    assert [one.name for one in desk.policies.all() if not one.about or one.about.startswith("`")] == []
