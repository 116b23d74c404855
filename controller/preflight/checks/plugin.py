"""The plugin is inside vLLM, and which knobs it makes live.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from domain.errors import EngineRefused, PluginMissing
from domain.runtime import EngineRuntime, Support


def _look(around: Surroundings) -> Found:
    engine = around.engine
    error = engine.runtime_error
    if isinstance(error, PluginMissing):
        cure = "pip install ./engine  # in a clone, with vLLM's pip; then VLLM_PLUGINS=governor, restart"
        return Found(FAIL, str(error), cure)
    if isinstance(error, EngineRefused):
        token = around.settings.engine.token_file or "TOKEN_FILE"
        return Found(FAIL, str(error), f"sudo install -m 0640 VLLM_GOVERNOR_TOKEN_FILE {token}")
    if engine.runtime is None:
        raise NotKnown(str(error or "the plugin was not asked"))
    return _of(engine.runtime)


def _of(runtime: EngineRuntime) -> Found:
    live = [knob.name for knob in runtime.cores[0].knobs.values() if runtime.knob(knob.name) is not None]
    off = {
        knob.name: knob.reason or "no reason told"
        for core in runtime.cores
        for knob in core.knobs.values()
        if knob.support is Support.OFF
    }
    degraded = [part for core in runtime.cores for part in core.degraded]
    said = f"plugin {runtime.plugin_version}; live: {', '.join(live) or 'none'}"
    if off or degraded:
        lost = [f"{name} off ({reason})" for name, reason in off.items()]
        return Found(WARN, f"{said}; {'; '.join([*lost, *dict.fromkeys(degraded)])}", "vllm-governor knobs")
    return Found(PASS, said)


CHECK = Check(
    "plugin",
    "the plugin answers inside vLLM, and every knob is live",
    "seeds 1 and 2: without it their parameters cannot be set on a running vLLM",
    frozenset({PASS, WARN, FAIL, UNKNOWN}),
    _look,
)
