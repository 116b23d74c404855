"""The small pure parts: probe, deadline, schedule hook, bodies, errors, token floor, entry point."""

from __future__ import annotations

import json
from typing import Any

import pytest
from vllm_governor_engine import deadline, errors, plugin, probe, wire
from vllm_governor_engine.hooks import ScheduleHook
from vllm_governor_engine.knobs.token_budget import FloorFacts


class Base:
    limit = 1

    def schedule(self) -> int:
        return self.limit


class Extends(Base):
    def schedule(self) -> int:
        return super().schedule() + 1


class Replaces(Base):
    def schedule(self) -> int:
        self.limit = 3  # written, and that is no reading either way
        return 5


class Inherits(Base):
    pass


def test_the_probe_follows_super_and_judges_a_replacement_by_its_own_code() -> None:
    assert probe.reads(Base, "schedule", "limit") is True
    assert probe.reads(Inherits, "schedule", "limit") is True
    assert probe.reads(Extends, "schedule", "limit") is True
    assert probe.reads(Base, "schedule", "other") is False
    assert probe.reads(Replaces, "schedule", "other") is False


def test_the_probe_says_none_where_it_cannot_look() -> None:
    assert probe.reads(dict, "get", "limit") is None
    assert probe.reads(Base, "absent", "limit") is None


def test_the_probe_looks_through_wrappers_and_into_nested_functions() -> None:
    import functools

    class Wrapped:
        limit = 1

        @functools.lru_cache(maxsize=1)  # noqa: B019 - a wrapper with __wrapped__
        def schedule(self) -> list[int]:
            return [self.limit for _ in range(3)]

    assert probe.reads(Wrapped, "schedule", "limit") is True


def test_the_probe_is_right_about_the_vllm_at_hand() -> None:
    import inspect

    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    for scheduler in (Scheduler, AsyncScheduler):
        admits_by_it = "self.max_num_active_reqs" in inspect.getsource(Scheduler.schedule)
        assert probe.reads(scheduler, "schedule", "max_num_active_reqs") is admits_by_it
        assert probe.reads(scheduler, "schedule", "max_num_scheduled_tokens") is True
        assert probe.reads(scheduler, "schedule", "no_such_thing") is False


def test_a_deadline_passes_and_one_of_another_kernel_never_does() -> None:
    due = deadline.at(10.0)
    assert not deadline.passed(due, 10.0)
    assert deadline.passed(due, 10.1)
    assert not deadline.passed({**due, "kernel": "another"}, 99.0)
    assert not deadline.passed(None, 99.0)


def _broken() -> None:
    raise RuntimeError("broken")


def _hook(scheduler: Any) -> tuple[ScheduleHook, list[str]]:
    failures: list[str] = []
    return ScheduleHook(scheduler, lambda name, error: failures.append(f"{name}: {error}")), failures


def test_a_raising_part_is_taken_out_for_good_while_the_others_go_on() -> None:
    scheduler = Base()
    hook, failures = _hook(scheduler)
    ran: list[str] = []

    hook.add("bad", _broken)
    hook.add("good", lambda: ran.append("good"))
    assert [scheduler.schedule() for _ in range(3)] == [1, 1, 1]
    assert failures == ["bad: broken"]
    assert ran == ["good"] * 3
    hook.add("bad", _broken)
    scheduler.schedule()
    assert failures == ["bad: broken"]


def test_the_last_part_out_gives_the_scheduler_its_own_method_back() -> None:
    scheduler = Base()
    hook, _ = _hook(scheduler)
    assert "schedule" not in vars(scheduler)
    hook.add("bad", _broken)
    assert hook.installed
    assert scheduler.schedule() == 1
    assert "schedule" not in vars(scheduler)
    assert not hook.installed


def test_a_wrapper_that_was_there_before_is_put_back() -> None:
    scheduler = Base()

    def theirs() -> int:
        return 7

    scheduler.schedule = theirs  # type: ignore[method-assign]
    hook, _ = _hook(scheduler)
    hook.add("part", lambda: None)
    assert scheduler.schedule() == 7
    hook.remove("part")
    assert vars(scheduler)["schedule"] is theirs


