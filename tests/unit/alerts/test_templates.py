"""The operator's own template: proven at the start, and never the reason that an alert is lost."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from alerts.templates import DINGTALK, SLACK, ChatTemplate, message
from alerts.templates.message import span
from domain.errors import SettingsError
from tests.told import NOON, incident, notification


def template(folder: Path, text: str) -> Path:
    path = folder / "own.j2"
    path.write_text(text)
    return path


def rendered(folder: Path, text: str) -> str:
    told = message(notification(incident(labels={"team": "*ml*"})), "http://gov", NOON + timedelta(seconds=90))
    return ChatTemplate(DINGTALK, template(folder, text)).render(told)


def test_a_template_names_the_values_and_they_are_escaped_for_the_service(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ title | bold }}\n{{ alerts[0].labels.team }}") == (
        "**\\[FIRING:1\\] CRITICAL kv\\_cache\\_full on gpu1:8000**  \n\\*ml\\*"
    )


def test_what_a_template_calls_raw_stays_as_it_is(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ alerts[0].labels.team | raw }} **mine** {{ link | linked('see') }}") == (
        "*ml* **mine** [see](http://gov)"
    )


def test_a_label_that_an_alert_does_not_have_is_empty_and_an_unknown_number_is_said_to_be(tmp_path: Path) -> None:
    assert rendered(tmp_path, "<{{ alerts[0].labels.nobody }}> {{ alerts[0].ends_at }} {{ alerts[0].value }}") == (
        "<> unknown 0.97"
    )


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("fine\n{{ sevrity }}", 2, "'sevrity' is undefined; known are title, state, severity"),
        ("a\nb\n{% for x in alerts %}", 3, "Unexpected end of template"),
        ("{{ alerts[0].nmae }}", 1, "has no attribute 'nmae'"),
        ("x\n{{ title | shout }}", 2, "No filter named 'shout'"),
        ("x\n\n{{ 1 / truncated }}", 3, "ZeroDivisionError"),
        ("{{ alerts.__class__.__mro__ }}", 1, "unsafe"),
    ],
)
def test_a_wrong_template_stops_the_start_with_its_file_and_line(
    tmp_path: Path, text: str, line: int, why: str
) -> None:
    path = template(tmp_path, text)
    with pytest.raises(SettingsError, match=re.escape(why)) as raised:
        ChatTemplate(SLACK, path)
    assert f"cannot use the template {path}, line {line}: " in str(raised.value)


def test_a_template_that_is_not_there_or_not_text_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.j2: there is no such file"):
        ChatTemplate(SLACK, tmp_path / "none.j2")
    (tmp_path / "own.j2").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"own\.j2.*decode"):
        ChatTemplate(SLACK, tmp_path / "own.j2")
    with pytest.raises(SettingsError, match=r"own\.j2, line 1: there is no file other\.j2 beside it"):
        ChatTemplate(SLACK, template(tmp_path, "{% include 'other.j2' %}"))


def test_a_template_that_fails_on_one_message_lets_the_shipped_one_speak(tmp_path: Path) -> None:
    path = template(tmp_path, "{% if alerts[0].name == 'odd' %}{{ 1 // 0 }}{% endif %}fine")
    own = ChatTemplate(SLACK, path)
    assert own.render(message(notification(), None, NOON)) == "fine"
    said = own.render(message(notification(incident("odd")), None, NOON))
    assert said.startswith("vllm-governor on gpu1:8000\n*odd* (critical) since")
    assert "the configured template failed" in said


def test_spans_are_said_as_people_say_them() -> None:
    said = [span(seconds) for seconds in (-5, 59, 60, 3599, 3600, 3900, 86_400, 190_000)]
    assert said == ["0 s", "59 s", "1 min", "59 min", "1 h", "1 h 5 min", "1 d", "2 d 4 h"]
