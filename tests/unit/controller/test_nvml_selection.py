"""Which devices a list that is written as CUDA_VISIBLE_DEVICES is means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.sensors.nvml.devices import Card, Instance
from controller.sensors.nvml.selection import Selected, Selection, Wanted


def card(index: int, uuid: str, *instances: str) -> Card:
    return Card(index, uuid, "made up", None, tuple(Instance(one, "made up", None, 1) for one in instances))


PLAIN = (card(0, "GPU-a1a1"), card(1, "GPU-a1b2"), card(2, "GPU-c3c3"))
CUT = (card(0, "GPU-a1a1", "MIG-1111", "MIG-2222"), card(1, "GPU-b2b2"))


def select(*lists: str | None, cards: tuple[Card, ...] = PLAIN) -> Selected:
    return Selection(Wanted(lists, "the setting gpu.devices")).resolve(cards)


def uuids(selected: Selected) -> list[str]:
    return [device.uuid for device in selected.devices]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("0", ["GPU-a1a1"]),
        ("2,0", ["GPU-c3c3", "GPU-a1a1"]),
        (" 1 , 2 ", ["GPU-a1b2", "GPU-c3c3"]),
        ("1,1", ["GPU-a1b2"]),
        ("GPU-c3c3", ["GPU-c3c3"]),
        ("GPU-c", ["GPU-c3c3"]),
        ("gpu-A1B", ["GPU-a1b2"]),
        ("", []),
        ("-1", []),
        ("1,-1,2", ["GPU-a1b2"]),
    ],
)
def test_entries_are_indices_or_beginnings_of_uuids_and_minus_one_ends_the_list(listed: str, found: list[str]) -> None:
    selected = select(listed)
    assert uuids(selected) == found
    assert selected.problems == ()


@pytest.mark.parametrize(
    ("listed", "found", "entry", "why"),
    [
        ("7", [], "'7'", "NVML lists 0, 1, 2"),
        ("0,7,1", ["GPU-a1a1"], "'7'", "the entries after it are left out too"),
        ("GPU-ffff", [], "'GPU-ffff'", "NVML lists no such UUID"),
        ("GPU-a1", [], "'GPU-a1'", "the UUIDs of 2 devices begin so"),
        ("all", [], "'all'", "neither an index nor begins with GPU- or MIG-"),
        ("-2", [], "'-2'", "neither an index"),
        ("0,,1", ["GPU-a1a1"], "''", "neither an index"),
        ("²", [], "'²'", "neither an index"),
    ],
)
def test_an_entry_that_matches_nothing_is_named_and_no_other_card_stands_in_for_it(
    listed: str, found: list[str], entry: str, why: str
) -> None:
    selected = select(listed)
    assert uuids(selected) == found
    (problem,) = selected.problems
    assert problem.startswith(f"cannot find GPU {entry} of the setting gpu.devices = {listed!r}: ")
    assert why in problem


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("MIG-2222", ["MIG-2222"]),
        ("MIG-2", ["MIG-2222"]),
        ("0", ["MIG-1111"]),
        ("GPU-a1a1", ["MIG-1111"]),
        ("1,MIG-1111", ["GPU-b2b2", "MIG-1111"]),
    ],
)
def test_a_cut_card_stands_for_its_first_instance_as_in_cuda(listed: str, found: list[str]) -> None:
    assert uuids(select(listed, cards=CUT)) == found


@pytest.mark.parametrize("lists", [(), (None,), ("0", None)])
def test_without_a_list_every_card_and_every_instance_of_a_cut_card_is_meant(lists: tuple[str | None, ...]) -> None:
    assert uuids(select(*lists, cards=CUT)) == ["MIG-1111", "MIG-2222", "GPU-b2b2"]


def test_the_lists_of_several_processes_are_put_together_each_device_once() -> None:
    assert uuids(select("0,1", "1,2")) == ["GPU-a1a1", "GPU-a1b2", "GPU-c3c3"]


def test_a_bad_entry_of_one_process_ends_that_processes_list_alone() -> None:
    selected = select("0,9,1", "2")
    assert uuids(selected) == ["GPU-a1a1", "GPU-c3c3"]
    assert len(selected.problems) == 1


def test_an_index_keeps_to_the_card_it_first_meant() -> None:
    selection = Selection(Wanted(("1,2",)))
    selection.resolve(PLAIN)
    shifted = (replace(PLAIN[0]), replace(PLAIN[2], index=1))
    selected = selection.resolve(shifted)
    assert uuids(selected) == ["GPU-c3c3"]
    assert selected.gone == ("GPU-a1b2",)
    assert selected.problems == ()
    back = selection.resolve((replace(PLAIN[2], index=0), replace(PLAIN[0], index=1), replace(PLAIN[1], index=2)))
    assert uuids(back) == ["GPU-a1b2", "GPU-c3c3"]


def test_an_entry_without_a_card_is_found_once_the_card_is_there() -> None:
    selection = Selection(Wanted(("GPU-c3c3",)))
    assert selection.resolve(PLAIN[:2]).problems
    assert uuids(selection.resolve(PLAIN)) == ["GPU-c3c3"]


def test_of_all_cards_one_that_is_no_longer_listed_is_gone_but_instances_may_be_cut_anew() -> None:
    selection = Selection(Wanted())
    selection.resolve(CUT)
    selected = selection.resolve((card(0, "GPU-a1a1", "MIG-3333"),))
    assert uuids(selected) == ["MIG-3333"]
    assert selected.gone == ("GPU-b2b2",)
