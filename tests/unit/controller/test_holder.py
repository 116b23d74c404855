"""Who holds the lease: telling one daemon from another, an engine that another one steers, taking it over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller.engine import holder
from controller.engine.holder import gone, name, shown
from domain.decision import Mode, Status
from tests.loop_rig import GROWS, Rig, ticks

OTHER = "gpu9:8000, process 1 on gpu9"


def ended() -> str:
    """The name of a process of this machine that has ended."""
    code = "from controller.engine import holder; print(holder.name('gpu1:8000'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    return run.stdout.strip()


def test_a_name_tells_people_the_node_the_process_and_the_machine() -> None:
    said = shown(name("gpu1:8000"))
    assert said.startswith(f"gpu1:8000, process {os.getpid()} on ")
    assert "[" not in said


def test_two_processes_of_the_same_settings_have_different_names() -> None:
    assert ended() != name("gpu1:8000")


def test_a_name_is_as_long_as_the_plugin_takes_at_most() -> None:
    assert len(name("n" * 255)) <= 200


def test_a_process_that_ended_is_gone_and_one_that_runs_is_not() -> None:
    assert gone(ended())
    assert not gone(name("gpu1:8000"))


def test_a_process_that_ended_and_was_not_waited_for_is_gone() -> None:
    code = "from controller.engine import holder; print(holder.name('gpu1:8000'))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.read().strip()  # it has closed its output: it ends
        until_s = time.monotonic() + 30
        while not gone(said) and time.monotonic() < until_s:
            time.sleep(0.01)
        assert process.returncode is None
        assert gone(said)


def test_a_number_that_another_process_has_by_now_is_another_process() -> None:
    stem, _, _ = name("gpu1:8000").rpartition("/")
    assert gone(f"{stem}/1]")


@pytest.mark.parametrize("said", [OTHER, "somebody", "", "x, process 7 on y [abcdef/1/2]"])
def test_a_process_that_cannot_be_looked_up_here_counts_as_running(said: str) -> None:
    assert not gone(said)


@pytest.fixture
def contested(rig: Rig) -> Rig:
    """An engine with a plugin that lets a lease have a holder, and another daemon that holds it."""
    rig.engine.names_holder = True
    rig.engine.holder = OTHER
    return rig


async def test_a_second_daemon_observes_says_who_steers_and_changes_nothing(
    contested: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await ticks(contested, GROWS + 2)
    assert contested.engine.patches == []
    assert contested.loop.held_by == OTHER
    assert contested.loop.observed.mode is Mode.OBSERVE
    assert contested.loop.observed.runtime is not None
    rows = [row.decision for row in await contested.decisions()]
    assert {one.status for one in rows} <= {Status.RECORDED, Status.HOLD}
    assert sum("gpu9:8000, process 1 on gpu9 steers this engine" in r.message for r in caplog.records) == 1


async def test_it_takes_over_once_the_lease_has_run_out(contested: Rig) -> None:
    await ticks(contested, 2)
    contested.engine.holder = None
    await ticks(contested, GROWS + 1)
    assert contested.loop.held_by is None
    assert contested.loop.observed.mode is Mode.AUTO
    assert contested.engine.holder == name(contested.loop.settings.node)
    assert contested.engine.patches


async def test_it_takes_over_at_once_from_a_daemon_of_this_machine_that_has_ended(contested: Rig) -> None:
    contested.engine.holder = ended()
    await ticks(contested, 1)
    assert contested.loop.held_by is None
    assert contested.engine.holder == name(contested.loop.settings.node)


async def test_a_daemon_that_lost_the_lease_to_another_looks_on_from_then_on(contested: Rig) -> None:
    contested.engine.holder = None
    await ticks(contested, 1)
    contested.engine.holder = OTHER
    await ticks(contested, 1)
    assert contested.loop.held_by == OTHER
    assert contested.loop.observed.mode is Mode.OBSERVE


async def test_an_older_plugin_is_sent_no_name_and_steered_as_ever(rig: Rig) -> None:
    await ticks(rig, GROWS + 1)
    assert rig.engine.patches
    assert all("holder" not in body for body in (*rig.engine.leases, *rig.engine.patches))


async def test_a_rollback_that_was_in_force_stays_out_of_another_daemons_way(contested: Rig) -> None:
    contested.engine.holder = None
    contested.engine.waiting = 0
    await ticks(contested, 1)
    await contested.loop.roll_back()
    patches = len(contested.engine.patches)
    contested.engine.holder, contested.engine.cap = OTHER, 32
    await ticks(contested, 2)
    assert len(contested.engine.patches) == patches
    assert holder.shown(contested.loop.held_by or "") == OTHER
