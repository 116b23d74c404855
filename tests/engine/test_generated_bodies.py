"""Ten thousand bodies that nobody would send: no 5xx, no knob out of bounds, and the engine still answers prompts.

Here: generated input against the ASGI application on a real engine core in this process. Never here: a case that is
known to be interesting; those have tests of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from vllm_governor_engine import http
from vllm_governor_engine.api.rate_limit import Limits
from vllm_governor_engine.auth import TOKEN_FILE_VARIABLE

BODIES = 10_000
PER_EXAMPLE = 50
CALLS = (("PATCH", "/runtime"), ("POST", "/lease"), ("POST", "/freeze"), ("POST", "/purge"))

_numbers = st.one_of(
    st.integers(-5, 5),
    st.integers(1, 4096),
    st.integers(-(10**30), 10**30),
    st.floats(0, 1),
    st.floats(allow_nan=True, allow_infinity=True),
)
_scalars = st.one_of(_numbers, st.booleans(), st.none(), st.text(max_size=8))
_anything = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


class Bodies:
    """Generated bodies that get past the first checks often enough to reach the engine."""

    def __init__(self, names: list[str]) -> None:
        knobs = st.dictionaries(st.sampled_from(names), _scalars | _numbers, max_size=4)
        some = st.dictionaries(st.text(max_size=8), _anything, max_size=2)
        plausible = {
            "boot_id": st.just("BOOT") | _anything,
            "generation": st.just("GENERATION") | _anything,
            "lease_s": st.integers(1, 3600) | _anything,
            "knobs": knobs | some | _anything,
            "fallback": knobs | some | _anything,
            "frozen": st.booleans() | _anything,
            "ratio": st.floats(0, 1) | _anything,
            "preempt": st.integers(0, 4) | _anything,
        }
        self._by_call = {
            "/runtime": self._of(plausible, ("boot_id", "generation", "lease_s", "knobs")),
            "/lease": self._of(plausible, ("boot_id", "lease_s"), ("fallback",)),
            "/freeze": self._of(plausible, ("boot_id", "frozen")),
            "/purge": self._of(plausible, ("boot_id", "ratio"), ("preempt",)),
        }

    @staticmethod
    def _of(parts: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Any:
        # The likely value first and most often: a body of wild parts alone never gets past the first of them.
        likely = {
            "boot_id": st.just("BOOT"),
            "generation": st.just("GENERATION"),
            "lease_s": st.integers(1, 3600),
            "frozen": st.booleans(),
            "ratio": st.floats(0, 1),
        }
        tame = st.fixed_dictionaries({key: likely.get(key, parts[key]) for key in required})
        tame_and_more = st.fixed_dictionaries(
            {key: likely.get(key, parts[key]) for key in required}, optional={key: parts[key] for key in optional}
        )
        wild = st.fixed_dictionaries({}, optional={key: parts[key] for key in required + optional})
        return st.one_of(tame, tame_and_more, tame, wild, _anything)

    def calls(self) -> Any:
        """Batches of (method, path, body)."""
        one = st.sampled_from(CALLS).flatmap(
            lambda call: st.tuples(st.just(call[0]), st.just(call[1]), self._by_call[call[1]])
        )
        raw = st.tuples(st.just("PATCH"), st.just("/runtime"), st.binary(max_size=40))
        return st.lists(st.one_of(one, one, one, raw), min_size=PER_EXAMPLE, max_size=PER_EXAMPLE)


class Patient(Limits):
    """A clock that runs so fast that nobody calls too often."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(self._tick)

    def _tick(self) -> float:
        self._now += 100.0
        return self._now


class Target:
    """The application over one engine core, called without a network."""

    def __init__(self, driven: Any) -> None:
        self.driven = driven
        self.endpoint = http.GovernorEndpoint(Patient())
        self.statuses: Counter[int] = Counter()

    async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
        return [getattr(self.driven.core, method)(*args)]

    async def call(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": "/governor/v1" + path,
            "headers": [(b"authorization", b"Bearer s3cret")],
            "client": ("127.0.0.1", 1),
            "query_string": b"",
        }
        await self.endpoint(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def runtime(self) -> dict[str, Any]:
        status, runtime = await self.call("GET", "/runtime", b"")
        assert status == 200
        return runtime

    def body(self, content: Any, runtime: dict[str, Any]) -> bytes:
        """The generated content with what only the live engine knows put in."""
        if isinstance(content, bytes):
            return content
        if isinstance(content, dict):
            live = {"BOOT": runtime["boot_id"], "GENERATION": runtime["generation"]}
            content = {
                key: live.get(value, value) if isinstance(value, str) else value for key, value in content.items()
            }
        return json.dumps(content).encode()


def inside(knob: dict[str, Any], value: Any) -> bool:
    """Whether a knob's value is one it may have: within its bounds, its start-up value, or nothing."""
    return knob["support"] == "off" or value in (None, knob["startup"], 0) or knob["min"] <= value <= knob["max"]


def test_ten_thousand_generated_bodies_cause_no_5xx_and_move_no_knob_out_of_bounds(
    drive: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token))
    driven = drive(max_num_seqs=16, max_num_batched_tokens=256, num_blocks=256)
    target = Target(driven)
    loop = asyncio.new_event_loop()
    app = SimpleNamespace(state=SimpleNamespace(), mount=lambda *_: None)
    target.endpoint.attach_router(app)
    loop.run_until_complete(target.endpoint.init_state(SimpleNamespace(engine_core=target), app.state, None))
    names = [*loop.run_until_complete(target.runtime())["engines"][0]["knobs"], "no_such_knob"]

    @settings(
        max_examples=BODIES // PER_EXAMPLE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(Bodies(names).calls())
    def bombard(calls: list[tuple[str, str, Any]]) -> None:
        loop.run_until_complete(_bombard(target, calls))
        driven.add(3, prompt_tokens=20, max_tokens=3, name=f"p{sum(target.statuses.values())}-")
        for _ in range(4):  # some requests are always under way
            driven.engine.step()
        driven.clock.now += 3.0

    bombard()
    assert sum(target.statuses.values()) >= BODIES
    assert target.statuses[200] > BODIES / 20, "the bodies do not reach the engine often enough to mean anything"
    runtime = loop.run_until_complete(target.runtime())
    assert runtime["engines"][0]["degraded"] == []
    finished = len(driven.engine.finish_reasons)
    driven.add(8, prompt_tokens=30, max_tokens=5, name="afterwards")
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) >= finished + 8
    assert all(f"afterwards{number}" in driven.engine.finish_reasons for number in range(8))
    loop.run_until_complete(_end_tasks())
    loop.close()


async def _bombard(target: Target, calls: list[tuple[str, str, Any]]) -> None:
    runtime = await target.runtime()
    for method, path, content in calls:
        body = target.body(content, runtime)
        status, answer = await target.call(method, path, body)
        target.statuses[status] += 1
        assert status < 500, (method, path, body, answer)
        if status == 200:
            runtime = await target.runtime()
            for engine in runtime["engines"]:
                for name, knob in engine["knobs"].items():
                    assert inside(knob, knob["value"]), (name, knob, body)
            if engine["frozen"]:  # else most of what follows is refused for that alone
                lift = {"boot_id": runtime["boot_id"], "frozen": False}
                await target.call("POST", "/freeze", json.dumps(lift).encode())
                runtime = await target.runtime()


async def _end_tasks() -> None:
    ours = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in ours:
        task.cancel()
    await asyncio.gather(*ours, return_exceptions=True)
