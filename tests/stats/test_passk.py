"""pass@k against exact rationals, and its refusals."""

from fractions import Fraction
from math import comb, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench import pass_at_k


def exact(n: int, c: int, k: int) -> Fraction:
    return 1 - Fraction(comb(n - c, k), comb(n, k))


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 2048))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_it_equals_the_rational_value_to_1e_15(case):
    n, c, k = case
    assert abs(Fraction(pass_at_k(n_samples=n, n_correct=c, k=k)) - exact(n, c, k)) <= 1e-15


@pytest.mark.parametrize(("n", "k"), [(512, 256), (1024, 256), (1024, 8), (1024, 1), (4096, 16)])
def test_every_count_of_the_usual_designs_is_exact(n, k):
    got = pass_at_k(n_samples=n, n_correct=np.arange(n + 1), k=k)
    worst = max(abs(Fraction(value) - exact(n, c, k)) for c, value in enumerate(got.tolist()))
    assert worst <= 1e-15


def test_arrays_broadcast_over_mixed_designs():
    n, c = np.array([4, 8, 4]), np.array([1, 2, 4])
    got = pass_at_k(n_samples=n[:, None], n_correct=c[:, None], k=np.array([1, 4]))
    want = [[float(exact(a, b, k)) for k in (1, 4)] for a, b in zip(n, c, strict=True)]
    assert got.shape == (3, 2)
    np.testing.assert_allclose(got, want, atol=1e-15)


def test_fewer_draws_than_k_is_nan_and_never_one():
    assert isnan(pass_at_k(n_samples=3, n_correct=3, k=4))
    assert isnan(pass_at_k(n_samples=0, n_correct=0, k=1))


def test_at_n_equal_k_it_asks_whether_any_draw_is_correct():
    np.testing.assert_array_equal(
        pass_at_k(n_samples=5, n_correct=np.arange(6), k=5), [0] + [1] * 5
    )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_samples": 4, "n_correct": 5, "k": 1}, ValueError, "n_correct=5 of n_samples=4"),
        ({"n_samples": 4, "n_correct": -1, "k": 1}, ValueError, "0 <= n_correct"),
        ({"n_samples": 4, "n_correct": 1, "k": 0}, ValueError, "k=0"),
        ({"n_samples": 4.0, "n_correct": 1, "k": 1}, TypeError, "n_samples=4.0"),
        ({"n_samples": 4, "n_correct": [0.5], "k": 1}, TypeError, "n_correct"),
    ],
)
def test_impossible_counts_are_refused_by_name(arguments, error, text):
    with pytest.raises(error, match=text):
        pass_at_k(**arguments)
