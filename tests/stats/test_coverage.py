"""Gained and lost problems, against sampling from the posterior and on plain cases."""

import numpy as np
import pytest

from fgrpo_bench.stats.coverage import coverage, least_rate, reach


def test_at_the_least_rate_k_draws_are_a_coin_flip():
    for k in (1, 8, 256):
        assert 1 - (1 - least_rate(k)) ** k == pytest.approx(0.5, rel=1e-12)


def test_reach_is_the_posteriors_mass_above_that_rate():
    rng = np.random.default_rng(0)
    for n, c, k in ((512, 0, 256), (512, 1, 256), (512, 3, 256), (16, 8, 1)):
        drawn = rng.beta(c + 0.5, n - c + 0.5, 200_000)
        share = (1 - (1 - drawn) ** k >= 0.5).mean()
        assert float(reach(n_samples=n, n_correct=c, k=k)) == pytest.approx(share, abs=0.005)


def test_more_correct_draws_never_make_a_problem_less_reachable():
    found = reach(n_samples=512, n_correct=np.arange(513), k=256)
    assert (np.diff(found) >= 0).all() and 0 < found[0] < 0.15 and found[-1] == 1


def test_the_four_fates_sum_to_one_and_say_what_happened():
    made = coverage(n_old=512, old=[40, 0, 40, 0], n_new=512, new=[30, 30, 0, 0], k=256)
    total = made.retained + made.gained + made.lost + made.neither
    assert total == pytest.approx(np.ones(4))
    fates = np.stack([made.retained, made.gained, made.lost, made.neither])
    assert fates.argmax(axis=0).tolist() == [0, 1, 2, 3]
    assert fates.max(axis=0).min() > 0.75


def test_a_model_against_itself_with_many_draws_loses_nothing():
    made = coverage(n_old=4096, old=[0, 1000, 4096], n_new=4096, new=[0, 1000, 4096], k=8)
    assert made.lost.max() < 1e-6 and made.gained.max() < 1e-6


def test_problems_that_nobody_solved_are_in_no_sum_but_of_those_that_nobody_reaches():
    zeros = np.zeros(300, dtype=int)
    counts = {"n_old": 512, "old": zeros, "n_new": 512, "new": zeros, "k": 256}
    by_prior, counted = coverage(**counts), coverage(**counts, solved_only=True)
    assert by_prior.lost.sum() == by_prior.gained.sum() > 20
    assert counted.neither.sum() == 300
    assert counted.lost.sum() == counted.gained.sum() == counted.retained.sum() == 0


def test_a_problem_that_only_one_model_solved_keeps_what_its_draws_say_of_that_model():
    counts = {"n_old": 512, "old": [3, 40], "n_new": 512, "new": [0, 30], "k": 256}
    made = coverage(**counts, solved_only=True)
    reached = reach(n_samples=512, n_correct=[3, 40], k=256)
    assert made.lost[0] == reached[0] and made.retained[0] == made.gained[0] == 0
    assert made.retained[1] == coverage(**counts).retained[1]


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"n_correct=\[3\], n_samples=2"):
        reach(n_samples=2, n_correct=[3], k=1)
    with pytest.raises(ValueError, match="k=0"):
        reach(n_samples=2, n_correct=1, k=0)
