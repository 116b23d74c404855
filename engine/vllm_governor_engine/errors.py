"""The errors of the admin RPC: one class, and one function for each code of docs/rpc.md.

Here: codes, HTTP statuses and the shape in which an error crosses from an engine core to the API process.
Never here: the decision that something is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATUS: Mapping[str, int] = {
    "malformed": 400,
    "unauthorized": 401,
    "closed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "held": 409,
    "stale": 412,
    "too_large": 413,
    "frozen": 423,
    "too_many_requests": 429,
    "unknown_knob": 422,
    "out_of_bounds": 422,
    "wrong_type": 422,
    "unsupported": 422,
    "unknown_key": 422,
    "missing_key": 422,
    "engine_unavailable": 503,
}
"""HTTP status by error code. 404 and 405 are what HTTP itself needs; the rest is the table of docs/rpc.md."""

_SHOWN_CHARS = 60


class GovernorError(Exception):
    """A call that cannot be done. Nothing was changed.

    `code` is a key of STATUS; `where` holds what the answer carries beside code and message (`knob`, `key`, `min`,
    `max`, `current`), built-in types only.
    """

    def __init__(self, code: str, message: str, **where: Any) -> None:
        super().__init__(message)
        self.code = code if code in STATUS else "engine_unavailable"
        self.message = message
        self.where = where

    @property
    def status(self) -> int:
        """The HTTP status of this error."""
        return STATUS[self.code]

    def as_wire(self) -> dict[str, Any]:
        """The object under `error` in an answer."""
        return {"code": self.code, "message": self.message, **self.where}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> GovernorError:
        """Rebuild what as_wire gave, on the other side of a process border."""
        where = {key: value for key, value in wire.items() if key not in ("code", "message")}
        return cls(str(wire.get("code")), str(wire.get("message")), **where)


def shown(value: object, limit: int = _SHOWN_CHARS) -> str:
    """An input as it may stand in a message or a log: ASCII, one line, short."""
    try:
        text = ascii(value)
    except ValueError:  # an integer of thousands of digits
        text = "a number too long to print"
    return text if len(text) <= limit else text[:limit] + "..."


def malformed(why: str) -> GovernorError:
    """The body is not JSON."""
    return GovernorError("malformed", f"the body is not JSON ({why}); send one JSON object")


def too_large(limit_bytes: int) -> GovernorError:
    """The body is longer than it may be."""
    return GovernorError("too_large", f"the body is longer than {limit_bytes} bytes; send a shorter one")


def wrong_type(what: str, value: object, wanted: str, **where: Any) -> GovernorError:
    """A value of another type than the key or knob takes."""
    return GovernorError("wrong_type", f"{what} is {shown(value)}, which is not {wanted}; send {wanted}", **where)


def out_of_bounds(what: str, value: object, low: float, high: float, why: str = "", **where: Any) -> GovernorError:
    """A value of the right type that is too small or too large."""
    because = f", because {why}" if why else ""
    message = f"{what} is {shown(value)}, which is not within {low} and {high}{because}; send a value within them"
    return GovernorError("out_of_bounds", message, min=low, max=high, **where)


def unknown_knob(name: str, known: list[str]) -> GovernorError:
    """A knob this plugin has not heard of."""
    message = f"there is no knob {shown(name)}; the knobs are {', '.join(known)}"
    return GovernorError("unknown_knob", message, knob=name[:_SHOWN_CHARS])


def unsupported(name: str, why: str) -> GovernorError:
    """A knob that this vLLM does not have, or that failed and was switched off."""
    message = f"the knob {name} is off, because {why}; leave it out of the call"
    return GovernorError("unsupported", message, knob=name)


def unknown_key(key: str, known: tuple[str, ...]) -> GovernorError:
    """A key of the body this call does not know."""
    message = f"this call does not know the key {shown(key)}; its keys are {', '.join(known)}"
    return GovernorError("unknown_key", message, key=key[:_SHOWN_CHARS])


def missing_key(key: str) -> GovernorError:
    """A key of the body this call needs."""
    return GovernorError("missing_key", f"the key {key} is missing from the body; add it", key=key)


def stale(boot_id: str, generation: int) -> GovernorError:
    """The caller has not seen the last change, or the last restart."""
    return GovernorError(
        "stale",
        f"the engine is at boot_id {boot_id}, generation {generation}, which is not what the call names; "
        "read the runtime again and decide anew",
        current={"boot_id": boot_id, "generation": generation},
    )


def frozen() -> GovernorError:
    """An operator has stopped every change."""
    return GovernorError(
        "frozen",
        "an operator has frozen this engine, so nothing is changed; lift it with POST /governor/v1/freeze "
        'and {"frozen": false}',
    )


def too_many_requests(retry_after_s: int) -> GovernorError:
    """The caller calls more often than it may."""
    message = f"too many calls of the governor's routes; wait {retry_after_s} s and call less often"
    return GovernorError("too_many_requests", message, retry_after_s=retry_after_s)


def conflict(why: str) -> GovernorError:
    """The call fits neither the body's fault nor the engine's: it has to wait for something else."""
    return GovernorError("conflict", why)


def held(holder: str | None, remaining_s: float | None) -> GovernorError:
    """Another one holds the lease."""
    left_s = 0.0 if remaining_s is None else round(remaining_s, 3)
    message = (
        f"the lease of this engine is held by {shown(holder, 200)} for another {left_s:g} s; stop that one, or wait "
        "until it no longer renews it"
    )
    return GovernorError("held", message, holder=holder, remaining_s=left_s)


def cannot_purge(key: str, why: str | None) -> GovernorError:
    """A part of a purge that this vLLM does not have, or that failed and was switched off."""
    return GovernorError("unsupported", f"{key} has to be 0, because {why or 'it is not there'}", key=key)


def unavailable(why: str) -> GovernorError:
    """The engine core gave no usable answer."""
    return GovernorError("engine_unavailable", why)
