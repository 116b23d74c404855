"""What the plugin's tests share: a real vLLM engine core with a governor on a clock of its own.

Here: fixtures. Never here: a law; those are in the tests. Run with vLLM importable and `engine/` on the path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from vllm_governor_engine import plugin, probe
from vllm_governor_engine.core import Governor
from vllm_governor_engine.errors import GovernorError


class HandClock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Driven:
    """One in-process engine core, called as the API process calls it: a name and a JSON string, a JSON string back."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.core = engine.core
        self.scheduler = engine.scheduler
        self.clock = HandClock()
        self.adopt()

    def adopt(self) -> None:
        """Give the engine core a governor that lives on the test's clock, as the first call gives it one."""
        self.governor = Governor(self.scheduler, self.core.vllm_config, clock=self.clock)
        self.core._vllm_governor = self.governor

    def call(self, op: str, **payload: Any) -> dict[str, Any]:
        """The runtime, or the GovernorError that came back."""
        text = self.core.governor_call(op, json.dumps(payload))
        assert type(text) is str
        reply = json.loads(text)
        if "error" in reply:
            raise GovernorError.from_wire(reply["error"])
        runtime: dict[str, Any] = reply["ok"]
        return runtime

    def read(self) -> dict[str, Any]:
        return self.call("runtime")

    def patch(self, lease_s: float = 60, **knobs: Any) -> dict[str, Any]:
        """A PATCH by somebody who has seen everything."""
        expect = {self.governor.boot_id: self.governor.generation}
        return self.call("set", expect=expect, knobs=knobs, lease_s=lease_s)

    def lease(self, lease_s: float = 60, fallback: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.call("lease", expect={self.governor.boot_id: None}, lease_s=lease_s, fallback=fallback)

    def add(self, count: int, prompt_tokens: int = 8, max_tokens: int = 20, name: str = "r") -> None:
        for number in range(count):
            prompt = [1 + (number + place) % 400 for place in range(prompt_tokens)]
            self.engine.add_request(f"{name}{number}", prompt, max_tokens)

    @property
    def limit_name(self) -> str:
        """What this vLLM's scheduler calls the limit it admits by."""
        return "max_num_active_reqs" if hasattr(self.scheduler, "max_num_active_reqs") else "max_num_running_reqs"

    @property
    def limit(self) -> Any:
        """The limit the scheduler admits by."""
        return getattr(self.scheduler, self.limit_name)

    def watch_steps(self) -> list[Any]:
        """Every scheduler output from now on, appended as it comes."""
        seen: list[Any] = []
        inner = self.scheduler.schedule

        def watching(*args: Any, **kwargs: Any) -> Any:
            output = inner(*args, **kwargs)
            seen.append(output)
            return output

        self.scheduler.schedule = watching
        return seen


@pytest.fixture
def drive() -> Iterator[Callable[..., Driven]]:
    """Builds engine cores from EngineSettings arguments, a model's folder and an executor's class; closes them."""
    from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine

    plugin.register()
    engines: list[Any] = []

    def build(model: str | None = None, executor_class: type[Any] | None = None, **settings: Any) -> Driven:
        engine = InProcessEngine(EngineSettings(**settings), model=model, executor_class=executor_class)
        engines.append(engine)
        return Driven(engine)

    yield build
    for engine in engines:
        engine.close()


@pytest.fixture
def old_admission(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Makes a live scheduler admit as vLLM before 0.31 did, and the probe see no newer limit."""
    real = probe.reads
    monkeypatch.setattr(
        probe, "reads", lambda owner, method, name: name != "max_num_active_reqs" and real(owner, method, name)
    )

    def make_old(driven: Any) -> None:
        scheduler = driven.scheduler
        if not hasattr(scheduler, "max_num_active_reqs"):
            return  # it is that old
        limit = property(lambda self: self.max_num_running_reqs)
        del scheduler.max_num_active_reqs
        scheduler.__class__ = type("OldScheduler", (type(scheduler),), {"max_num_active_reqs": limit})
        driven.adopt()

    return make_old
