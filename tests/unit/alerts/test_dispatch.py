"""When a group is told: waits, intervals, repeats, one law at a time. Laws of any history: test_dispatch_laws."""

from __future__ import annotations

from alerts.dispatch import resend, waiting
from alerts.groups import State
from alerts.incidents import follow, opened
from alerts.matching import parse
from domain.alert import Severity
from domain.incident import IncidentState, Notification
from domain.silence import Silence
from policies.alert_thresholds import RULES, AlertsState, evaluate
from tests.dispatching import AM, HOOK, Rig, at, begun, over, said, settings
from tests.views import view


def test_the_first_notification_of_a_group_waits_for_others_of_it() -> None:
    rig = Rig(settings(group_by=["instance"]))
    assert rig.at(0, begun("a")) == []
    assert rig.at(9, begun("b", 9)) == []
    assert rig.at(10) == [[("a", "firing"), ("b", "firing")]]


def test_groups_are_told_apart_by_the_labels_of_group_by() -> None:
    rig = Rig()
    rig.at(0, begun("a"), begun("b"))
    assert rig.at(10) == [[("a", "firing")], [("b", "firing")]]
    assert [(one.group_key, one.group_labels) for _, one in rig.told] == [
        ('{}:{alertname="a"}', {"alertname": "a"}),
        ('{}:{alertname="b"}', {"alertname": "b"}),
    ]


def test_three_dots_make_each_alert_a_group_of_its_own() -> None:
    rig = Rig(settings(group_by=["..."]))
    rig.at(0, begun("a", core="0"), begun("a", core="1"))
    assert rig.at(10) == [[("a", "firing")], [("a", "firing")]]


def test_a_changed_group_is_told_no_sooner_than_group_interval_after_and_then_at_once() -> None:
    rig = Rig(settings(group_by=["instance"]))
    first = begun("a")
    rig.at(0, first)
    rig.at(10)
    rig.at(12, begun("b", 12))
    assert rig.until(200, since=12) == [70]
    assert said([rig.told[-1][1]]) == [[("a", "firing"), ("b", "firing")]]
    assert rig.at(201, over(first, 201)) == [[("a", "resolved"), ("b", "firing")]]


def test_an_unchanged_group_that_fires_is_told_again_after_repeat_interval_under_another_uid() -> None:
    rig = Rig(settings(repeat_interval_s=300))
    rig.at(0, begun())
    assert rig.until(700, since=1) == [10, 310, 610]
    assert len({one.uid for _, one in rig.told}) == 3


def test_the_end_is_told_once_and_then_the_group_is_forgotten() -> None:
    rig = Rig()
    one = begun()
    rig.at(0, one)
    rig.at(10)
    rig.at(30, over(one, 30), over(one, 31))
    assert rig.until(400, since=30) == [70]
    assert said([rig.told[-1][1]]) == [[("a", "resolved")]]
    assert rig.state == State()
    assert rig.at(401, over(one, 401)) == []


def test_a_receiver_without_send_resolved_hears_of_no_end() -> None:
    rig = Rig(settings({"ops": {**HOOK, "send_resolved": False}}))
    one = begun()
    rig.at(0, one)
    rig.at(10, over(one, 10))
    rig = Rig(rig.settings)
    rig.at(0, one)
    rig.at(10)
    assert rig.at(100, over(one, 100)) == []
    assert rig.state == State()


def test_what_was_over_before_anybody_was_told_is_not_told() -> None:
    rig = Rig()
    one = begun()
    rig.at(0, one)
    assert rig.at(5, over(one, 5)) == []
    assert rig.until(200, since=6) == []
    assert rig.state == State()


def test_a_receiver_is_told_only_of_what_its_matchers_pick() -> None:
    rig = Rig(settings({"all": HOOK, "pager": {**HOOK, "matchers": 'severity="critical"'}}))
    rig.at(0, begun("a"), begun("b", severity=Severity.CRITICAL))
    rig.at(10)
    assert [(note.receiver, note.incidents[0].rule) for _, note in rig.told] == [
        ("all", "a"),
        ("all", "b"),
        ("pager", "b"),
    ]


def test_a_full_notification_counts_what_it_leaves_out_and_tells_its_end_of_what_it_named() -> None:
    rig = Rig(settings(max_alerts=3))
    cores = [begun("a", core, core=str(core)) for core in range(5)]
    rig.at(5, *cores)
    rig.at(10)
    assert [len(rig.told[0][1].incidents), rig.told[0][1].truncated] == [3, 2]
    assert rig.until(300, since=11) == []
    rig.at(301, *(over(one, 301) for one in cores[:4]))
    assert said([rig.told[1][1]]) == [[("a", "resolved"), ("a", "resolved"), ("a", "firing")]]
    rig.at(400)
    assert said([rig.told[2][1]]) == [[("a", "resolved"), ("a", "firing")]]
    rig.at(500, over(cores[4], 500))
    assert rig.state == State()
    named = [one for _, note in rig.told for one in note.incidents if one.state is IncidentState.RESOLVED]
    assert [one.labels["core"] for one in named] == ["0", "1", "2", "4"]


