"""The emulated GPU's settings and how they are written as JSON. Where vLLM hands them over is the executor's business.

Two ways in, the first wins:

- vLLM's ``--additional-config '{"emulated_gpu": {...}}'``
- the environment variable ``EMULATED_GPU='{...}'``

The object has up to five keys, each optional: ``step`` (the fields of ``StepModel``), ``tokens`` (the fields of
``TokenRule``), ``kv_cache_mib``, and ``card`` with ``nvml_script``. Example:
``{"step": {"base_ms": 10, "per_token_us": 50}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bench.emulated_gpu.step_model import StepModel
from bench.emulated_gpu.tokens import TokenRule

CONFIG_KEY = "emulated_gpu"
ENVIRONMENT_VARIABLE = "EMULATED_GPU"


@dataclass(frozen=True, slots=True)
class EmulatedGpu:
    """Everything that can be set about the device. Raises ``ValueError`` naming the key that is wrong."""

    step: StepModel = field(default_factory=StepModel)
    tokens: TokenRule = field(default_factory=TokenRule)
    kv_cache_mib: int = 1024
    """Memory offered to the KV cache, MiB. ``--num-gpu-blocks-override`` sets the number of blocks directly."""
    card: str = "A100-80G"
    """The preset as which it shows itself in NVML."""
    nvml_script: str = ""
    """Where the scripted NVML (bench/emulated_nvml) reads; empty: the device is in no NVML."""

    def __post_init__(self) -> None:
        if self.kv_cache_mib < 1:
            raise ValueError(f"cannot use kv_cache_mib={self.kv_cache_mib!r}: it must be at least 1")

    def to_dict(self) -> dict[str, Any]:
        """The settings as ``from_mapping`` reads them; plain types only."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, given: object) -> EmulatedGpu:
        """Settings from a decoded JSON object; what is absent keeps its default, an unknown key is an error."""
        values = _known(cls, given, CONFIG_KEY)
        for key, part in (("step", StepModel), ("tokens", TokenRule)):
            if key in values:
                values[key] = part(**_known(part, values[key], f"{CONFIG_KEY}.{key}"))
        return cls(**values)


def load(additional_config: object, environment: Mapping[str, str]) -> EmulatedGpu:
    """The settings given by vLLM's additional config, else by the environment, else the defaults."""
    if isinstance(additional_config, Mapping) and CONFIG_KEY in additional_config:
        return EmulatedGpu.from_mapping(additional_config[CONFIG_KEY])
    text = environment.get(ENVIRONMENT_VARIABLE)
    if not text:
        return EmulatedGpu()
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"cannot read {ENVIRONMENT_VARIABLE}: it is not JSON ({error})") from error
    return EmulatedGpu.from_mapping(given)


def _known(kind: type[Any], given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"cannot use {where}={given!r}: it must be an object")  # noqa: TRY004  # one kind of error for bad settings
    names = [f.name for f in fields(kind)]
    for key in given:
        if key not in names:
            raise ValueError(f"cannot use {where}.{key}: unknown key, known are {', '.join(names)}")
    return dict(given)
