"""The shipped vectors are what one command makes of the library, and what other code computes."""

import json
from fractions import Fraction
from functools import cache
from math import comb, isqrt, sqrt

import pytest

from fgrpo_bench.conformance import make
from fgrpo_bench.conformance.vectors import FOLDER, names, read_vectors
from fgrpo_bench.objectives.advantages import ADVANTAGES, reads_rewards_only
from tests.conform import rationals

NAMES = [name for name in ADVANTAGES if reads_rewards_only(name)]
SUBSETS = ("pkpo", "max_at_k")
"""They are computed over tens of thousands of subsets."""


@cache
def shipped(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def groups_of(name):
    for case in shipped(name)["cases"]:
        for group in case["groups"]:
            yield case, group


def values_of(name, rewards, parameters):
    """[(value, square that it is divided by)]."""
    values = getattr(rationals, name)(rewards, **parameters)
    return [value if isinstance(value, tuple) else (value, 1) for value in values]


def as_float(value, square):
    return 0.0 if square == 0 else float(value) / sqrt(square)


def as_fraction(value, square):
    """None where it is none."""
    if square == 0:
        return Fraction(0)
    if isinstance(value, float):
        return None
    root = [isqrt(part) for part in Fraction(square).as_integer_ratio()]
    is_square = [part**2 for part in root] == [*Fraction(square).as_integer_ratio()]
    return value / Fraction(*root) if is_square else None if value else Fraction(0)


def test_every_advantage_of_the_rewards_alone_has_a_file():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(NAMES) == names()


@pytest.mark.slow
def test_one_command_makes_the_files():
    for name in NAMES:
        text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
        assert text == make.vectors_json(name), (
            f"{name}: run python -m fgrpo_bench.conformance.make"
        )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SUBSETS else []) for n in NAMES],
)
def test_another_implementation_in_rationals_gives_the_same_advantages(name):
    for case, group in groups_of(name):
        rewards = [Fraction(text) for text in group["rewards"]]
        values = values_of(name, rewards, case["parameters"])
        exact = [None if text is None else Fraction(text) for text in group["exact"]]
        assert exact == [as_fraction(*pair) for pair in values], group
        assert group["float"] == pytest.approx([as_float(*p) for p in values], rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_expected_weights_are_the_mean_of_the_score_over_all_groups(name):
    """E[(1 / N) sum_i A_i d log pi(R_i) / dp], whose score is 1 / p of a right rollout and
    -1 / (1 - p) of a wrong one."""
    rates = shipped(name)["success_rates"]
    for case in shipped(name)["cases"]:
        n = case["group_size"]
        if n > 8:
            continue
        weights = [0.0] * len(rates)
        for c in range(n + 1):
            rewards = [Fraction(i < c) for i in range(n)]
            values = [as_float(*p) for p in values_of(name, rewards, case["parameters"])]
            for place, p in enumerate(rates):
                chance = comb(n, c) * p**c * (1 - p) ** (n - c)
                score = sum(values[:c]) / p - sum(values[c:]) / (1 - p)
                weights[place] += chance * score / n
        assert case["expected_weight"] == pytest.approx(weights, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_all_groups_of_0_and_1_up_to_six_rollouts_are_there_in_every_order(name):
    sizes = set()
    for case in read_vectors(name).cases:
        if case.group_size <= 6:
            rewards, advantages = case.in_every_order(binary=True)
            assert len({*map(tuple, rewards)}) == len(rewards) == 2**case.group_size
            assert advantages.shape == rewards.shape
            sizes.add(case.group_size)
    assert {4, 5, 6} <= sizes


def test_a_setting_that_the_vectors_do_not_have_is_refused_with_those_they_have():
    with pytest.raises(ValueError, match=r"passk with k=7: the vectors have k=1; k=2; k=4"):
        read_vectors("passk").cases_with({"k": 7})
    with pytest.raises(ValueError, match=r"no vectors of 'unlikeliness': there are those of"):
        read_vectors("unlikeliness")
