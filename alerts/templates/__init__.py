"""The text of a chat message: the shipped template, or a Jinja2 file of the operator's.

Belongs here: loading a template, proving it at the start, rendering it. Never: what it can name (message.py), how a
service writes it (formats.py), requests.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateSyntaxError
from jinja2.exceptions import TemplateNotFound, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from alerts.sanitise import one_line
from alerts.templates.formats import DINGTALK, FEISHU, SLACK, WECOM, Format
from alerts.templates.message import Message, clock, message
from domain.alert import Severity
from domain.errors import SettingsError
from domain.incident import Incident, IncidentState, Notification

__all__ = ["DINGTALK", "FEISHU", "SLACK", "WECOM", "ChatTemplate", "Format", "Message", "message"]

_DEFAULT = Path(__file__).parent / "default.j2"
_LONGEST_VALUE = 500
_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class _Written(str):
    """Text that is in the service's format already, and is not escaped again."""

    __slots__ = ()


class ChatTemplate:
    """Messages in one service's format. A template of the operator's is tried at once on samples of every shape.

    Raises SettingsError, naming file and line, when it cannot be read, is no template, or names what is not there.
    """

    def __init__(self, layout: Format, path: Path | None = None) -> None:
        self._format = layout
        self._shipped = _load(layout, _DEFAULT)
        self._own = None if path is None else _proven(layout, path)

    def render(self, told: Message) -> str:
        """The body, without the title. Where the operator's template fails on it, the shipped one speaks and says so:
        an alert must not be lost for its looks.
        """
        if self._own is None:
            return self._finished(self._shipped.render(told.named()))
        try:
            text = self._own.render(told.named())
        # Whatever an expression of the operator's can raise on this message's values.
        except Exception as error:
            shipped = self._shipped.render(told.named())
            text = f"{shipped}\n{self._format.escape(one_line(f'(the configured template failed: {error})'))}"
        return self._finished(text)

    def heading(self, told: Message) -> str:
        """The title as a line of its own."""
        return self._format.bold(self._format.escape(told.title))

    def escaped(self, text: str) -> str:
        """`text` as the service shows it, letter by letter."""
        return self._format.escape(one_line(text))

    def _finished(self, text: str) -> str:
        lines = (line.rstrip() for line in text.splitlines())
        return self._format.line_end.join(line for line in lines if line)


def _load(layout: Format, path: Path) -> Template:
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(path.parent),
        undefined=StrictUndefined,
        finalize=lambda value: _written(layout, value),
        autoescape=False,  # That would be HTML; `finalize` escapes for the service.
    )
    environment.filters |= {
        "raw": _Written,
        "bold": lambda value: _Written(layout.bold(_written(layout, value))),
        "linked": lambda url, words: _Written(layout.link(str(url), _written(layout, words))),
    }
    return environment.get_template(path.name)


def _written(layout: Format, value: Any) -> str:
    if isinstance(value, _Written):
        return value
    words = _words(value)
    # Bounds what the escapes cost: no service takes much more than this in a whole message.
    return layout.escape(one_line(words if len(words) <= _LONGEST_VALUE else words[:_LONGEST_VALUE] + "…"))


def _words(value: Any) -> str:
    match value:
        case None:
            return "unknown"
        case datetime():
            return clock(value)
        case float():
            return f"{value:.6g}"
        case _:
            return str(value)


def _proven(layout: Format, path: Path) -> Template:
    line: int | None = None
    try:
        template = _load(layout, path)
        for sample in _samples():
            template.render(sample.named())
    except TemplateNotFound as error:
        missing = "there is no such file" if error.name == path.name else f"there is no file {error.name} beside it"
        why, line = missing, _line(error, path)
    except (OSError, UnicodeDecodeError) as error:
        why = str(error)
    except TemplateSyntaxError as error:
        why, line = error.message or "it is no template", error.lineno
    except UndefinedError as error:
        known = ", ".join(field.name for field in fields(Message))
        why, line = f"{error.message}; known are {known}", _line(error, path)
    # A sandbox refusal, or whatever an expression in it raises.
    except Exception as error:
        why, line = f"{type(error).__name__}: {error}", _line(error, path)
    else:
        return template
    where = f"{path}, line {line}" if line is not None else f"{path}"
    raise SettingsError(f"cannot use the template {where}: {why}; correct the file or take `template` out")


def _line(error: Exception, path: Path) -> int | None:
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if Path(frame.filename).name == path.name), None)


def _samples() -> list[Message]:
    labels = {"alertname": "sample", "severity": "warning", "instance": "gpu1:8000", "gpu": "0"}
    words = {"summary": "a sample", "description": "0.97 is above 0.95"}
    fires = _sample(labels, words, value=0.97, ends_at=None)
    bare = _sample({"alertname": "bare"}, {}, value=None, ends_at=None)
    over = _sample(labels, words, value=0.5, ends_at=_NOON + timedelta(minutes=5))
    return [
        _sampled((fires,), truncated=0, link="http://127.0.0.1:9178"),
        _sampled((fires, bare, over), truncated=2, link=None),
        _sampled((over,), truncated=0, link=None),
    ]


def _sample(
    labels: Mapping[str, str], words: Mapping[str, str], *, value: float | None, ends_at: datetime | None
) -> Incident:
    state = IncidentState.FIRING if ends_at is None else IncidentState.RESOLVED
    return Incident("sample", Severity.WARNING, labels, state, _NOON, ends_at or _NOON, ends_at, value, words)


def _sampled(incidents: tuple[Incident, ...], *, truncated: int, link: str | None) -> Message:
    group = {"alertname": "sample"}
    told = Notification("sample", "sample", '{}:{alertname="sample"}', group, incidents, _NOON, truncated)
    return message(told, link, _NOON + timedelta(minutes=6))
