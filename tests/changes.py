"""A change that was carried out, for tests that keep one in a history.

Belongs here: the one value; a test says by `replace` what it needs otherwise. Never: what is intended and not yet
carried out (tests/contract/store/samples.py).
"""

from __future__ import annotations

from datetime import UTC, datetime

from domain.decision import Decision, Mode, Reason, Status

GROWN = Decision(
    at=datetime(2026, 1, 1, 12, tzinfo=UTC),
    mode=Mode.AUTO,
    policy="batch_resize",
    knob="max_num_seqs",
    old=8,
    wanted=16,
    requested=16,
    observed=16,
    status=Status.APPLIED,
    reason=Reason.GROW_DEMAND,
    sentence="Growing 8 -> 16.",
    evidence={},
)
