"""Matchers in Alertmanager's syntax, and what they pick.

Regular expressions are RE2's, as Alertmanager's are: the time that one takes grows with the label, not with the
pattern, so that no silence and no label from outside can hold the loop up.

Belongs here: reading them from text and applying them to labels. Never: who is told, or where silences are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from domain.silence import Matcher, Silence

_BARE = r"[^\s{}!=~,\\\"'`]+"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ONE = re.compile(rf"\s*(?P<name>{_QUOTED}|{_BARE})\s*(?P<op>=~|!~|!=|=)\s*(?P<value>{_QUOTED}|{_BARE})\s*", re.DOTALL)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
EXAMPLE = 'severity=~"warning|critical"'


def parse(text: str) -> tuple[Matcher, ...]:
    """One or more matchers, separated by commas, with or without braces around them.

    Raises ValueError that says where the text stops being one.
    """
    rest = text.strip()
    if rest.startswith("{") != rest.endswith("}"):
        raise _unreadable(text, "one brace has no other")
    rest = rest.removeprefix("{").removesuffix("}").strip()
    found: list[Matcher] = []
    while rest:
        one = _ONE.match(rest)
        if one is None:
            raise _unreadable(text, f"no matcher begins at {rest!r}")
        found.append(_matcher(text, one))
        rest = rest[one.end() :]
        if rest and not rest.startswith(","):
            raise _unreadable(text, f"a comma is missing before {rest!r}")
        rest = rest.removeprefix(",").lstrip()
    if not found:
        raise _unreadable(text, "there is none in it")
    return tuple(found)


def matches(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether every one of them picks these labels. None at all picks everything."""
    return all(_matches(one, labels) for one in matchers)


def narrows(matchers: Iterable[Matcher]) -> bool:
    """Whether they leave out an alert without labels. What does not would silence everything, and is refused."""
    return not matches(matchers, {})


def in_force(silences: Iterable[Silence], now: datetime) -> tuple[Silence, ...]:
    """Those that count at `now`."""
    return tuple(one for one in silences if one.starts_at <= now < one.ends_at)


def _matches(matcher: Matcher, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if not matcher.is_regex:
        return (value == matcher.value) is matcher.is_equal
    try:
        return (_compiled(matcher.value).fullmatch(value) is not None) is matcher.is_equal
    except ValueError:  # in a silence that a version kept which took more than RE2 does
        return False


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    """Raises ValueError in RE2's own words."""
    import re2  # with the first pattern: it is two megabytes that few need

    options = re2.Options()
    options.log_errors = False  # it would write to stderr
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (said,) = error.args[:1] or ("",)
        raise ValueError(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)) from error


def _matcher(text: str, found: re.Match[str]) -> Matcher:
    name, operator, value = _plain(found["name"]), found["op"], _plain(found["value"])
    if not name:
        raise _unreadable(text, "a label has no name")
    if operator.endswith("~"):
        try:
            _compiled(value)
        except ValueError as error:
            raise _unreadable(text, f"{value!r} is no regular expression that RE2 takes ({error})") from error
    return Matcher(name, value, is_regex=operator.endswith("~"), is_equal=operator.startswith("="))


def _plain(token: str) -> str:
    """Without quotes. A backslash before anything but a quote, n or a backslash stays, as regular expressions need."""
    if not token.startswith('"'):
        return token
    return re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape[0]], token[1:-1])


def _unreadable(text: str, reason: str) -> ValueError:
    return ValueError(f"cannot read the matchers {text!r}: {reason}; write them as {EXAMPLE}")
