"""When the governor counts as back after a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.soak.look import DaemonSays, Look, parse, values_of
from bench.soak.recovery import Recovery
from domain.knobs import HOT_CACHE_RATIO, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.runtime import EngineRuntime
from tests.views import knob, runtime, with_knobs

ENDED = 1000.0
BUDGET = {MAX_NUM_BATCHED_TOKENS: 2048.0}


def look(
    engine: EngineRuntime | None,
    wanted: dict[str, float],
    requested: dict[str, float] | None = None,
    *,
    at: float = ENDED + 2.0,
    ticked_at: float | None = ENDED + 1.5,
    up: tuple[str, ...] = ("metrics", "runtime"),
    boot_id: str | None = "boot-a",
) -> Look:
    daemon = DaemonSays(ticked_at, boot_id, frozenset(up), BUDGET | wanted, requested or {})
    return Look(at, at, daemon, engine, values_of(engine))


def before(cap: float = 32, **wanted: float) -> Look:
    return look(runtime(cap), {MAX_NUM_SEQS: cap, **wanted}, at=900.0, ticked_at=899.5)


def fault(seen: Look | None = None) -> Recovery:
    return Recovery(ENDED, seen or before(), 1.0)


def test_a_knob_that_stayed_where_it_was_is_inside_policy_once_the_policy_judges_again() -> None:
    assert fault().missing(look(runtime(32), {MAX_NUM_SEQS: 40.0})) == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ticked_at": ENDED - 0.1}, "no good tick has begun since the fault ended"),
        ({"ticked_at": None}, "no good tick has begun since the fault ended"),
        ({"at": ENDED + 5.0}, "the last good tick is old"),
        ({"up": ("runtime",)}, "no reading from metrics"),
        ({"boot_id": None}, "the daemon has not met this boot of the engine"),
    ],
)
def test_a_daemon_that_does_not_see_is_not_back(changed: dict[str, object], said: str) -> None:
    one = look(runtime(32), {MAX_NUM_SEQS: 32.0}, **changed)  # type: ignore[arg-type]
    assert said in fault().missing(one)


def test_either_end_must_answer() -> None:
    one = look(runtime(32), {MAX_NUM_SEQS: 32.0})
    assert fault().missing(replace(one, daemon=None)) == ("the daemon does not answer",)
    assert fault().missing(replace(one, engine=None)) == ("the engine does not answer",)


def test_a_lease_must_be_held_on_every_core() -> None:
    engine = runtime(32, cores=2)
    loose = replace(engine, cores=(engine.cores[0], replace(engine.cores[1], lease_remaining_s=None)))
    assert fault().missing(look(loose, {MAX_NUM_SEQS: 32.0})) == ("no lease is held",)


def test_a_policy_that_abstains_on_the_cap_is_not_back() -> None:
    assert fault().missing(look(runtime(32), {})) == ("the policy does not judge the cap yet",)


def test_a_knob_at_its_fallback_is_inside_policy_only_when_asked_for_or_held_there() -> None:
    recovery = fault()
    fallen = runtime(64)
    assert recovery.missing(look(fallen, {MAX_NUM_SEQS: 56.0})) == (
        "max_num_seqs reads 64 and the policy has not taken it up again",
    )
    assert recovery.missing(look(fallen, {MAX_NUM_SEQS: 56.0}, {MAX_NUM_SEQS: 32.0})) == (
        "max_num_seqs reads 64, 32 was requested",
    )
    assert recovery.missing(look(runtime(56), {MAX_NUM_SEQS: 48.0}, {MAX_NUM_SEQS: 56.0})) == ()
    assert fault().missing(look(fallen, {MAX_NUM_SEQS: 64.0}, {MAX_NUM_SEQS: 32.0})) == ()


def test_a_knob_that_was_held_once_since_the_end_may_be_wanted_elsewhere_at_the_next_look() -> None:
    recovery = fault(before(32, hot_cache_ratio=0.3))
    hot = with_knobs(runtime(64), knob(HOT_CACHE_RATIO, 0.0, 0.0, 0.0, 0.8))
    assert recovery.missing(look(hot, {MAX_NUM_SEQS: 64.0, HOT_CACHE_RATIO: 0.3})) != ()
    assert recovery.missing(look(hot, {MAX_NUM_SEQS: 56.0, HOT_CACHE_RATIO: 0.0})) == ()


def test_what_was_held_on_one_boot_says_nothing_of_the_next() -> None:
    recovery = fault()
    assert recovery.missing(look(runtime(32), {MAX_NUM_SEQS: 32.0})) == ()
    other = look(runtime(32, boot_id="boot-b"), {MAX_NUM_SEQS: 40.0}, boot_id="boot-b")
    assert recovery.missing(other) == ("max_num_seqs reads 32 and the policy has not taken it up again",)


def test_a_knob_that_no_policy_ever_judged_is_inside_policy_at_its_start_up_value() -> None:
    engine = with_knobs(runtime(32), knob(HOT_CACHE_RATIO, 0.0, 0.0, 0.0, 0.8))
    strayed = with_knobs(runtime(32), knob(HOT_CACHE_RATIO, 0.4, 0.0, 0.0, 0.8))
    assert fault().missing(look(engine, {MAX_NUM_SEQS: 32.0})) == ()
    assert fault().missing(look(strayed, {MAX_NUM_SEQS: 32.0})) != ()


def test_engine_cores_that_differ_are_outside_policy() -> None:
    engine = runtime(32, cores=2)
    other = runtime(40, cores=1).cores[0]
    apart = replace(engine, cores=(engine.cores[0], replace(other, index=1)))
    assert fault().missing(look(apart, {MAX_NUM_SEQS: 32.0})) == (
        "the engine cores read different values of max_num_seqs",
    )


def test_the_exposition_is_read_by_knob_and_source() -> None:
    said = parse(
        'vllm_governor_knob_wanted{knob="max_num_seqs"} 48.0\n'
        'vllm_governor_knob_requested{knob="max_num_queued_reqs"} +Inf\n'
        'vllm_governor_source_up{source="metrics"} 0.0\n'
        'vllm_governor_source_up{source="runtime"} 1.0\n'
        "vllm_governor_last_tick_timestamp_seconds 1.7e+09\n"
        'vllm_governor_engine_info{boot_id="b",vllm_version="0.32.0",plugin_version="0.1.0"} 1.0\n'
    )
    assert said == DaemonSays(
        1.7e9, "b", frozenset({"runtime"}), {"max_num_seqs": 48.0}, {"max_num_queued_reqs": float("inf")}
    )
