"""The process that replays for the running daemon: a question on its standard input, the document on its output.

Belongs here: these two, errors as a sentence. Never: replaying (controller/history/replayed.py), starting the process
(replay.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import datetime
from typing import Any

from controller.deciding import extensions
from controller.history.replayed import checked, document, replayed
from controller.operations.replay import CALL
from domain.errors import GovernorError, SettingsError
from store.history import History

NICENESS = 19


async def _answer(question: dict[str, Any]) -> dict[str, Any]:
    kind = extensions.find().settings
    since = None if question["since"] is None else datetime.fromisoformat(question["since"])
    history = History(question["url"])
    try:
        tables = None if question["tables"] is None else checked(question["tables"], kind, CALL)
        return {"found": document(await replayed(history, kind, tables, since, question["node"]))}
    except SettingsError as error:
        return {"invalid": str(error)}
    except GovernorError as error:
        return {"failed": str(error)}
    finally:
        await history.close()


def main() -> None:
    """Whatever the daemon's ticks need goes first."""
    os.nice(NICENESS)
    answer = asyncio.run(_answer(json.load(sys.stdin)))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
