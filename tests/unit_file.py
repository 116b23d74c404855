"""A unit's settings as systemd reads them, drop-ins last.

Belongs here: reading. Never: what a unit ought to say.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "systemd"


class UnitFile:
    """`settings["Service"]["Type"]` is the list of what was assigned; an empty assignment begins it anew."""

    def __init__(self, *paths: Path) -> None:
        self.settings: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for path in paths:
            self._read(path.read_text(encoding="utf-8"))

    def all(self, name: str, section: str = "Service") -> list[str]:
        """Every value of a list; empty where nothing is assigned."""
        return list(self.settings[section].get(name, []))

    def one(self, name: str, section: str = "Service") -> str | None:
        """The last value, which counts; None where nothing is assigned."""
        values = self.all(name, section)
        return values[-1] if values else None

    def words(self, name: str) -> list[str]:
        """Of all values together."""
        return [word for value in self.all(name) for word in value.split()]

    def _read(self, text: str) -> None:
        section = ""
        for raw in text.splitlines():
            line = raw.strip()
            if not line or line[0] in "#;":
                continue
            if line.startswith("["):
                section = line.strip("[]")
                continue
            name, _, value = (part.strip() for part in line.partition("="))
            if value:
                self.settings[section][name].append(value)
            else:
                self.settings[section][name].clear()
