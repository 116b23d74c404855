"""What waits: bounded, in order, the important first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from store.pending import Importance, Pending


@dataclass(frozen=True)
class Thing:
    number: int
    importance: Importance = Importance.ESSENTIAL

    async def __call__(self, history: Any, session: Any) -> None:
        raise NotImplementedError


def numbers(pending: Pending, most: int = 1000, least: Importance = Importance.READING) -> list[int]:
    found = [receipt.write.number for receipt in pending.take(most, least) if isinstance(receipt.write, Thing)]
    pending.done()
    return found


@given(st.lists(st.sampled_from(Importance), max_size=40), st.integers(1, 20))
def test_past_the_bound_the_oldest_of_the_least_important_goes_and_is_counted(
    kinds: list[Importance], bound: int
) -> None:
    pending = Pending(bound)
    receipts = [pending.put(Thing(number, kind)) for number, kind in enumerate(kinds)]
    kept: list[tuple[int, Importance]] = []
    for number, kind in enumerate(kinds):
        kept.append((number, kind))
        if len(kept) > bound:
            kept.remove(max(kept, key=lambda one: (one[1], -one[0])))
    assert [receipt.dropped for receipt in receipts] == [(n, k) not in kept for n, k in enumerate(kinds)]
    assert pending.dropped.total() == len(kinds) - len(kept)
    assert numbers(pending) == [n for n, _ in sorted(kept, key=lambda one: (one[1], one[0]))]


@given(st.lists(st.tuples(st.sampled_from(Importance), st.booleans()), max_size=40), st.integers(1, 7))
def test_within_one_importance_the_order_is_kept_however_often_a_transaction_fails(
    steps: list[tuple[Importance, bool]], most: int
) -> None:
    pending, written = Pending(1000), list[tuple[Importance, int]]()
    for number, (kind, fails) in enumerate(steps):
        pending.put(Thing(number, kind))
        taken = [receipt.write for receipt in pending.take(most, Importance.READING)]
        if fails:
            pending.put_back()
        else:
            written += [(one.importance, one.number) for one in taken if isinstance(one, Thing)]
            pending.done()
    written += [(steps[number][0], number) for number in numbers(pending)]
    assert len(written) == len(steps)
    for kind in Importance:
        order = [number for one, number in written if one is kind]
        assert order == sorted(order)


def test_while_the_log_is_held_the_essential_alone_is_taken() -> None:
    pending = Pending(100)
    for number, kind in enumerate([Importance.READING, Importance.ESSENTIAL, Importance.LEDGER, Importance.ESSENTIAL]):
        pending.put(Thing(number, kind))
    assert numbers(pending, least=Importance.ESSENTIAL) == [1, 3]
    assert (len(pending), pending.waiting(Importance.ESSENTIAL)) == (2, 0)
    assert pending.oldest_wait_s() > 0
    assert numbers(pending) == [2, 0]
    assert (len(pending), pending.oldest_wait_s()) == (0, 0.0)
