"""Where things are: the environments, the plugin's overlay, logs and the lock.

Paths and which interpreter runs vLLM belong here. Making or checking anything never does.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DAEMON_ENV = ROOT / ".venv"
VLLM_ENV = ROOT / ".venv-vllm"
ENGINE_ENVS = ROOT / ".venv-engines"
ENGINE_SOURCE = ROOT / "engine"
PLUGIN_OVERLAY = ROOT / "build" / "plugin"
DEBIAN = ROOT / "build" / "debian"
VAR = ROOT / "var"
LOGS = VAR / "logs"
TINY_MODEL = VAR / "tiny-model"
LOCK = ROOT / "build" / "environments.lock"


def own_vllm_env() -> Path | None:
    """The user's own vLLM environment, named by `VLLM_ENV`; None when ours is to be used."""
    named = os.environ.get("VLLM_ENV", "").strip()
    return Path(named).expanduser().absolute() if named else None


def vllm_python() -> Path:
    """The interpreter that runs vLLM. It may not exist yet."""
    return (own_vllm_env() or VLLM_ENV) / "bin" / "python"


def shown(path: Path) -> str:
    """The path as a person in the project's root would type it."""
    try:
        return str(path.relative_to(ROOT))
    except ValueError:
        return str(path)