def test_what_is_new_is_named_before_what_was_named_already() -> None:
    rig = Rig(settings(max_alerts=2))
    rig.at(0, *(begun("a", 0, core=str(core)) for core in range(4)))
    rig.at(10)
    rig.at(100, begun("a", 100, core="new"))
    assert "new" in [one.labels["core"] for one in rig.told[1][1].incidents]


def test_alertmanager_is_told_at_once_of_every_alert_by_name_and_never_twice() -> None:
    rig = Rig(settings({"am": AM}, max_alerts=2, repeat_interval_s=60))
    cores = [begun("a", core=str(core)) for core in range(5)]
    rig.at(0, *cores)
    while waiting(rig.state, at(0), rig.settings):
        rig.at(0)
    named = [one.labels["core"] for _, note in rig.told for one in note.incidents]
    assert sorted(named) == ["0", "1", "2", "3", "4"]
    assert [note.truncated for _, note in rig.told] == [0, 0, 0]
    assert rig.until(300, since=1) == []
    assert rig.at(301, over(cores[0], 301)) == [[("a", "resolved")]]


def test_all_that_is_still_true_is_told_again_to_a_receiver_that_has_to_hear_it() -> None:
    rig = Rig(settings({"am": AM}, max_alerts=2), silences=[Silence(parse("core=2"), at(50), at(500))])
    cores = [begun("a", core=str(core)) for core in range(3)]
    rig.at(0, *cores)
    rig.at(0)
    rig.at(60, over(cores[0], 60), begun("b", 60))
    again = resend(rig.state, "am", at(60), rig.settings)
    assert sorted(one.labels.get("core", one.rule) for note in again for one in note.incidents) == ["1", "2", "b"]
    assert resend(rig.state, "ops", at(60), rig.settings) == ()


def test_a_clock_that_is_set_back_makes_nobody_wait_for_it() -> None:
    rig = Rig(settings(repeat_interval_s=300))
    one = begun()
    rig.at(0, one)
    rig.at(10)
    back = -400.0 * 86400
    assert rig.at(back) == []
    assert rig.at(back + 290) == []
    assert rig.at(back + 300) == [[("a", "firing")]]
    assert rig.at(back + 360, over(one, back + 360)) == [[("a", "resolved")]]


def test_values_that_jump_around_a_threshold_are_told_once_and_their_end_once() -> None:
    seconds = 3600
    rules = [rule for rule in RULES if rule.name == "kv_cache_full"]
    rig, alerts, open_ = Rig(), AlertsState(), opened([])
    for now in range(seconds):
        usage = 0.5 if now > seconds / 2 else 0.96 if now < 100 or now // 10 % 2 else 0.94
        alerts, transitions = evaluate(alerts, view(float(now), kv_cache_usage_ratio=usage), rules)
        changed = follow(open_, transitions, "gpu1:8000", at(now))
        rig.at(now, *changed)
    assert said([one for _, one in rig.told]) == [[("kv_cache_full", "firing")], [("kv_cache_full", "resolved")]]


def test_an_alert_that_is_true_for_twelve_minutes_is_told_to_alertmanager_each_minute() -> None:
    rig = Rig(settings({"am": AM}))
    one = begun()
    rig.at(0, one)
    again = list[Notification]()
    for now in range(1, 721):
        rig.at(now)
        if now % rig.settings.receivers["am"].resend_s == 0:
            again.extend(resend(rig.state, "am", at(now), rig.settings))
    rig.at(721, over(one, 721))
    assert len(again) == 12
    assert all(note.incidents == (one,) for note in again)
    assert said([note for _, note in rig.told]) == [[("a", "firing")], [("a", "resolved")]]
    assert resend(rig.state, "am", at(780), rig.settings) == ()


def test_what_is_over_stays_over_although_it_is_said_to_fire_again() -> None:
    rig = Rig()
    one = begun()
    rig.at(0, one)
    rig.at(10)
    rig.at(20, over(one, 20))
    rig.at(30, one)
    assert rig.at(70) == [[("a", "resolved")]]


def test_a_group_that_lives_on_keeps_nothing_of_what_came_and_went() -> None:
    rig = Rig(settings(group_by=["instance"]))
    rig.at(0, begun("a"))
    for start in range(100, 2000, 200):
        one = begun("b", start)
        rig.at(start, one)
        rig.at(start + 100, over(one, start + 100))
    (group,) = rig.state.groups.values()
    assert [one.rule for one in group.members.values()] == ["a"]
    assert group.shown == group.members.keys() == rig.state.places.keys()
    assert not group.untold
