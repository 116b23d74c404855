"""Who is not told: silences, and causes that make their consequences needless."""

from __future__ import annotations

from alerts.groups import State
from alerts.matching import parse
from domain.alert import Severity
from domain.silence import Silence
from tests.dispatching import Rig, at, begun, over, said, settings


def test_what_is_silenced_is_not_told_until_the_silence_ends_while_it_still_fires() -> None:
    rig = Rig(silences=[Silence(parse("alertname=a"), at(0), at(500))])
    rig.at(0, begun("a"))
    assert rig.until(600, since=1) == [550]


def test_a_group_leaves_out_what_is_silenced_and_tells_the_rest() -> None:
    rig = Rig(settings(group_by=["instance"]), silences=[Silence(parse("alertname=a"), at(0), at(500))])
    rig.at(0, begun("a"), begun("b"))
    assert rig.at(10) == [[("b", "firing")]]


def test_the_end_of_what_was_told_is_told_after_the_silence_that_hid_it() -> None:
    rig = Rig()
    one = begun()
    rig.at(0, one)
    rig.at(10)
    rig.silences = [Silence(parse("alertname=a"), at(11), at(500))]
    rig.at(100, over(one, 100))
    (when,) = rig.until(900, since=101)
    assert 500 <= when <= 560
    assert rig.state == State()


def test_a_cause_hides_its_consequence_and_once_it_is_over_what_is_left_is_told() -> None:
    rig = Rig()
    cause = begun("engine_down", severity=Severity.CRITICAL)
    rig.at(0, begun("latency_slo"), cause)
    assert rig.at(10) == [[("engine_down", "firing")]]
    rig.at(200, over(cause, 200))
    rig.until(400, since=201)
    assert sorted(said([one for _, one in rig.told])) == [
        [("engine_down", "firing")],
        [("engine_down", "resolved")],
        [("latency_slo", "firing")],
    ]


def test_a_cause_hides_nothing_of_another_node_and_hides_although_it_is_silenced() -> None:
    rig = Rig(settings(group_by=["..."]), silences=[Silence(parse("alertname=engine_down"), at(0), at(500))])
    here, there = begun("latency_slo"), begun("latency_slo", instance="gpu2:8000")
    rig.at(0, here, there, begun("engine_down", severity=Severity.CRITICAL))
    rig.at(10)
    assert [one.incidents[0].labels["instance"] for _, one in rig.told] == ["gpu2:8000"]


def test_an_alert_that_is_source_and_target_at_once_does_not_hide_itself() -> None:
    both = {"source_matchers": "team=ml", "target_matchers": "team=ml", "equal": ["team"]}
    rig = Rig(settings(inhibit=[both]))
    rig.at(0, begun("a", team="ml"), begun("b", team="ml"))
    assert rig.at(10) == [[("a", "firing")], [("b", "firing")]]


def test_an_alert_that_is_source_and_target_at_once_is_hidden_by_one_that_is_a_source_alone() -> None:
    rule = {"source_matchers": "team=ml", "target_matchers": 'team=ml,alertname!="cause"', "equal": ["team"]}
    rig = Rig(settings(inhibit=[rule]))
    rig.at(0, begun("a", team="ml"), begun("cause", team="ml"))
    assert rig.at(10) == [[("cause", "firing")]]
