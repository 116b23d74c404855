"""What the alerts still know after a restart, read from the history in one go.

Belongs here: that, and what is written of it beside the incidents. Never: SQL (store/alerts.py), what it means.
"""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from alerts import saved
from alerts.groups import State
from domain.incident import Delivery, Incident
from domain.silence import Silence
from store.history import History

logger = logging.getLogger(__name__)

LINE = 100
"""Groups in a piece of JSON: a millisecond of writing."""
SQUEEZED = "groups_zlib"
RULES = "alert_rules"
"""The name under which it is kept where the rules stand."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What an earlier run left behind."""

    firing: Sequence[Incident] = ()
    over: Sequence[Incident] = ()
    """Those that ended just before the end: somebody may still have to hear it."""
    due: Sequence[Delivery] = ()
    silences: Sequence[Silence] = ()
    groups: Mapping[str, Any] | None = None
    rules: Mapping[str, Any] | None = None


async def read(history: History, now: datetime) -> Kept:
    """All of it. Raises HistoryUnavailable."""
    alerts = history.alerts
    return Kept(
        firing=await alerts.firing(),
        over=await alerts.lately_over(),
        due=await alerts.due(),
        silences=await alerts.silences(now),
        groups=_known(await alerts.state()),
        rules=await history.kept.get(RULES),
    )


def squeezed(state: State) -> Later:
    """The groups as `read` takes them back: written as JSON in pieces and compressed, since the interpreter does
    nothing else while it writes JSON.
    """
    now = State(dict(state.groups), gone=state.gone)  # `state` goes on changing

    def make() -> Mapping[str, Any]:
        groups = saved.pack(now)["groups"]
        lines = (json.dumps(groups[start : start + LINE]) for start in range(0, len(groups), LINE))
        return {SQUEEZED: base64.b64encode(zlib.compress("\n".join(lines).encode())).decode()}

    return Later(make)


def _known(kept: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What was damaged is as good as nothing: the daemon has to start, and the outbox knows who was told of what."""
    try:
        return _stretched(kept)
    except (ValueError, TypeError, zlib.error) as error:
        logger.warning(
            "alerts: cannot read who was told of what before the start, it is asked of the outbox: %s", error
        )
        return None


def _stretched(kept: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Raises ValueError, TypeError and zlib.error for what is none of that."""
    if kept is None or SQUEEZED not in kept:
        return None
    lines = zlib.decompress(base64.b64decode(kept[SQUEEZED])).decode().splitlines()
    return {"groups": [group for line in lines for group in json.loads(line)]}


class Later(Mapping[str, Any]):
    """Values that are worked out when they are written, in the writer's thread: of thousands of alerts it takes a
    while. `make` rests on nothing that changes.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        return self._make()

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
