"""The laws of the load's prompts."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from bench.prompts import FIRST_PLAIN_TOKEN, PromptMix, PromptSource


def source(seed: int = 7, mix: PromptMix | None = None) -> PromptSource:
    return PromptSource(mix or PromptMix(), model="tiny", max_tokens=24, seed=seed)


def test_the_same_seed_draws_the_same_prompts_and_another_seed_others() -> None:
    first, again, other = source(), source(), source(seed=8)
    drawn = [first.draw() for _ in range(50)]
    assert drawn == [again.draw() for _ in range(50)]
    assert drawn != [other.draw() for _ in range(50)]


def test_thirty_five_percent_repeat_one_of_eight_prompts() -> None:
    prompts = source()
    drawn = [prompts.draw() for _ in range(4000)]
    hot = [prompt for prompt in drawn if prompt.kind == "hot"]
    assert 0.32 < len(hot) / len(drawn) < 0.38
    assert len({prompt.body for prompt in hot}) == 8


def test_prompts_that_are_not_hot_do_not_repeat() -> None:
    prompts = source()
    bodies = Counter(prompt.body for prompt in (prompts.draw() for _ in range(1000)) if prompt.kind != "hot")
    assert max(bodies.values()) == 1


def test_a_prompt_is_token_ids_inside_its_class_bounds() -> None:
    mix = PromptMix()
    bounds = {"hot": mix.hot_tokens, "long": mix.long_tokens, "short": mix.short_tokens}
    prompts = source()
    for prompt in (prompts.draw() for _ in range(300)):
        body = json.loads(prompt.body)
        low, high = bounds[prompt.kind]
        assert low <= len(body["prompt"]) == prompt.tokens <= min(high, mix.longest_tokens())
        assert all(FIRST_PLAIN_TOKEN <= token < mix.vocabulary for token in body["prompt"])
        assert (body["model"], body["max_tokens"], body["ignore_eos"]) == ("tiny", 24, True)


@pytest.mark.parametrize(
    "wrong",
    [{"hot_share": 1.1}, {"long_tokens": (5, 4)}, {"short_tokens": (0, 4)}, {"hot_count": 0}, {"vocabulary": 3}],
)
def test_a_mix_that_cannot_be_drawn_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"cannot draw prompts with .*{next(iter(wrong))}"):
        PromptMix(**wrong)  # type: ignore[arg-type]
