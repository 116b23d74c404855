"""The admin RPC's documents (docs/rpc.md) as domain values, and knob values as the wire has them.

Belongs here: names and types on the wire. Never: HTTP, or the statistics (controller/engine/stats_document.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from domain.errors import BadReading
from domain.knobs import CONNECTION_CLOSE, LENGTH_GROUPING, MAX_NUM_QUEUED_REQS, NO_LIMIT
from domain.runtime import EngineCore, EngineRuntime, Knob, Purged, Support

SWITCHES = frozenset({LENGTH_GROUPING, CONNECTION_CLOSE})
"""Knobs that are true or false on the wire, 1 and 0 here."""
LIMITS = frozenset({MAX_NUM_QUEUED_REQS})
"""Knobs that a null on the wire switches off, which is NO_LIMIT here."""

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)  # int() of Infinity overflows


def knob_values(knobs: Mapping[str, float | None]) -> dict[str, float | bool | None]:
    """Knob values as a call carries them. None and NO_LIMIT are null: as vLLM was started."""
    return {name: _sent(name, value) for name, value in knobs.items()}


def _sent(name: str, value: float | None) -> float | bool | None:
    if value is None or math.isinf(value):
        return None
    if name in SWITCHES:
        return bool(value)
    return int(value) if float(value).is_integer() else value  # knobs that count things are integers


def parse_runtime(document: Mapping[str, Any]) -> EngineRuntime:
    """The runtime document as domain values. Raises BadReading naming what is missing or malformed."""
    try:
        return EngineRuntime(
            boot_id=str(document["boot_id"]),
            generation=int(document["generation"]),
            vllm_version=str(document["vllm_version"]),
            plugin_version=str(document["plugin_version"]),
            cores=_cores(document["engines"]),
        )
    except MALFORMED as error:
        raise BadReading(f"cannot understand the plugin's answer: {type(error).__name__} {error}") from error


def parse_purged(document: Mapping[str, Any]) -> tuple[Purged, ...]:
    """What the answer to a purge says of each engine core. Raises BadReading."""
    try:
        return tuple(_purged(int(core["engine"]), core["purge"]["last"]) for core in document["engines"])
    except MALFORMED as error:
        raise BadReading(f"cannot understand the plugin's answer to a purge: {type(error).__name__} {error}") from error


def _purged(core: int, last: Mapping[str, Any]) -> Purged:
    return Purged(
        core=core,
        ratio=float(last["ratio"]),
        blocks=int(last["blocks"]),
        preempted=int(last["preempted"]),
        done=bool(last["done"]),
        failed=None if last["failed"] is None else str(last["failed"]),
    )


def _cores(documents: Sequence[Any]) -> tuple[EngineCore, ...]:
    if not documents:
        raise ValueError("no engine core")
    return tuple(_core(core) for core in documents)


def _core(core: Mapping[str, Any]) -> EngineCore:
    lease = core["lease"]
    pid, devices = core.get("pid"), core.get("cuda_visible_devices")  # not said by older plugins
    return EngineCore(
        index=int(core["engine"]),
        boot_id=str(core["boot_id"]),
        generation=int(core["generation"]),
        running=int(core["running"]),
        waiting=int(core["waiting"]),
        knobs={name: _knob(name, knob) for name, knob in core["knobs"].items()},
        lease_remaining_s=_number(lease["remaining_s"]),
        lease_expirations=int(lease["expirations"]),
        fallback={n: value for n, sent in lease["fallback"].items() if (value := _value(n, sent)) is not None},
        degraded=degraded(core),
        pid=None if pid is None else int(pid),
        visible_devices=None if devices is None else str(devices),
        lease_holder=None if lease.get("holder") is None else str(lease["holder"]),
        names_holder="holder" in lease,
    )


def degraded(core: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of the plugin that switched themselves off in one engine core, each with its reason."""
    return tuple(f"{part['part']}: {part['reason']}" for part in core.get("degraded") or ())


def _knob(name: str, knob: Mapping[str, Any]) -> Knob:
    support = Support(knob["support"])
    off = support is Support.OFF
    return Knob(
        name=name,
        value=None if off else _value(name, knob["value"]),
        startup=None if off else _value(name, knob["startup"]),
        minimum=_number(knob["min"]),
        maximum=_number(knob["max"]),
        support=support,
        reason=knob["reason"],
    )


def _value(name: str, sent: Any) -> float | None:
    return NO_LIMIT if sent is None and name in LIMITS else _number(sent)


def _number(value: Any) -> float | None:
    """As JSON has it, so that integers stay integers; true and false become 1 and 0."""
    if value is None or isinstance(value, int | float):
        return int(value) if isinstance(value, bool) else value
    raise TypeError(f"{value!r} is not a number")
