"""The chance that a repetition of a sweep prints the same verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from fgrpo_bench.stats.repetition import AcrossSeeds, chances, verdicts
from fgrpo_bench.stats.significance import holm
from fgrpo_bench.stats.spread import variance

PROBLEMS = 0.007**2
"""Variance of a mean over 256 problems that is due to them."""


def shown(*by_seed: float, verdict: int) -> AcrossSeeds:
    return AcrossSeeds(by_seed=by_seed, problems=PROBLEMS, n_problems=256, verdict=verdict)


@pytest.mark.parametrize("family", [3, 5])
@pytest.mark.parametrize("n_seeds", [2, 3, 8])
def test_verdicts_are_those_of_the_interval_and_of_holms_correction(n_seeds: int, family: int):
    rng = np.random.default_rng(n_seeds)
    by_seed = rng.normal([0.0, 0.03, -0.06], 0.02, (40, n_seeds, 3))
    ours = verdicts(
        by_seed, problems=np.full(3, PROBLEMS), n_problems=np.full(3, 256), family=family
    )
    parts = np.array([[PROBLEMS] * 3, [0.0] * 3, [PROBLEMS**2 / 255] * 3])
    for differences, of_family in zip(by_seed, ours.tolist(), strict=True):
        spread, means = variance(differences, parts), differences.mean(axis=0)
        low, high = np.zeros(3), np.full(3, 0.5)
        for _ in range(60):  # the tail at which the interval ends at 0
            middle = (low + high) / 2
            reaches = spread.half_width(middle) >= np.abs(means)
            low, high = np.where(reaches, middle, low), np.where(reaches, high, middle)
        p = 2 * low
        corrected = holm([*p.tolist(), *[1.0] * (family - 3)])[:3]
        sizes = (p < 0.05).astype(int) + (np.array(corrected) < 0.05)
        assert of_family == (np.sign(means) * sizes).astype(int).tolist()
    assert {0, 1, 2} <= {abs(verdict) for of_family in ours.tolist() for verdict in of_family}


def test_what_is_clear_comes_again_and_what_is_on_the_edge_about_every_other_time():
    clear, edge = chances(
        (
            shown(0.10, 0.11, 0.105, 0.095, 0.10, verdict=2),
            shown(0.01, 0.05, 0.03, 0.05, 0.02, verdict=2),
        ),
        family=2,
    )
    assert clear.chance > 0.99 and clear.low > 0.95
    assert 0.4 < edge.chance < 0.75 and edge.low < edge.chance < edge.high
    assert edge.high - edge.low > 0.3


def test_the_same_verdict_is_one_in_the_same_direction():
    up, down = (
        chances((shown(0.03, 0.05, 0.04, verdict=verdict),), family=1)[0].chance
        for verdict in (2, -2)
    )
    assert up > 0.5 and down < 0.05


def test_two_seeds_and_seeds_without_a_difference_have_a_chance():
    (alike,) = chances((shown(0.03, 0.03, 0.03, verdict=2),), family=1)
    assert alike.chance == 1
    (two,) = chances((shown(0.0, 0.03, verdict=0),), family=1)
    assert 0.5 < two.chance <= 1


def test_more_comparisons_make_the_same_difference_less_often_significant():
    row = shown(0.03, 0.05, 0.04, verdict=2)
    alone, of_many = (chances((row,), family=size)[0].chance for size in (1, 40))
    assert of_many < alone - 0.1
