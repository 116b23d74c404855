"""The lease as plain state: time is passed in."""

from __future__ import annotations

from vllm_governor_engine.lease import Lease


def test_a_new_lease_is_not_held_and_never_due() -> None:
    lease = Lease()
    assert lease.remaining_s(0.0) is None
    assert not lease.due(1e9)
    assert not lease.expire(1e9)


def test_a_lease_runs_out_exactly_once_at_its_deadline() -> None:
    lease = Lease()
    lease.renew(now=10.0, lease_s=5)
    assert lease.remaining_s(12.0) == 3.0
    assert not lease.expire(14.999)
    assert lease.expire(15.0)
    assert not lease.expire(16.0)
    assert lease.expirations == 1
    assert lease.remaining_s(16.0) is None


def test_a_renewal_moves_the_deadline_in_both_directions() -> None:
    lease = Lease()
    lease.renew(0.0, 100)
    lease.renew(1.0, 2)
    assert lease.due(3.0)
    lease.renew(3.0, 100)
    assert not lease.due(50.0)


def test_remaining_time_is_never_negative() -> None:
    lease = Lease()
    lease.renew(0.0, 1)
    assert lease.remaining_s(99.0) == 0.0


def test_a_fallback_survives_expiry_and_is_replaced_as_a_whole() -> None:
    lease = Lease()
    lease.name_fallback({"a": 1, "b": 2})
    lease.renew(0.0, 1)
    lease.expire(2.0)
    assert lease.fallback == {"a": 1, "b": 2}
    lease.name_fallback({"b": 3})
    assert lease.fallback == {"b": 3}


def test_a_lease_is_open_to_its_holder_and_to_whoever_gives_no_name() -> None:
    lease = Lease()
    lease.renew(0.0, 10, "a")
    assert lease.open_to("a")
    assert lease.open_to(None)
    assert not lease.open_to("b")


def test_a_renewal_without_a_name_leaves_the_holder() -> None:
    lease = Lease()
    lease.renew(0.0, 10, "a")
    lease.renew(1.0, 10)
    assert lease.holder == "a"


def test_a_lease_that_ran_out_is_open_to_everybody() -> None:
    lease = Lease()
    lease.renew(0.0, 10, "a")
    lease.expire(10.0)
    assert lease.holder is None
    assert lease.open_to("b")


def test_whoever_knows_that_the_holder_is_gone_may_take_it_over() -> None:
    lease = Lease()
    lease.renew(0.0, 10, "a")
    assert lease.open_to("b", instead_of="a")
    assert not lease.open_to("b", instead_of="c")
