"""Which prompts are drawn, and when memory is out."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import pytest

from loadtest.memory import KvCache, MemoryUnknown
from loadtest.options import Common, number, numbers
from loadtest.prompts import Prompts
from loadtest.target import TargetError, checked

OPTIONS = Common(None, None, "completions", 32, 0.35, 8, 0.15, False, 1, 60.0, False)


def test_the_seeds_share_of_prompts_is_hot_and_those_repeat() -> None:
    source = Prompts(OPTIONS, "m")
    drawn = [source.draw() for _ in range(4000)]
    hot = [one.body for one in drawn if one.kind == "hot"]
    assert len(hot) / len(drawn) == pytest.approx(0.35, abs=0.03)
    assert len(set(hot)) == 8
    cold = [one.body for one in drawn if one.kind != "hot"]
    assert len(set(cold)) == len(cold)


def test_several_load_processes_share_the_hot_prompts_and_no_other() -> None:
    one, other = ([source.draw() for _ in range(500)] for source in (Prompts(OPTIONS, "m", n) for n in (0, 1)))
    shared = {each.body for each in one} & {each.body for each in other}
    assert shared == {each.body for each in one if each.kind == "hot"}


def test_chat_and_plain_requests_hold_what_those_servers_take() -> None:
    asked = json.loads(Prompts(replace(OPTIONS, endpoint="chat", plain=True), "m").draw().body)
    assert set(asked) == {"messages", "model", "max_tokens", "temperature", "stream"}
    assert json.loads(Prompts(OPTIONS, "m").draw().body)["ignore_eos"] is True


def metrics(usage: float, preemptions: float) -> str:
    return (
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {usage / 2}\n'
        f'vllm:kv_cache_usage_perc{{engine="1",model_name="m"}} {usage}\n'
        f'vllm:num_preemptions_total{{engine="0",model_name="m"}} {preemptions}\n'
    )


def test_memory_is_out_when_the_fullest_cache_is_full_or_a_request_is_thrown_out() -> None:
    cache = KvCache("http://127.0.0.1:1", {})
    assert cache.take(metrics(0.5, 7)).out is None, "what was thrown out before the test is not its doing"
    assert cache.take(metrics(0.98, 7)).out is None
    assert "99%" in (cache.take(metrics(0.99, 7)).out or "")
    assert "2 requests" in (cache.take(metrics(0.4, 9)).out or "")
    assert cache.take(metrics(0.4, 9)).usage_ratio == 0.4


def test_memory_that_is_not_told_is_unknown() -> None:
    with pytest.raises(MemoryUnknown, match="has no vllm:kv_cache_usage_perc"):
        KvCache("http://127.0.0.1:1", {}).take("# nothing\n")
    with pytest.raises(MemoryUnknown, match="cannot be read"):
        KvCache("http://127.0.0.1:1", {}).read()


def test_another_machine_is_loaded_only_when_that_is_allowed() -> None:
    with pytest.raises(TargetError, match="--allow-remote"):
        checked("http://10.1.2.3:8000", allow_remote=False)
    assert checked("http://10.1.2.3:8000/", allow_remote=True) == "http://10.1.2.3:8000"
    assert checked("http://[::1]:8000", allow_remote=False)
    with pytest.raises(TargetError, match="no address"):
        checked("10.1.2.3:8000", allow_remote=True)


@pytest.mark.parametrize("text", ["30,10", "10,10", "0", "ten", "nan", "inf"])
def test_stages_that_do_not_rise_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        numbers(text)


def test_bounds_are_told() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'2' must be a number from 0 to 1"):
        number(0, 1)("2")
