"""The order of the prompts: epochs of whole batches that leave no problem out for good."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.engines.openrlhf.epochs import PromptOrder, epochs


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 3))
def test_no_epoch_has_a_problem_twice_and_all_are_drawn_equally_often(
    size: int, more: int, n_epochs: int, seed: int
) -> None:
    problems = size + more - 1
    drawn: Counter[int] = Counter(dict.fromkeys(range(problems), 0))
    for order in islice(epochs(seed, problems=problems, size=size), n_epochs):
        assert len(set(order.tolist())) == size
        drawn.update(order.tolist())
        assert max(drawn.values()) - min(drawn.values()) <= 1


def test_every_one_of_deepscalers_39202_problems_is_seen_over_the_papers_ten_epochs() -> None:
    drawn = np.zeros(39_202, dtype=int)
    for order in islice(epochs(11, problems=39_202, size=153 * 256), 10):
        drawn[order] += 1
    assert drawn.sum() == 1530 * 256
    assert set(drawn.tolist()) == {9, 10} and (drawn == 9).sum() == 10 * 34


def test_epochs_are_shuffled_each_by_itself_and_by_the_seed() -> None:
    first, second = islice(epochs(11, problems=50, size=50), 2)
    (reseeded,) = islice(epochs(12, problems=50, size=50), 1)
    straight = list(range(50))
    assert sorted(first) == sorted(second) == straight
    assert len({tuple(order) for order in (first, second, reseeded, straight)}) == 4
    first, second = islice(epochs(11, problems=100, size=60), 2)
    places = [place for place, i in enumerate(second) if i not in set(first)]
    assert len(places) == 40 and places != list(range(40))  # nor does what was left out come first


def test_an_order_gives_one_epoch_after_another_and_an_unused_iterator_none() -> None:
    order = PromptOrder(seed=3, problems=7, size=5)
    iter(order)
    given = [list(order) for _ in range(3)]
    assert given == [list(map(int, e)) for e in islice(epochs(3, problems=7, size=5), 3)]
    assert len(order) == 5


def test_what_makes_no_order_is_refused() -> None:
    with pytest.raises(ValueError, match="an epoch of 8 prompts out of 7: give at least as many"):
        PromptOrder(seed=3, problems=7, size=8)
    former = r"in place of its epoch and the prompts taken.*move the stage's openrlhf"
    with pytest.raises(ValueError, match=former):
        iter(PromptOrder(seed=3, problems=7, size=5)).load_state_dict({"yielded": 4})


def test_an_order_goes_on_where_its_state_was_saved() -> None:
    for stopped_after in range(1, 13):
        order = PromptOrder(seed=3, problems=7, size=5)
        wanted = [i for _ in range(4) for i in order]
        order = PromptOrder(seed=3, problems=7, size=5)
        for _ in range((stopped_after - 1) // 5):
            list(order)
        iterator = iter(order)
        list(islice(iterator, (stopped_after - 1) % 5 + 1))
        resumed = PromptOrder(seed=3, problems=7, size=5)
        second = iter(resumed)
        second.load_state_dict(iterator.state_dict())
        rest = [*second, *resumed, *resumed, *resumed]
        assert rest[: 20 - stopped_after] == wanted[stopped_after:], stopped_after
