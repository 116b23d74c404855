"""Matchers as Alertmanager reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.matching import in_force, matches, narrows, parse
from domain.silence import Matcher, Silence
from tests.told import NOON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alertname=emergency", (Matcher("alertname", "emergency"),)),
        ('{ severity =~ "warning|critical" , }', (Matcher("severity", "warning|critical", is_regex=True),)),
        ("a!=b,c!~d", (Matcher("a", "b", is_equal=False), Matcher("c", "d", is_regex=True, is_equal=False))),
        ('path="a,b}=\\"c\\" \\\\ \\n"', (Matcher("path", 'a,b}="c" \\ \n'),)),
        (r'host=~"gpu\.example"', (Matcher("host", r"gpu\.example", is_regex=True),)),
        ('"label with spaces"="Größe 大"', (Matcher("label with spaces", "Größe 大"),)),
        ('team=""', (Matcher("team", ""),)),
    ],
)
def test_what_alertmanager_reads_is_read_the_same(text: str, expected: tuple[Matcher, ...]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is none in it"),
        ("{}", "there is none in it"),
        ("{a=b", "one brace has no other"),
        ("a", "no matcher begins at 'a'"),
        ("a=b c=d", "a comma is missing before 'c=d'"),
        ("a==b", "no matcher begins at 'a==b'"),
        ('a="b', "no matcher begins at"),
        (',a="b"', "no matcher begins at"),
        ('a=~"("', "is no regular expression that RE2 takes (missing ): ()"),
        ('a=~"b(?!c)"', "is no regular expression that RE2 takes"),
        ('""="b"', "a label has no name"),
    ],
)
def test_what_is_no_matcher_is_refused_at_the_place_where_it_stops_being_one(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="cannot read the matchers") as caught:
        parse(text)
    assert says in str(caught.value)
    assert str(caught.value).endswith('write them as severity=~"warning|critical"')


@given(
    st.lists(st.builds(Matcher, st.from_regex(r"\A[a-z_]+\Z"), st.text(), st.just(False), st.booleans()), min_size=1)
)
def test_a_matcher_written_out_is_read_as_itself(matchers: list[Matcher]) -> None:
    assert parse("{" + ",".join(map(str, matchers)) + "}") == tuple(matchers)


@pytest.mark.parametrize(
    ("text", "picks"),
    [
        ("severity=critical", True),
        ("severity!=critical", False),
        ('severity=~"crit"', False),
        ('severity=~"crit.*|warning"', True),
        ('severity!~"warning|info"', True),
        ('team=""', True),
        ("team!=ml", True),
        ('team=~".+"', False),
        ("severity=critical,instance=other", False),
    ],
)
def test_a_regular_expression_matches_the_whole_label_and_a_missing_label_is_empty(text: str, picks: bool) -> None:
    assert matches(parse(text), {"severity": "critical", "instance": "gpu1:8000"}) is picks


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", [r"(\w+)+!", "(a|a)*b", "(.*)*x"])
def test_no_pattern_takes_longer_than_the_label_is_long(pattern: str) -> None:
    """Each of them would hold a matcher that backtracks up for years."""
    assert not matches((Matcher("alertname", pattern, is_regex=True),), {"alertname": "a" * 10_000})


@pytest.mark.parametrize("is_equal", [True, False])
def test_a_kept_pattern_that_re2_does_not_take_picks_nothing(is_equal: bool) -> None:
    """Whoever keeps one from before is told too much rather than nothing at all."""
    assert not matches((Matcher("a", "b(?!c)", is_regex=True, is_equal=is_equal),), {"a": "b"})


def test_matchers_that_pick_an_alert_without_labels_narrow_nothing() -> None:
    assert not narrows(parse('team=~".*",severity!=info'))
    assert narrows(parse('team=~".*",severity=info'))


def test_a_silence_counts_from_its_start_until_just_before_its_end() -> None:
    silence = Silence(parse("a=b"), NOON, NOON + timedelta(hours=2))
    moments = [NOON - timedelta(seconds=1), NOON, NOON + timedelta(hours=2) - timedelta(seconds=1)]
    assert [bool(in_force([silence], at)) for at in (*moments, silence.ends_at)] == [False, True, True, False]