def test_a_wrapper_that_came_later_is_left_alone() -> None:
    scheduler = Base()
    hook, _ = _hook(scheduler)
    hook.add("part", lambda: None)
    ours = scheduler.schedule
    scheduler.schedule = lambda: ours() + 10  # type: ignore[method-assign]
    hook.remove("part")
    assert scheduler.schedule() == 11


def test_a_failing_report_does_not_reach_the_step() -> None:
    scheduler = Base()

    def report(name: str, error: BaseException) -> None:
        raise ValueError("cannot report")

    hook = ScheduleHook(scheduler, report)
    hook.add("bad", _broken)
    assert scheduler.schedule() == 1


def test_a_part_runs_before_a_step_and_after_it_with_what_it_returned_the_inner_one_nearest_to_it() -> None:
    scheduler = Base()
    hook, _ = _hook(scheduler)
    ran: list[str] = []
    hook.add("in", lambda: ran.append("in"), lambda output: ran.append(f"in {output}"), inner=True)
    hook.add("a", lambda: ran.append("a"), lambda output: ran.append(f"a {output}"))
    hook.add("b", after=lambda output: ran.append(f"b {output}"))
    assert scheduler.schedule() == 1
    assert ran == ["a", "in", "in 1", "a 1", "b 1"]
    assert hook.parts == ("in", "a", "b")


def test_a_part_that_raises_after_a_step_is_taken_out_and_the_step_counts() -> None:
    scheduler = Base()
    hook, failures = _hook(scheduler)
    ran: list[int] = []

    def broken(output: int) -> None:
        raise RuntimeError("broken")

    hook.add("bad", lambda: ran.append(0), broken)
    hook.add("good", after=ran.append)
    assert [scheduler.schedule(), scheduler.schedule()] == [1, 1]
    assert (ran, failures, hook.parts) == ([0, 1, 1], ["bad: broken"], ("good",))


def test_a_part_that_another_removes_during_a_step_runs_neither_half_of_it() -> None:
    scheduler = Base()
    hook, _ = _hook(scheduler)
    ran: list[str] = []
    hook.add("first", lambda: hook.remove("second"), lambda output: hook.remove("third"))
    hook.add("second", lambda: ran.append("before"), lambda output: ran.append("after"))
    hook.add("third", after=lambda output: ran.append("third"))
    assert scheduler.schedule() == 1
    assert ran == []
    assert hook.parts == ("first",)


def test_a_part_whose_first_half_raised_has_no_second_half() -> None:
    scheduler = Base()
    hook, failures = _hook(scheduler)
    ran: list[int] = []
    hook.add("bad", _broken, ran.append)
    assert scheduler.schedule() == 1
    assert (ran, failures) == ([], ["bad: broken"])
    assert "schedule" not in vars(scheduler)


def test_a_step_that_raises_raises_and_has_no_second_halves() -> None:
    class Fails:
        def schedule(self) -> int:
            raise ValueError("vLLM's own")

    scheduler = Fails()
    ran: list[int] = []
    hook = ScheduleHook(scheduler, lambda name, error: None)
    hook.add("part", lambda: None, ran.append)
    with pytest.raises(ValueError, match="vLLM's own"):
        scheduler.schedule()
    assert ran == []


