"""The HTML page of comparisons: what was run, a picture and a table for each. Belongs here: drawing. Never: a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.2rem .6rem;text-align:right}"
    "td,th{border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}"
)
_COLUMNS = {
    "goodput_after_30s": "goodput after 30 s",
    "good_ratio": "share good",
    "qps_mean": "QPS",
    "qps_peak": "QPS peak",
    "p99_ttft_s": "P99 TTFT s",
    "p99_itl_s": "P99 ITL s",
    "p99_e2e_s": "P99 e2e s",
    "preemptions": "preemptions",
    "rejected_ratio": "turned away",
    "hit_rate": "hit rate",
    "kv_reuse": "KV reuse",
    "fragmentation": "fragmentation",
    "qps_per_w": "QPS/W",
    "j_per_token": "J/token",
    "changes": "changes",
    "reversals": "reversals",
}
_OURS, _OTHERS, _FIXED = "#1f5fa8", "#7a7a7a", "#c4661f"


def page(documents: Sequence[Mapping[str, Any]]) -> str:
    """One page that needs no network."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>vllm-governor compared</title>"
        f"<style>{_STYLE}</style><h1>vllm-governor compared</h1>"
    ]
    for place, document in enumerate(documents):
        parts.append(f"<h2>{escape(document['scenario'])} on {escape(document['gpu'])}</h2>")
        parts.append(f"<p>{escape(document['what'])}. Seeds {document['seeds']}, {document['clock']} clock.</p>")
        parts.append(_html(_goodput(document), first=place == 0))
        parts.append(_html(_by_phase(document), first=False))
        if document["grid"]:
            parts.append(_html(_grid(document), first=False))
        parts.append(_table(document))
    return "\n".join([*parts, "</html>\n"])


def _ranked(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return sorted(document["contenders"].items(), key=lambda one: one[1]["goodput_after_30s"])


def _colour(name: str) -> str:
    if name in ("model", "rules", "tiers"):
        return _OURS
    return _FIXED if name.startswith("fixed-") or name == "oracle" else _OTHERS


def _goodput(document: Mapping[str, Any]) -> go.Figure:
    ranked = _ranked(document)
    bars = go.Bar(
        x=[one["goodput_after_30s"] for _, one in ranked],
        y=[name for name, _ in ranked],
        orientation="h",
        marker_color=[_colour(name) for name, _ in ranked],
        error_x={"type": "data", "array": [one["goodput_after_30s_half95"] or 0.0 for _, one in ranked]},
    )
    return _laid_out(go.Figure(bars), "Requests a second inside all objectives, after 30 s (bars: 95 % over seeds)")


def _by_phase(document: Mapping[str, Any]) -> go.Figure:
    names = [phase["name"] for phase in document["phases"]]
    lines = [
        go.Bar(name=name, x=names, y=one["phase_goodput"])
        for name, one in reversed(_ranked(document))
        if name in {document[who] for who in ("best_fixed", "oracle", "vllm_default", "seed", "ours")}
    ]
    return _laid_out(go.Figure(lines), "The same by phase")


def _grid(document: Mapping[str, Any]) -> go.Figure:
    caps = sorted({one["cap"] for one in document["grid"]})
    budgets = sorted({one["budget"] for one in document["grid"]})
    value = {(one["cap"], one["budget"]): one["good_ratio"] for one in document["grid"]}
    heat = go.Heatmap(
        x=[str(budget) for budget in budgets],
        y=[str(cap) for cap in caps],
        z=[[value[cap, budget] for budget in budgets] for cap in caps],
        texttemplate="%{z:.2f}",
        colorscale="Blues",
    )
    figure = _laid_out(go.Figure(heat), "Fixed settings on the search's seed: share of requests inside all objectives")
    figure.update_xaxes(title="budget, tokens a step")
    figure.update_yaxes(title="cap, requests")
    return figure


def _laid_out(figure: go.Figure, title: str) -> go.Figure:
    return figure.update_layout(title=title, template="plotly_white", height=420, margin={"t": 60, "b": 40})


def _html(figure: go.Figure, *, first: bool) -> str:
    return str(figure.to_html(full_html=False, include_plotlyjs="inline" if first else False))


def _table(document: Mapping[str, Any]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in ("contender", *_COLUMNS.values()))
    rows = [
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{_number(one[column])}</td>' for column in _COLUMNS)}</tr>"
        for name, one in reversed(_ranked(document))
    ]
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
