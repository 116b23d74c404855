"""An event as one line.

Belongs here: words for each kind. Never: the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.cli.plain_json import dumps
from controller.cli.words import clock_time, number, value

Data = Mapping[str, Any]


def said(kind: str, data: Data) -> str:
    """One line; what this version has no words for is shown as it came."""
    try:
        return _WORDS[kind](data)
    except (KeyError, TypeError):
        return dumps(data)


def _tick(data: Data) -> str:
    signals = data["signals"]
    shown = ", ".join(
        f"{name} {number(signals.get(name))}" for name in ("running", "waiting", "requests_per_s", "goodput_ratio")
    )
    return f"{clock_time(data['at'])} {data['number']} {data['mode']}: {shown}"


def _decision(data: Data) -> str:
    change = value(data["old"])
    if data["requested"] is not None:
        change += f" -> {value(data['requested'])}"
    notes = "".join(f" [{note}]" for note in (*data["guards"], *([data["error"]] if data["error"] else [])))
    return f"{clock_time(data['at'])} {data['knob']} {change}, {data['status']}: {data['sentence']}{notes}"


def _outcome(data: Data) -> str:
    return f"{data['verdict']}{', undone' if data['undo'] else ''}: {data['sentence']}"


def _alert(data: Data) -> str:
    annotations = data["annotations"]
    what = annotations.get("description") or annotations.get("summary", "")
    return f"{data['name']} ({data['severity']}) {data['state']}: {what}"


def _mode(data: Data) -> str:
    why = f", configured {data['configured']}" if data["configured"] != data["in_force"] else ""
    return str(data["in_force"]) + why + (f", maintenance {data['maintenance']}" if data["maintenance"] else "")


def _override(data: Data) -> str:
    return ", ".join(f"{one['knob']} = {value(one['value'])} by {one['actor']}" for one in data["overrides"]) or "none"


def _policy(data: Data) -> str:
    return f"changed at run time: {', '.join(data['changed']) or 'nothing'}"


def _rollback(data: Data) -> str:
    if data["since"] is None:
        return "none is in force"
    values = ", ".join(f"{name} = {value(one)}" for name, one in data["values"].items())
    return f"{'being undone' if data['undoing'] else 'in force'}: {values}"


def _source(data: Data) -> str:
    return "; ".join(f"{name}: {why}" for name, why in data["problems"].items()) or "all give readings"


def _engine(data: Data) -> str:
    if not data["answers"]:
        return "does not answer"
    return f"boot {data['boot_id']}" + (f", held by {data['held_by']}" if data["held_by"] else "")


def _problem(data: Data) -> str:
    return " | ".join(f"{one['what']}: {one['reason']}; {one['remedy']}" for one in data["problems"]) or "none"


def _action(data: Data) -> str:
    return f"{data['actor']}: {data['action']} {data['target']}: {data['result']}"


def _gap(_data: Data) -> str:
    return "some events are not kept any more"


_WORDS: Mapping[str, Callable[[Data], str]] = {
    "tick": _tick,
    "decision": _decision,
    "outcome": _outcome,
    "alert": _alert,
    "mode": _mode,
    "override": _override,
    "policy": _policy,
    "rollback": _rollback,
    "source": _source,
    "engine": _engine,
    "problem": _problem,
    "action": _action,
    "gap": _gap,
}
