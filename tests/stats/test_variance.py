"""Variances of pass@k against enumeration in exact fractions."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.stats.passk import draw_moments, draw_variance
from tests.stats.subsampling import rescaling, subsample_moments

RATES = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-12, 1 - 1e-9))


def exact_pass(n, c, k):
    return 1 - Fraction(comb(n - c, k), comb(n, k))


@pytest.mark.parametrize(("n", "m", "k"), [(7, 4, 2), (12, 12, 5), (20, 8, 8), (9, 5, 1)])
def test_a_subsamples_moments_are_those_of_the_enumerated_hypergeometric(n, m, k):
    mean, variance = subsample_moments(n, m, k)
    for c in range(n + 1):
        chances = {
            h: Fraction(comb(c, h) * comb(n - c, m - h), comb(n, m))
            for h in range(max(0, m - n + c), min(c, m) + 1)
        }
        first = sum(p * exact_pass(m, h, k) for h, p in chances.items())
        second = sum(p * exact_pass(m, h, k) ** 2 for h, p in chances.items())
        assert mean[c] == pytest.approx(float(first), rel=1e-14)
        assert variance[c] == pytest.approx(float(second - first**2), rel=1e-11, abs=1e-15)


def test_moments_at_the_published_size_stay_exact_at_the_ends():
    mean, variance = subsample_moments(1024, 256, 256)
    assert mean[0] == variance[0] == variance[-1] == 0 and mean[-1] == 1
    assert mean[1] == pytest.approx(0.25) and variance[1] == pytest.approx(0.25 * 0.75, rel=1e-9)


@given(st.integers(2, 30), st.integers(1, 15), RATES)
def test_the_estimated_variance_of_the_draws_is_unbiased(n, k, p):
    k = min(k, n // 2)
    chances = np.array([comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    estimates = draw_variance(n_samples=n, n_correct=np.arange(n + 1), k=k)
    assert (estimates >= 0).all()
    _, true = draw_moments(n_samples=n, k=k, success_rate=p)
    assert chances @ estimates == pytest.approx(float(true), rel=1e-9, abs=1e-13)


@given(st.integers(1, 40), st.integers(1, 40), RATES)
def test_moments_at_a_known_rate_are_those_of_the_enumerated_binomial(n, k, p):
    k = min(k, n)
    mean, variance = draw_moments(n_samples=n, k=k, success_rate=p)
    chances = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    values = [float(exact_pass(n, c, k)) for c in range(n + 1)]
    first = sum(w * v for w, v in zip(chances, values, strict=True))
    assert float(mean) == pytest.approx(first, rel=1e-9, abs=1e-13)
    second = sum(w * (v - first) ** 2 for w, v in zip(chances, values, strict=True))
    assert float(variance) == pytest.approx(second, rel=1e-7, abs=1e-12)


def test_a_variance_that_cannot_be_estimated_is_refused():
    with pytest.raises(ValueError, match=r"k=5 with 8 draws.*2k <= n only; draw 10"):
        draw_variance(n_samples=[10, 8], n_correct=[1, 1], k=5)
    with pytest.raises(ValueError, match=r"success_rate=1\.5"):
        draw_moments(n_samples=4, k=1, success_rate=1.5)


@pytest.mark.parametrize(("n", "m", "k"), [(24, 6, 1), (24, 6, 2), (24, 6, 6), (64, 16, 16)])
def test_at_the_observed_rate_the_rescaled_variance_is_that_of_all_draws(n, m, k):
    within = subsample_moments(n, m, k)[1]
    for c in range(1, n):
        p = c / n
        chances = np.array([comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)])
        _, of_all = draw_moments(n_samples=n, k=k, success_rate=p)
        assert rescaling(n, m, k)[c] * (chances @ within) == pytest.approx(of_all, rel=1e-6)


def test_for_small_k_the_rescaling_is_the_finite_population_factor_and_near_m_it_is_less():
    np.testing.assert_allclose(rescaling(64, 16, 1), 16 / 48)
    assert rescaling(64, 16, 16)[[0, -1]].tolist() == [16 / 48] * 2
    assert (rescaling(64, 16, 16)[1:-1] < 0.32).all()
