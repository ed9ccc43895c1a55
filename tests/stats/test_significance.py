"""The test of a difference on planted truths, and corrections against worked examples."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from fgrpo_bench import StagedDesign
from fgrpo_bench.stats.passk import draw_moments
from fgrpo_bench.stats.significance import benjamini_hochberg, draws_test, holm
from tests.stats.subsampling import subsampling_test


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 16, 64])
def test_of_equal_models_the_draws_test_rejects_as_often_as_it_says(k):
    rates, rng = np.random.default_rng(3).beta(0.2, 3.0, 100), np.random.default_rng(7)
    tests = [
        draws_test(old=rng.binomial(256, rates), new=rng.binomial(256, rates), n_samples=256, k=k)
        for _ in range(400)
    ]
    size = np.mean([test.p_value < 0.05 for test in tests])
    assert 0.02 <= size <= 0.085  # 5% and three standard errors of 400 tries


def test_the_published_test_is_conservative_and_its_rescaled_form_is_not():
    """By hand: half the draws of one problem, whose subsamples hold 0 or 1 correct one of 2."""
    asked = {"old": [0], "new": [1], "n_samples": 4, "k": 2, "subsample": 2}
    published = subsampling_test(**asked)
    assert (published.difference, published.sd) == pytest.approx((0.5, 0.5))
    assert published.p_value == pytest.approx(1)  # a half stands for 0 to 1
    _, of_all = draw_moments(n_samples=4, k=2, success_rate=0.25)
    _, of_two = draw_moments(n_samples=2, k=2, success_rate=0.25)
    rescaled = subsampling_test(**asked, rescaled=True)
    assert rescaled.sd == pytest.approx(0.5 * (of_all / (of_two - of_all)) ** 0.5)
    assert subsampling_test(**asked | {"new": [0]}).p_value == 1


def test_each_side_of_the_draws_test_may_have_a_design_of_its_own():
    one, other = (StagedDesign(stages=stages, enough=2) for stages in ((4, 8, 16), (8, 32)))
    n_old, old, n_new, new = np.array([[4, 16, 8], [3, 0, 2], [8, 32, 32], [8, 5, 1]])
    result = draws_test(old=old, new=new, n_samples=(n_old, n_new), k=4, design=(one, other))
    values = other.pass_at_k(n_drawn=n_new, n_correct=new, k=4) - one.pass_at_k(
        n_drawn=n_old, n_correct=old, k=4
    )
    variances = other.draw_variance(n_drawn=n_new, n_correct=new, k=4) + one.draw_variance(
        n_drawn=n_old, n_correct=old, k=4
    )
    assert result.difference == pytest.approx(values.mean())
    assert result.sd == pytest.approx(variances.sum() ** 0.5 / 3)
    fixed = draws_test(old=[1, 2], new=[3, 0], n_samples=16, k=4)
    single = StagedDesign(stages=(16,), enough=1)
    for design in (single, (None, single), (single, None)):
        same = draws_test(old=[1, 2], new=[3, 0], n_samples=16, k=4, design=design)
        assert same.difference == fixed.difference
        assert same.p_value == pytest.approx(fixed.p_value, rel=1e-12)
    with pytest.raises(ValueError, match=r"k=9 with 16 draws of a problem at most.*draw 18"):
        draws_test(old=old, new=old, n_samples=n_old, k=9, design=one)
    with pytest.raises(ValueError, match="n_drawn=4, n_correct=1"):
        draws_test(old=[1], new=[3], n_samples=4, k=1, design=one)


def test_problems_may_have_different_numbers_of_draws():
    n = np.array([8, 16, 16])
    result = draws_test(old=[0, 8, 16], new=[4, 8, 16], n_samples=n, k=4)
    assert result.difference == pytest.approx((1 - comb(4, 4) / comb(8, 4)) / 3)
    pair = draws_test(old=[0, 8], new=[0, 4], n_samples=([16, 16], [16, 8]), k=4)
    assert pair.difference == pytest.approx((comb(8, 4) / comb(16, 4) - 1 / comb(8, 4)) / 2)


@pytest.mark.parametrize(("old", "new", "p"), [([0], [0], 1.0), ([4], [4], 1.0), ([0], [4], 0.0)])
def test_where_nothing_varies_the_verdict_is_certain(old, new, p):
    assert draws_test(old=old, new=new, n_samples=4, k=2).p_value == p


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"old": [9, 1]}, "old: a problem has fewer than 0 or more than n"),
        ({"old": [1]}, "1 old and 2 new problems"),
        ({"old": []}, "integers .problems., at least one"),
        ({"new": [0.5, 1]}, "integers .problems., at least one"),
    ],
)
def test_what_no_test_can_answer_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        draws_test(**{"old": [1, 2], "new": [3, 2], "n_samples": 8, "k": 2} | change)


def test_corrections_are_those_of_the_worked_examples():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([]) == benjamini_hochberg([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_benjamini_hochberg_is_scipys_to_the_last_bit(p_values):
    assert benjamini_hochberg(p_values) == false_discovery_control(p_values).tolist()
