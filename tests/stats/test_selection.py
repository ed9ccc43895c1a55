"""Choosing a checkpoint by score and compute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.stats.selection import Candidate, best, is_for_selection, within_budget

numbers = st.floats(0, 1, allow_nan=False)
candidates = st.lists(
    st.builds(Candidate, step=st.integers(1, 9), cost=numbers, score=numbers),
    max_size=9,
    unique_by=lambda one: one.step,
)


def test_the_best_is_the_earliest_of_equals() -> None:
    three = [Candidate(step=s, cost=s, score=x) for s, x in [(1, 0.2), (2, 0.5), (3, 0.5)]]
    assert best(three) == three[1]
    assert best(three, budget=1.5) == three[0]
    assert best(three, budget=0.5) is None
    assert within_budget(three, 2) == three[1]
    assert within_budget(three, 0) is None


@given(candidates, st.none() | numbers)
def test_nothing_within_the_budget_is_better(found: list[Candidate], budget: float | None) -> None:
    one = best(found, budget=budget)
    within = [other for other in found if budget is None or other.cost <= budget]
    assert (one is None) == (not within)
    if one is not None:
        assert one in within
        assert all((other.score, -other.step) <= (one.score, -one.step) for other in within)


def test_the_halves_of_the_problems_are_fixed_and_about_equal() -> None:
    half = [i for i in range(1000) if is_for_selection(f"p{i:03d}")]
    assert 450 < len(half) < 550
    assert half[:6] == [0, 2, 3, 6, 7, 11]
