"""The operations an engine core carries out, by name.

Here: the registry. A new operation is a new file and a line in OPERATIONS. Never here: HTTP.

An operation takes the governor and the payload, changes what it has to and raises GovernorError when it cannot; the
runtime as it is afterwards is the answer to each of them, except those in ANSWERS, which make their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import follow, freeze, lease, purge, runtime, set_knobs, stats, undo

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor

Operation = Callable[["Governor", Mapping[str, Any]], object]

OPERATIONS: Mapping[str, Operation] = {
    "runtime": runtime.read,
    "check": set_knobs.check,
    "set": set_knobs.apply,
    "lease": lease.renew,
    "check_lease": lease.check,
    "undo": undo.undo,
    "freeze": freeze.freeze,
    "purge": purge.purge,
    "check_purge": purge.check,
}

Answer = Callable[["Governor", Mapping[str, Any]], dict[str, Any]]

ANSWERS: Mapping[str, Answer] = {
    "follow": follow.follow,
    "stats": stats.read,
}
