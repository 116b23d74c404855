"""Values as JSON says them.

Belongs here: what JSON has no word for. Never: which values are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

NO_LIMIT_WORD = "no limit"


def plain(value: Any) -> Any:
    """A limit that is switched off is "no limit", another number that JSON lacks is null, a time is ISO 8601."""
    if isinstance(value, float) and not math.isfinite(value):
        return NO_LIMIT_WORD if value == math.inf else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)
