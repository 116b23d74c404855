"""README and docs/ as tests read them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str | None = None) -> list[str]:
    """Its fenced blocks, those of one language alone where that is given."""
    found = FENCED.findall(page.read_text(encoding="utf-8"))
    return [body for said, body in found if language in (None, said)]


def prose(page: Path) -> str:
    """What is not in a fenced block."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """Every `span` of the prose."""
    return re.findall(r"`([^`\n]+)`", prose(page))
