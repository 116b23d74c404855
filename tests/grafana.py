"""The queries of deploy/grafana/dashboard.json, as Grafana would send them.

Belongs here: reading the file, putting values in the place of its variables. Never: what a query has to answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parents[1] / "deploy" / "grafana" / "dashboard.json"
BUILT_IN = {"__rate_interval": "1m", "__interval": "15s", "__range": "1h"}
"""Those of Grafana's own variables that the file uses, with values that Grafana would give them."""
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")


@dataclass(frozen=True, slots=True)
class Query:
    """`where` it stands in the dashboard, `legend` the words beside its series with labels in double braces."""

    where: str
    expression: str
    legend: str

    def sent(self, values: Mapping[str, str]) -> str:
        """With values instead of variables; a variable that has none is a KeyError."""
        known = {**BUILT_IN, **values}
        return VARIABLE.sub(lambda found: known[found.group(1)], self.expression)


def board() -> dict[str, Any]:
    """The file."""
    read: dict[str, Any] = json.loads(SHIPPED.read_text("utf-8"))
    return read


def queries() -> Iterator[Query]:
    """All of them: of the panels, of the marks, and those that fill the variables."""
    whole = board()
    for panel in whole["panels"]:
        for target in panel.get("targets", ()):
            yield Query(f"{panel['title']} {target['refId']}", target["expr"], target["legendFormat"])
    for mark in whole["annotations"]["list"]:
        yield Query(mark["name"], mark["expr"], f"{mark['titleFormat']} {mark['textFormat']}")
    for variable in whole["templating"]["list"]:
        if variable["type"] == "query":
            found = LABEL_VALUES.fullmatch(variable["definition"])
            assert found is not None, variable["definition"]
            yield Query(f"${variable['name']}", found.group(1), f"{{{{{found.group(2)}}}}}")
