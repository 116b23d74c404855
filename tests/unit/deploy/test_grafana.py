"""deploy/grafana: every query is PromQL over series that the daemon or vLLM exports; no panel covers another."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from controller.metrics.exposition import registry
from controller.metrics.observed import Observed
from controller.metrics.series import CATALOGUE
from controller.sensors.vllm.names import WANTED
from domain.decision import Mode
from tests.grafana import SHIPPED, VARIABLE, Query, board, queries
from tests.programs import need

QUERIES = tuple(queries())
VALUES = {
    "node": "gpu1:9178",
    "engine": "gpu1:8000",
    "percentile": "99",
    "knob": "max_num_seqs",
    "per_kwh": "NaN",
    "per_gpu_hour": "12",
}
SERIES = re.compile(r"\b(?:vllm[:_]|process_)\w+")
SCRAPED = {"instance", "job", "le"}
"""Labels that Prometheus adds, and a bucket's."""


def _exported() -> dict[str, frozenset[str] | None]:
    """Every series that a query may name, with its labels; None: they are vLLM's."""
    found: dict[str, frozenset[str] | None] = dict.fromkeys(WANTED)
    found |= {f.name: frozenset(f.labels) for f in CATALOGUE.values() if f.kind != "histogram"}
    found |= {f"{f.name}_bucket": frozenset(f.labels) for f in CATALOGUE.values() if f.kind == "histogram"}
    for family in registry(Observed(Mode.AUTO)).collect():
        if family.name.startswith("process_"):
            found |= {sample.name: frozenset(sample.labels) for sample in family.samples}
    return found


EXPORTED = _exported()


def _labels(expression: str) -> set[str]:
    """Those that the query's series have; all that it names itself where vLLM's are among them."""
    found = set(SCRAPED)
    for name in SERIES.findall(expression):
        found |= EXPORTED[name] or set()
    return found


def _told(expression: str) -> set[str]:
    """The labels that a query matches or sums by."""
    matched = re.findall(r"[{,]\s*(\w+)\s*[=!]~?", expression)
    summed = re.findall(r"\bby \(([^)]*)\)", expression)
    return {*matched, *(label for labels in summed for label in re.split(r",\s*", labels))}


def test_there_is_a_query_for_each_thing_that_the_own_dashboard_shows() -> None:
    named = {name for query in QUERIES for name in SERIES.findall(query.expression)}
    assert len(QUERIES) > 60
    assert {
        f"vllm_governor_{name}"
        for name in (
            *("latency_seconds", "objective_bound_seconds", "requests_per_second", "running", "waiting"),
            *("kv_cache_usage_ratio", "cache_hit_ratio", "hot_blocks_ratio", "gpu_utilization_ratio"),
            *("knob_observed", "knob_requested", "knob_wanted", "decisions_total", "alerts", "mode_info"),
            *("source_up", "last_tick_timestamp_seconds", "lease_remaining_seconds", "history_up"),
        )
    } <= named


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_it_names_only_series_and_labels_that_are_exported(query: Query) -> None:
    named = set(SERIES.findall(query.expression))
    assert named <= EXPORTED.keys()
    assert named
    assert _told(query.expression) <= _labels(query.expression)
    assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= _labels(query.expression)


def test_promtool_parses_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query{number}", "expr": query.sent(VALUES)} for number, query in enumerate(QUERIES)]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    command = [str(need("promtool")), "check", "rules", "--lint=none", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"SUCCESS: {len(QUERIES)} rules found" in done.stdout


def test_every_variable_that_it_uses_is_one_that_it_has_or_grafana_has() -> None:
    own = {variable["name"] for variable in board()["templating"]["list"]}
    used = {name for name in VARIABLE.findall(SHIPPED.read_text("utf-8")) if not name.startswith("__")}
    assert used == own
    assert {"datasource", "node", "engine"} <= own


def test_every_panel_and_mark_asks_the_data_source_that_is_chosen() -> None:
    whole = board()
    asking = [panel for panel in whole["panels"] if panel["type"] != "row"]
    asking += [target for panel in asking for target in panel["targets"]]
    asking += whole["annotations"]["list"]
    asking += [variable for variable in whole["templating"]["list"] if variable["type"] == "query"]
    assert {json.dumps(one["datasource"]) for one in asking} == {'{"type": "prometheus", "uid": "${datasource}"}'}


def test_each_panel_has_an_id_of_its_own_and_a_place_of_its_own() -> None:
    panels = board()["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    places = [(panel["title"], panel["gridPos"]) for panel in panels]
    for title, place in places:
        assert place["w"] > 0 < place["h"], title
        assert 0 <= place["x"] <= 24 - place["w"], title
    for (one, a), (other, b) in combinations(places, 2):
        apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        apart_y = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart_x or apart_y, f"{one} lies over {other}"


def test_it_can_be_provisioned_as_it_is() -> None:
    whole = board()
    assert whole["schemaVersion"] >= 36  # data sources as objects, since Grafana 9
    assert whole["uid"] == "vllm-governor"
    assert "id" not in whole  # Grafana gives one
    assert "__inputs" not in whole  # those are asked for by hand alone
    for panel in whole["panels"]:
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]
