"""JSON that every reader takes.

Belongs here: writing it. Never: what JSON has no word for (controller/operations/plain.py), which values are shown.
"""

from __future__ import annotations

import json
from typing import Any

from controller.operations.plain import plain


def dumps(value: Any) -> str:
    """A limit that is switched off is "no limit", another number that JSON lacks is null."""
    try:
        return json.dumps(value, allow_nan=False)  # nearly always; going through all of it takes longer than writing it
    except (TypeError, ValueError):
        return json.dumps(plain(value), allow_nan=False)
