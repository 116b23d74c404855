"""What schemathesis does otherwise here: an event stream that goes on for ever is asked for what is kept alone."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: schemathesis.Case[Any], _kwargs: dict[str, Any]) -> None:
    if case.operation.path == "/api/v1/events":
        case.query = {**(case.query or {}), "follow": "false"}
