"""What waits for one receiver is bounded, and what does not fit is told by what does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alerts.backlog import MOST_INCIDENTS, Backlog, merged
from alerts.groups import identity
from domain.incident import Delivery, DeliveryStatus, Notification
from tests.listener import told


def waiting(backlog: Backlog) -> list[str]:
    return [entry.delivery.notification.uid for entry in backlog.first(len(backlog))]


def deliveries(*notifications: Notification) -> list[Delivery]:
    return [Delivery(one) for one in notifications]


def test_they_wait_in_their_order_each_once() -> None:
    backlog = Backlog("ops", 10)
    backlog.add(deliveries(told(1), told(2)))
    backlog.add(deliveries(told(2), told(3)))
    assert waiting(backlog) == ["n-1", "n-2", "n-3"]


def test_past_the_bound_a_notification_tells_what_the_older_ones_of_its_group_would_have_told() -> None:
    backlog = Backlog("ops", 3)
    changed = backlog.add(deliveries(*(told(number) for number in range(4))))
    assert waiting(backlog) == ["n-3"]
    assert {one.notification.uid: one.status for one in changed} == {
        "n-0": DeliveryStatus.FAILED,
        "n-1": DeliveryStatus.FAILED,
        "n-2": DeliveryStatus.FAILED,
        "n-3": DeliveryStatus.PENDING,
    }
    (entry,) = backlog.first()
    assert [one.labels["number"] for one in entry.delivery.notification.incidents] == ["0", "1", "2", "3"]
    assert (backlog.superseded, backlog.crowded_out) == (3, 0)


def test_what_is_being_sent_is_not_taken_up() -> None:
    backlog = Backlog("ops", 2)
    backlog.add(deliveries(told(0), told(1)))
    backlog.begin(backlog.first()[0], 0.0)
    backlog.add(deliveries(told(2)))
    assert waiting(backlog) == ["n-0", "n-2"]


def test_a_bound_that_a_reload_lowers_holds_at_once() -> None:
    backlog = Backlog("ops", 100)
    backlog.add(deliveries(*(told(number, group=f"g{number % 3}") for number in range(10))))
    backlog.begin(backlog.first()[0], 0.0)
    changed = backlog.resize(2)
    assert waiting(backlog) == ["n-0", "n-9"]
    assert {one.status for one in changed} == {DeliveryStatus.FAILED, DeliveryStatus.PENDING}
    assert backlog.resize(1) == []


def test_where_every_group_has_one_the_oldest_goes_and_says_why() -> None:
    backlog = Backlog("ops", 2)
    (gone,) = backlog.add(deliveries(*(told(number, group=f"g{number}") for number in range(3))))
    assert waiting(backlog) == ["n-1", "n-2"]
    assert gone.status is DeliveryStatus.FAILED
    assert str(gone.error).startswith("cannot deliver to ops: more than 2 wait")
    assert backlog.crowded_out == 1


def test_an_incident_that_ended_meanwhile_is_told_as_ended_and_once() -> None:
    first, last = told(1), told(1, over_after_s=60.0)
    (one,) = merged([first, last]).incidents
    assert one == last.incidents[0]


def test_a_notification_that_took_up_others_is_bounded_and_says_how_many_it_left_out() -> None:
    whole = merged([told(number) for number in range(MOST_INCIDENTS + 10)])
    assert (len(whole.incidents), whole.truncated) == (MOST_INCIDENTS, 10)


@given(
    bound=st.integers(1, 6),
    steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["add", "add", "add", "begin", "done"])), max_size=60),
)
def test_whatever_comes_it_is_bounded_and_every_incident_is_told_by_one_that_waits(
    bound: int, steps: list[tuple[int, str]]
) -> None:
    backlog, due = Backlog("ops", bound), dict[str, str]()
    for number, (group, step) in enumerate(steps):
        first = backlog.first()
        if step == "begin" and first:
            backlog.begin(first[0], float(number))
        elif step == "done" and first:
            backlog.done(first[0])
            for one in first[0].delivery.notification.incidents:
                due.pop(identity(one))
        elif step == "add":
            new = told(number, group=f"g{group}")
            due[identity(new.incidents[0])] = new.uid
            for changed in backlog.add(deliveries(new)):
                if "see why it does not take them" in str(changed.error):  # there was no room for it
                    for lost in changed.notification.incidents:
                        due.pop(identity(lost))
        assert len(backlog) <= bound + 1
        held = [entry.delivery.notification for entry in backlog.first(len(backlog))]
        assert sorted(identity(one) for each in held for one in each.incidents) == sorted(due)
        assert [one.uid for one in held] == sorted((one.uid for one in held), key=lambda uid: int(uid[2:]))
