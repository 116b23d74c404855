"""The state over restarts and reloads: nobody is told twice, everybody hears the end."""

from __future__ import annotations

from alerts.dispatch import dispatch
from alerts.groups import State
from alerts.saved import pack, unpack
from tests.dispatching import HOOK, Rig, at, begun, over, said, settings


def test_who_comes_to_the_same_conclusion_later_comes_to_the_same_uid() -> None:
    rig = Rig()
    rig.at(0, begun())
    kept = pack(rig.state)
    (first,) = dispatch(rig.state, (), (), at(10), rig.settings)
    (second,) = dispatch(unpack(kept, [begun()], rig.settings), [begun()], (), at(55), rig.settings)
    assert first.uid == second.uid
    assert first.created_at != second.created_at


def test_after_a_reload_that_groups_otherwise_nobody_is_told_twice_and_the_end_is_told() -> None:
    rig = Rig(settings(repeat_interval_s=86400))
    one = begun()
    rig.at(0, one)
    rig.at(10)
    rig.settings = settings(group_by=["instance"], repeat_interval_s=86400)
    rig.state = unpack(pack(rig.state), [one], rig.settings)
    assert rig.until(500, since=11) == []
    assert rig.at(501, over(one, 501)) == [[("a", "resolved")]]


def test_a_receiver_that_no_longer_listens_still_hears_the_end_of_what_it_was_told() -> None:
    rig = Rig()
    one = begun()
    rig.at(0, one)
    rig.at(10)
    rig.settings = settings({"ops": {**HOOK, "matchers": "severity=critical"}, "new": HOOK})
    rig.state = unpack(pack(rig.state), [one], rig.settings)
    rig.at(100)
    rig.at(200, over(one, 200))
    assert sorted((note.receiver, when, note.state.value) for when, note in rig.told) == [
        ("new", 100, "firing"),
        ("new", 200, "resolved"),
        ("ops", 10, "firing"),
        ("ops", 200, "resolved"),
    ]


def test_a_receiver_that_is_taken_out_is_forgotten() -> None:
    rig = Rig()
    rig.at(0, begun())
    rig.at(10)
    rig.settings = settings({"other": HOOK})
    rig.state = unpack(pack(rig.state), [begun()], rig.settings)
    rig.at(20)
    assert [note.receiver for _, note in rig.told] == ["ops", "other"]


def test_a_receiver_that_comes_back_is_told_what_fires_under_another_uid() -> None:
    """What waited for it was given up under the first one, and what is given up is not told."""
    rig = Rig()
    rig.at(0, begun())
    rig.at(10)
    first, before = rig.told[0][1].uid, rig.settings
    for second, now in ((20, settings({"other": HOOK})), (40, settings({"another": HOOK})), (60, before)):
        rig.settings = now
        rig.state = unpack(pack(rig.state), [begun()], now)
        rig.at(second)
    again = rig.told[-1][1]
    assert (again.receiver, said([again])) == ("ops", [[("a", "firing")]])
    assert again.uid != first


def test_of_a_receiver_that_is_no_more_nothing_is_kept_once_all_is_over() -> None:
    rig = Rig()
    rig.at(0, begun())
    rig.at(10)
    rig.settings = settings({"other": HOOK})
    rig.state = unpack(pack(rig.state), [], rig.settings)
    assert rig.state == State()


def test_what_ended_after_the_state_was_kept_is_told_as_over_and_only_to_those_who_knew_of_it() -> None:
    rig = Rig(settings({"ops": HOOK, "pager": {**HOOK, "send_resolved": False}}))
    one, unknown = begun(), begun("b", 20)
    rig.at(0, one)
    rig.at(10)
    rig.at(100)
    rig.state = unpack(pack(rig.state), [over(one, 101), over(unknown, 101)], rig.settings)
    assert rig.at(102) == [[("a", "resolved")]]
    assert rig.told[-1][1].receiver == "ops"
    assert rig.state == State()
