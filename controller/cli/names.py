"""Names that an option gives and the history does not have: an empty answer would look like one.

Belongs here: that, as sentences with the nearest name. Never: which rows are shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from domain.errors import SettingsError
from domain.knobs import TRAITS
from store.history import History

MOST_NAMED = 10


async def check(
    history: History, *, node: str | None = None, knob: str | None = None, policy: str | None = None
) -> None:
    """Called where nothing was found, since looking for names takes as long as looking for rows. Raises SettingsError
    at one that no row has.
    """
    if node is not None and node not in await history.runs.nodes():
        known(node, "--node", await _nodes(history))
    if knob is not None and knob not in TRAITS:
        known(knob, "--knob", {*TRAITS, *await history.decisions.words("knob")})
    if policy is not None and await history.decisions.next(policy=policy) is None:
        known(policy, "--policy", await history.decisions.words("policy"))


def known(name: str, option: str, names: Collection[str]) -> None:
    """Raises SettingsError where it is not among these."""
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=3)
    there = sorted(filter(None, names))
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"there are {listed(there)}" if there else "nothing is there yet"
    raise SettingsError(f"cannot use {option} {name}: there is no such name; {hint}")


def listed(names: Sequence[str]) -> str:
    """Not more of them than a sentence bears."""
    more = f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else ""
    return ", ".join(names[:MOST_NAMED]) + more


async def _nodes(history: History) -> set[str]:
    return {
        *await history.readings.nodes(),
        *await history.runs.nodes(),
        *await history.ledger.nodes(),
        *await history.decisions.nodes(),
    }
