"""What the governor says of itself on the vLLM of this interpreter, by kind of engine: one JSON object on stdout.

`python -m bench.engines.collect`, with `engine/` on PYTHONPATH. Which kinds of engine are asked belongs here. What the
answers mean never does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.tiny_deepseek import tiny_deepseek

_DRAFTS = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "as it starts": {},
    "async scheduling": {"async_scheduling": True},
    "prefix caching off": {"prefix_caching": False},
    "chunked prefill off": {"chunked_prefill": False},
    "priority scheduling": {"scheduling_policy": "priority"},
    "speculative decoding (n-gram)": {"extra": {"speculative_config": _DRAFTS}},
    "DeepSeek-style model (MLA, MoE)": {"model": True},
}


def collect() -> dict[str, Any]:
    """By kind: `knobs` and `purge` as the runtime shows them, or `failed`, why that engine does not start here."""
    from vllm_governor_engine import plugin

    plugin.register()
    with tempfile.TemporaryDirectory() as folder:
        model = str(tiny_deepseek(Path(folder) / "deepseek"))
        return {kind: _ask(dict(settings), model) for kind, settings in KINDS.items()}


def _ask(settings: dict[str, Any], deepseek: str) -> dict[str, Any]:
    model = deepseek if settings.pop("model", False) else None
    try:
        with InProcessEngine(EngineSettings(**settings), model=model) as engine:
            reply = json.loads(engine.core.governor_call("runtime", "{}"))
    except Exception as error:  # what an old vLLM cannot run is part of the answer
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    return {"knobs": reply["ok"]["knobs"], "purge": reply["ok"]["purge"]}


def main() -> int:
    """Prints the object as the last line."""
    answers = collect()
    sys.stdout.write(json.dumps(answers) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
