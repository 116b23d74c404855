"""Puts the whole plugin on an in-process engine, takes it off and puts it on again, between two steps.

Belongs here: which hooks are on, and hiding them. Never: a measurement.
"""

from __future__ import annotations

import json
from typing import Any

from bench.emulated_gpu.inprocess import InProcessEngine

HOOKS = {"scheduler": ("schedule", "update_from_output"), "pool": ("metrics_collector", "evict_blocks")}
"""Where the plugin hangs on vLLM's objects: attributes of the instance, named here so that a new one is noticed."""
LEASE_S = 3600


class Switch:
    """One engine's plugin. Made on; `off` hides its hooks, so that what runs is vLLM alone, `on` shows them again."""

    def __init__(self, engine: InProcessEngine, *, window: bool) -> None:
        from vllm_governor_engine import plugin

        plugin.register()
        self._core = engine.core
        self._owners = {
            "scheduler": engine.scheduler,
            "pool": engine.scheduler.kv_cache_manager.block_pool,
        }
        before = self._seen()
        runtime = self.call("runtime")
        boot_id = runtime["boot_id"]
        self.call("stats")
        self.call("lease", expect={boot_id: None}, lease_s=LEASE_S, fallback=None)
        if window:
            knobs = {"admission_delay_ms": 20.0, "length_grouping": True}
            self.call("set", expect={boot_id: runtime["generation"]}, knobs=knobs, lease_s=LEASE_S)
        after = self._seen()
        self._hooks = {name: value for name, value in after.items() if before.get(name, self) is not value}
        self._stock = {name: before[name] for name in self._hooks if name in before}
        named = {(owner, name) for owner, names in HOOKS.items() for name in names}
        if set(self._hooks) != named:
            raise RuntimeError(f"cannot tell stock from plugin: it hooks {sorted(self._hooks)}, not {sorted(named)}")

    def call(self, op: str, **payload: Any) -> dict[str, Any]:
        """One governor call, as the API process makes it."""
        reply = json.loads(self._core.governor_call(op, json.dumps(payload)))
        if "error" in reply:
            raise RuntimeError(f"cannot measure the plugin: {reply['error']['message']}")
        answer: dict[str, Any] = reply["ok"]
        return answer

    def on(self) -> None:
        """The plugin's hooks as it left them."""
        for (owner, name), value in self._hooks.items():
            setattr(self._owners[owner], name, value)

    def off(self) -> None:
        """vLLM as it was before the first call."""
        for owner, name in self._hooks:
            if (owner, name) in self._stock:
                setattr(self._owners[owner], name, self._stock[owner, name])
            else:
                vars(self._owners[owner]).pop(name, None)

    def _seen(self) -> dict[tuple[str, str], Any]:
        """Instance attributes that are functions, or None where a hook may go."""
        return {
            (owner, name): value
            for owner, instance in self._owners.items()
            for name, value in vars(instance).items()
            if callable(value) or (owner, name) == ("pool", "metrics_collector")
        }
