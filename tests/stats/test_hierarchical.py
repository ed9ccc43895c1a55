"""The bootstrap over seeds, problems and draws."""

import numpy as np
import pytest

from fgrpo_bench.stats.intervals import bootstrap_means
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.variance import draw_moments
from tests.support.hierarchical import hierarchical_differences


def sweep(n_seeds=3, n_problems=60, n=64, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.beta(0.4, 3, n_problems)
    shift = rng.normal(0, 0.3, (2, n_seeds, 1))
    both = 1 / (1 + (1 / rates - 1) * np.exp(-shift))
    return rng.binomial(n, both[0]), rng.binomial(n, both[1])


def difference(old, new, n, k):
    a, b = (pass_at_k(n_samples=n, n_correct=c, k=k) for c in (old, new))
    return b - a


@pytest.mark.parametrize("k", [1, 8, 64])
def test_its_centre_is_the_difference_itself(k):
    old, new = sweep()
    made = hierarchical_differences(old=old, new=new, n_samples=64, k=k, replicates=4_000)
    observed = difference(old, new, 64, k).mean()
    assert made.mean() == pytest.approx(observed, abs=4 * made.std() / 4_000**0.5)


def test_it_is_wider_than_one_that_keeps_the_draws_and_by_their_noise():
    old, new = sweep(n_seeds=4, n_problems=200, n=16)
    values = difference(old, new, 16, 16)[:, :, None]
    kept = bootstrap_means(values, replicates=4_000).var()
    made = hierarchical_differences(old=old, new=new, n_samples=16, k=16, replicates=4_000).var()
    noise = (
        sum(
            draw_moments(n_samples=16, k=16, success_rate=c.ravel() / 16)[1].sum()
            for c in (old, new)
        )
        / old.size**2
    )
    assert made - kept == pytest.approx(noise, rel=0.25)


def test_the_draws_alone_have_the_binomials_variance():
    counts = np.full((1, 400), 5)
    made = hierarchical_differences(old=counts, new=counts, n_samples=20, k=4, replicates=4_000)
    _, variance = draw_moments(n_samples=20, k=4, success_rate=0.25)
    assert made.var() == pytest.approx(2 * float(variance) / 400, rel=0.1)


def test_models_that_are_always_right_or_wrong_have_no_spread():
    made = hierarchical_differences(
        old=np.zeros((2, 3), dtype=int), new=np.full((2, 3), 8), n_samples=8, k=4, replicates=50
    )
    assert (made == 1.0).all()


def test_the_same_seed_gives_the_same_resamples():
    old, new = sweep()
    first = hierarchical_differences(old=old, new=new, n_samples=64, k=8, replicates=100)
    again = hierarchical_differences(old=old, new=new, n_samples=64, k=8, replicates=100)
    assert (first == again).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"old": [1, 2]}, r"must be \[seeds, problems\]"),
        ({"new": [[1]]}, r"old is \(1, 2\), new is \(1, 1\)"),
        ({"new": [[1, 9]]}, "new: must be integers between 0 and n_samples=8"),
        ({"old": [[0.5, 1]]}, "old: must be integers"),
        ({"k": 9}, "k=9 with n_samples=8"),
    ],
)
def test_what_cannot_be_resampled_is_refused(change, said):
    asked = {"old": [[1, 2]], "new": [[2, 2]], "n_samples": 8, "k": 2} | change
    with pytest.raises(ValueError, match=said):
        hierarchical_differences(**asked)