@pytest.mark.parametrize("known", [True, False], ids=["vLLM's parameters", "others"])
def test_a_wrapper_passes_on_what_it_is_called_with_however_it_is_called(known: bool) -> None:
    class Throttled:
        def schedule(self, throttle_prefills: bool = False) -> tuple[Any, ...]:
            return (throttle_prefills,)

    class Other:
        def schedule(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
            return (*args, *kwargs.values())

    scheduler: Any = Throttled() if known else Other()
    hook, failures = _hook(scheduler)
    seen: list[Any] = []
    hook.add("part", after=seen.append)
    assert scheduler.schedule(True) == (True,)
    assert scheduler.schedule(throttle_prefills=True) == (True,)
    assert scheduler.schedule() == ((False,) if known else ())
    if not known:
        assert scheduler.schedule(1, 2, more=3) == (1, 2, 3)
    assert len(seen) == (3 if known else 4)
    assert failures == []


PATCH: dict[str, Any] = {"boot_id": "b", "generation": 1, "lease_s": 15, "knobs": {}}


def _code(parse: Any, body: bytes) -> str:
    with pytest.raises(errors.GovernorError) as caught:
        parse(body)
    return caught.value.code


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"generation": ' + b"9" * 5000 + b"}",
        '{"boot_id": "\u00e9"}'.encode("latin-1"),
    ],
)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    assert _code(wire.parse_patch, body) == "malformed"


@pytest.mark.parametrize("body", [b"NaN", b'{"lease_s": NaN}', b'{"lease_s": Infinity}', b'{"lease_s": -Infinity}'])
def test_a_number_that_is_not_finite_is_a_wrong_type(body: bytes) -> None:
    assert _code(wire.parse_patch, body) == "wrong_type"


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"x"', b"true"])
def test_json_that_is_no_object_is_a_wrong_type(body: bytes) -> None:
    assert _code(wire.parse_patch, body) == "wrong_type"


@pytest.mark.parametrize("key", list(PATCH))
def test_every_key_of_a_patch_is_required(key: str) -> None:
    body = {name: value for name, value in PATCH.items() if name != key}
    with pytest.raises(errors.GovernorError) as caught:
        wire.parse_patch(json.dumps(body).encode())
    assert (caught.value.code, caught.value.where["key"]) == ("missing_key", key)


def test_an_unknown_key_is_named_and_cut_short() -> None:
    with pytest.raises(errors.GovernorError) as caught:
        wire.parse_patch(json.dumps({**PATCH, "x" * 5000: 1}).encode())
    assert caught.value.code == "unknown_key"
    assert len(caught.value.where["key"]) <= 60
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("boot_id", 1, "wrong_type"),
        ("boot_id", None, "wrong_type"),
        ("generation", True, "wrong_type"),
        ("generation", 1.0, "wrong_type"),
        ("generation", "1", "wrong_type"),
        ("lease_s", True, "wrong_type"),
        ("lease_s", "15", "wrong_type"),
        ("lease_s", 0, "out_of_bounds"),
        ("lease_s", 0.5, "out_of_bounds"),
        ("lease_s", 3600.1, "out_of_bounds"),
        ("lease_s", -1, "out_of_bounds"),
        ("lease_s", 10**300, "out_of_bounds"),
        ("knobs", [], "wrong_type"),
        ("knobs", None, "wrong_type"),
    ],
)
def test_a_patch_of_the_wrong_shape_names_the_key(key: str, value: object, code: str) -> None:
    with pytest.raises(errors.GovernorError) as caught:
        wire.parse_patch(json.dumps({**PATCH, key: value}).encode())
    assert (caught.value.code, caught.value.where["key"]) == (code, key)


def test_a_number_too_large_for_a_float_is_out_of_bounds() -> None:
    assert _code(wire.parse_patch, json.dumps(PATCH).replace("15", "1e999").encode()) == "out_of_bounds"


def test_an_absent_fallback_is_none_and_a_null_one_is_refused() -> None:
    assert wire.parse_lease(b'{"boot_id": "b", "lease_s": 1.5}')["fallback"] is None
    assert wire.parse_lease(b'{"boot_id": "b", "lease_s": 1, "fallback": {}}')["fallback"] == {}
    assert _code(wire.parse_lease, b'{"boot_id": "b", "lease_s": 1, "fallback": null}') == "wrong_type"


