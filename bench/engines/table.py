"""docs/compatibility.md out of what the run wrote down: one table per question, reasons as notes.

Findings in, Markdown out. Running or asking anything never belongs here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HEAD = """\
# What works on which vLLM

Written by `make test-engines` out of what each vLLM's governor said of itself in that run; do not edit it by hand.

**native**: it works as the documents say. **limited**: it works, with the difference that the note tells. **off**:
refused, with the reason that the note tells, and nothing is touched. **none**: not measured on that server. What a cell
says is found by looking at the code that runs, never by the version, so a vLLM that is not in the table answers for
itself: `GET /governor/v1/runtime`.
"""
STATS_GROUPS = ("steps", "requests", "blocks", "kv", "queue", "padding", "allocator", "records")


@dataclass
class _Notes:
    """Reasons, each once, numbered as they come."""

    texts: list[str] = field(default_factory=list)

    def mark(self, entry: Mapping[str, Any]) -> str:
        """A cell: the support, and the number of its reason."""
        support, reason = str(entry["support"]), entry.get("reason")
        if not reason:
            return support
        if reason not in self.texts:
            self.texts.append(str(reason))
        return f"{support} [{self.texts.index(str(reason)) + 1}]"


def render(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The document. `found`: by version its `suite`, `live` (the documents of a server) and `kinds` (by engine)."""
    notes = _Notes()
    versions = list(found)
    live = {version: found[version].get("live") for version in versions}
    newest = versions[-1]
    parts = [
        HEAD,
        "## Knobs\n\nOf a server with a small Llama on the CPU, started with the plugin and nothing else.\n",
        _table(["knob", *versions], _knob_rows(live, notes)),
        "## Operations\n",
        _table(["operation", *versions], _operation_rows(live, notes)),
        f"## Other engines, vLLM {newest}\n\nWhat differs from an engine as it starts, in-process.\n",
        _table(["engine", "knob or operation", "support"], _kind_rows(found[newest].get("kinds") or {}, notes)),
        "## Notes\n\n" + "\n".join(f"{number}. {text}." for number, text in enumerate(notes.texts, 1)) + "\n",
        "## The run\n",
        _table(
            ["vLLM", "in-process tests", "live server"], [_run_row(version, found[version]) for version in versions]
        ),
    ]
    return "\n".join(parts)


def _knob_rows(live: Mapping[str, Any], notes: _Notes) -> list[list[str]]:
    names = dict.fromkeys(name for documents in live.values() if documents for name in _core(documents)["knobs"])
    return [[f"`{name}`", *(_cell(documents, ("knobs", name), notes) for documents in live.values())] for name in names]


def _operation_rows(live: Mapping[str, Any], notes: _Notes) -> list[list[str]]:
    rows = [
        [
            "`PATCH runtime`, `POST lease`, `POST freeze`",
            *("native" if documents else "-" for documents in live.values()),
        ],
        ["`POST purge`: evict", *(_cell(documents, ("purge",), notes) for documents in live.values())],
        ["`POST purge`: preempt", *(_cell(documents, ("purge", "preempt"), notes) for documents in live.values())],
    ]
    for group in STATS_GROUPS:
        cells = []
        for documents in live.values():
            known = documents and documents["stats"]["engines"][0].get(group) is not None
            cells.append("native" if known else "none" if documents else "-")
        rows.append([f"`GET stats`: {group}", *cells])
    return rows


def _kind_rows(kinds: Mapping[str, Any], notes: _Notes) -> list[list[str]]:
    base, rows = None, []
    for kind, answer in kinds.items():
        if "failed" in answer:
            rows.append([kind, "all", f"not run: {answer['failed']}"])
            continue
        entries = {**answer["knobs"], "purge: evict": answer["purge"], "purge: preempt": answer["purge"]["preempt"]}
        shown = {name: notes.mark(entry) for name, entry in entries.items() if not _needs_a_server(entry)}
        if base is None:
            base = shown
            continue
        differing = [[kind, f"`{name}`", cell] for name, cell in shown.items() if cell != base.get(name)]
        rows += differing or [[kind, "all", "the same"]]
    return rows


def _needs_a_server(entry: Mapping[str, Any]) -> bool:
    return "API process" in str(entry.get("reason"))


def _run_row(version: str, found: Mapping[str, Any]) -> list[str]:
    suite = found["suite"]
    counts = ", ".join(f"{suite[name]} {name}" for name in ("passed", "failed", "skipped") if suite.get(name))
    return [version, counts or "did not run", "passed" if found.get("live_passed") else "failed"]


def _core(documents: Mapping[str, Any]) -> Mapping[str, Any]:
    core: Mapping[str, Any] = documents["runtime"]["engines"][0]
    return core


def _cell(documents: Mapping[str, Any] | None, path: Sequence[str], notes: _Notes) -> str:
    if not documents:
        return "-"
    entry: Any = _core(documents)
    for name in path:
        entry = entry.get(name) or {}
    return notes.mark(entry) if entry else "-"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
