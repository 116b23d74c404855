"""The packed column: what goes in comes out, small, and what was written once can always be read."""

from __future__ import annotations

import hashlib
import json
from random import Random

import pytest

from domain.knobs import TRAITS
from domain.stretch import KNOB, rounded
from domain.view import SIGNALS
from store.packed import NAMES, pack, unpack


def test_an_object_comes_back_as_it_was_packed() -> None:
    value = {"running": 3.5, "waiting": 0.0, "knob:max_num_seqs": None, "of somebody else's": 1e-7, "ü": 2.0}
    assert unpack(pack(value)) == value
    assert unpack(pack({})) == {}


def test_a_reading_with_every_signal_takes_a_third_of_its_json() -> None:
    chance = Random(1)
    value: dict[str, float | None] = {name: rounded(chance.random() * 1000) for name in SIGNALS}
    value |= {KNOB + name: 8.0 for name in TRAITS}
    assert 3 * len(pack(value)) < len(json.dumps(value))


def test_names_that_were_released_never_change() -> None:
    """With other names nothing that is in a database could be read: add a version instead."""
    assert {version: hashlib.sha256(names.encode()).hexdigest()[:16] for version, names in NAMES.items()} == {
        1: "8ffe8354dccf6a9e"
    }


def test_what_was_packed_by_this_version_once_is_read_for_ever() -> None:
    assert unpack(bytes.fromhex("01ab465419c67aa66869cec4d048cfc8146b449a9900350300")) == {
        "running": 3.5,
        "gpu_power_w": 412.25,
        "knob:max_num_seqs": 64.0,
    }


@pytest.mark.parametrize("packed", [b"", b"\xff\x03\x00", b"\x01\xff\xff\xff"])
def test_what_cannot_be_read_is_said(packed: bytes) -> None:
    with pytest.raises(ValueError, match="cannot unpack a reading"):
        unpack(packed)