@pytest.mark.parametrize(
    ("body", "code", "key"),
    [
        ({}, "missing_key", "boot_id"),
        ({"boot_id": "b"}, "missing_key", "ratio"),
        ({"boot_id": "b", "ratio": True}, "wrong_type", "ratio"),
        ({"boot_id": "b", "ratio": "1"}, "wrong_type", "ratio"),
        ({"boot_id": "b", "ratio": 1.01}, "out_of_bounds", "ratio"),
        ({"boot_id": "b", "ratio": -0.1}, "out_of_bounds", "ratio"),
        ({"boot_id": "b", "ratio": 10**400}, "out_of_bounds", "ratio"),
        ({"boot_id": "b", "ratio": 1, "preempt": 1.0}, "wrong_type", "preempt"),
        ({"boot_id": "b", "ratio": 1, "preempt": None}, "wrong_type", "preempt"),
        ({"boot_id": "b", "ratio": 1, "preempt": -1}, "out_of_bounds", "preempt"),
        ({"boot_id": "b", "ratio": 1, "lease_s": 5}, "unknown_key", "lease_s"),
        ({"boot_id": 1, "ratio": 1}, "wrong_type", "boot_id"),
    ],
)
def test_a_purge_of_the_wrong_shape_names_the_key(body: dict[str, Any], code: str, key: str) -> None:
    with pytest.raises(errors.GovernorError) as caught:
        wire.parse_purge(json.dumps(body).encode())
    assert (caught.value.code, caught.value.where["key"]) == (code, key)


def test_a_purge_that_names_no_preempt_preempts_nobody() -> None:
    assert wire.parse_purge(b'{"boot_id": "b", "ratio": 0.5}') == {"boot_id": "b", "ratio": 0.5, "preempt": 0}


def test_an_error_crosses_a_process_border_unchanged() -> None:
    error = errors.out_of_bounds("k", 9, 1, 8, knob="k")
    back = errors.GovernorError.from_wire(json.loads(json.dumps(error.as_wire())))
    assert back.as_wire() == error.as_wire()
    assert back.status == 422


def test_an_error_of_an_unknown_code_counts_as_the_engine_being_unavailable() -> None:
    assert errors.GovernorError.from_wire({"code": "new_one", "message": "m"}).status == 503


def test_the_floor_of_the_budget_serves_decodes_blocks_and_unsplit_prompts() -> None:
    assert FloorFacts().floor(64)[0] == 64
    assert FloorFacts(tokens_per_decode=4).floor(64)[0] == 256
    assert FloorFacts(block_size=16).floor(2)[0] == 16
    assert FloorFacts(whole_prompt=4096).floor(64)[0] == 4096
    assert FloorFacts(beside_decodes=784).floor(64)[0] == 848


def test_registering_adds_one_method_and_doing_it_twice_changes_nothing() -> None:
    from vllm.v1.engine.core import EngineCore

    plugin.register()
    first = vars(EngineCore)["governor_call"]
    plugin.register()
    assert vars(EngineCore)["governor_call"] is first
    assert "schedule" not in first.__code__.co_names


def test_registering_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def broken(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", broken)
    plugin.register()


def test_a_name_of_a_holder_that_was_not_given_is_none() -> None:
    assert wire.parse_patch(json.dumps(PATCH).encode())["holder"] is None
    lease = wire.parse_lease(b'{"boot_id": "b", "lease_s": 1, "holder": "a", "instead_of": "z"}')
    assert (lease["holder"], lease["instead_of"]) == ("a", "z")


@pytest.mark.parametrize(
    ("value", "code"), [("", "out_of_bounds"), ("x" * 201, "out_of_bounds"), (7, "wrong_type"), (None, "wrong_type")]
)
def test_a_name_of_a_holder_is_a_short_text(value: Any, code: str) -> None:
    assert _code(wire.parse_patch, json.dumps({**PATCH, "holder": value}).encode()) == code
    assert _code(wire.parse_lease, json.dumps({"boot_id": "b", "lease_s": 1, "holder": value}).encode()) == code
