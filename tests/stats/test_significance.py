"""The tests of a difference against each other, against enumeration, and on planted truths."""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from fgrpo_bench import StagedDesign
from fgrpo_bench.stats.significance import benjamini_hochberg, draws_test, holm
from tests.stats.subsampling import subsampling_test


def counts(rates, n, seed):
    return np.random.default_rng(seed).binomial(n, rates)


@pytest.fixture(scope="module")
def models():
    """Counts of two models on 120 problems, the second a little better, from 1,024 draws each."""
    rates = np.random.default_rng(0).beta(0.15, 2.0, 120)
    return counts(rates, 1024, 1), counts(np.minimum(1, rates * 1.15 + 2e-4), 1024, 2)


@pytest.mark.parametrize("k", [1, 2, 16, 64, 256])
def test_closed_form_and_monte_carlo_agree_within_its_error(models, k):
    old, new = models
    shared = {"old": old, "new": new, "n_samples": 1024, "k": k}
    closed = subsampling_test(**shared)
    drawn = subsampling_test(**shared, method="monte_carlo")
    assert drawn.difference == pytest.approx(closed.difference, abs=4 * closed.sd / 50_000**0.5)
    assert drawn.sd == pytest.approx(closed.sd, rel=4 / (2 * 50_000) ** 0.5)
    error = 2 * (closed.p_value / 2 * (1 - closed.p_value / 2) / 50_000) ** 0.5
    least = 2 / 50_001  # the smallest p-value that so many iterations can give
    assert drawn.p_value == pytest.approx(closed.p_value, abs=4 * error + least)


def test_at_k_1_the_closed_form_counts_ties_as_the_definition_does():
    rates = np.random.default_rng(2).beta(0.15, 1.5, 30)
    old, new = counts(rates, 1024, 1), counts(rates * 1.02, 1024, 2)
    shared = {"old": old, "new": new, "n_samples": 1024, "k": 1}
    closed = subsampling_test(**shared)
    drawn = subsampling_test(**shared, method="monte_carlo")
    assert drawn.p_tie > 0.002 and 0.05 < closed.p_value < 0.95
    error = 2 * (closed.p_value / 2 * (1 - closed.p_value / 2) / 50_000) ** 0.5
    assert drawn.p_value == pytest.approx(closed.p_value, abs=3 * error)


def test_where_k_is_m_the_exact_distribution_agrees_with_both(models):
    shared = {"old": models[0], "new": models[1], "n_samples": 1024, "k": 256}
    exact = subsampling_test(**shared, method="exact")
    closed = subsampling_test(**shared)
    drawn = subsampling_test(**shared, method="monte_carlo", iterations=20_000)
    assert closed.difference == pytest.approx(exact.difference, abs=1e-12)
    assert closed.sd == pytest.approx(exact.sd, rel=1e-9)
    assert closed.p_value == pytest.approx(exact.p_value, abs=0.01)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert drawn.p_tie == pytest.approx(exact.p_tie, abs=5 * (exact.p_tie / 20_000) ** 0.5)


def test_the_exact_test_is_the_enumeration_of_every_subsample():
    n, m, old, new = 6, 3, [1, 0, 6], [2, 1, 5]
    caught = [1 - comb(n - c, m) / comb(n, m) for c in (*new, *old)]
    below = tie = above = 0.0
    for hits in product((0, 1), repeat=6):
        chance = np.prod([q if hit else 1 - q for q, hit in zip(caught, hits, strict=True)])
        difference = sum(hits[:3]) - sum(hits[3:])
        below, above = below + chance * (difference <= 0), above + chance * (difference >= 0)
        tie += chance * (difference == 0)
    result = subsampling_test(old=old, new=new, n_samples=n, subsample=m, k=m, method="exact")
    assert result.p_value == pytest.approx(min(1, 2 * min(below, above)), rel=1e-12)
    assert result.p_tie == pytest.approx(tie, rel=1e-12)


def test_the_same_seed_gives_the_same_monte_carlo(models):
    shared = {
        "old": models[0],
        "new": models[1],
        "n_samples": 1024,
        "k": 8,
        "method": "monte_carlo",
    }
    first = subsampling_test(**shared, iterations=3_000)
    assert first == subsampling_test(**shared, iterations=3_000)
    assert first != subsampling_test(**shared, iterations=3_000, seed=1)


def rejections(test, *, rates, n, times=400):
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(times):
        old, new = rng.binomial(n, rates), rng.binomial(n, rates)
        found += test(old=old, new=new, n_samples=n).p_value < 0.05
    return found / times


@pytest.mark.parametrize("k", [1, 16, 64])
def test_of_equal_models_the_draws_test_rejects_as_often_as_it_says(k):
    rates = np.random.default_rng(3).beta(0.2, 3.0, 100)
    size = rejections(lambda **data: draws_test(**data, k=k), rates=rates, n=256)
    assert 0.02 <= size <= 0.085  # 5% and three standard errors of 400 tries


@pytest.mark.parametrize("k", [1, 4, 32, 64])
def test_the_published_test_is_conservative_and_its_rescaled_form_rejects_as_often_as_it_says(k):
    rates = np.random.default_rng(3).beta(0.2, 3.0, 100)
    plain = rejections(lambda **d: subsampling_test(**d, k=k, subsample=64), rates=rates, n=256)
    rescaled = rejections(
        lambda **d: subsampling_test(**d, k=k, subsample=64, rescaled=True), rates=rates, n=256
    )
    assert plain <= 0.015 < 0.02 <= rescaled <= 0.085


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
    assert (
        subsampling_test(old=[1, 2], new=[1, 2], n_samples=[8, 16], subsample=4, k=2).p_value == 1
    )


@pytest.mark.parametrize(("old", "new", "p"), [([0], [0], 1.0), ([4], [4], 1.0), ([0], [4], 0.0)])
def test_where_nothing_varies_the_verdict_is_certain(old, new, p):
    assert draws_test(old=old, new=new, n_samples=4, k=2).p_value == p
    assert subsampling_test(old=old, new=new, n_samples=4, subsample=2, k=2).p_value == p


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 9}, "k=9, subsample=4, fewest draws of a problem 8: must satisfy"),
        ({"subsample": 9}, "take a smaller subsample"),
        ({"old": [9, 1]}, "old: a problem has fewer than 0 or more than n"),
        ({"old": [1]}, "1 old and 2 new problems"),
        ({"old": []}, "integers .problems., at least one"),
        ({"new": [0.5, 1]}, "integers .problems., at least one"),
        ({"method": "exact"}, "method=exact with k=2 and subsample=4"),
        ({"rescaled": True, "method": "monte_carlo"}, "needs method=moments"),
        ({"rescaled": True, "subsample": 8}, "fewer draws taken than made"),
    ],
)
def test_what_no_test_can_answer_is_refused(change, said):
    asked = {"old": [1, 2], "new": [3, 2], "n_samples": 8, "subsample": 4, "k": 2} | change
    with pytest.raises(ValueError, match=said):
        subsampling_test(**asked)


def test_corrections_are_those_of_the_worked_examples():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([]) == benjamini_hochberg([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_benjamini_hochberg_is_scipys_to_the_last_bit(p_values):
    assert benjamini_hochberg(p_values) == false_discovery_control(p_values).tolist()


@pytest.mark.parametrize("both", [False, True])
def test_the_subsampling_test_refuses_draws_that_stopped_and_names_the_test_that_takes_them(both):
    stopped, fixed = StagedDesign(stages=(8, 16), enough=2), StagedDesign(stages=(16,), enough=2)
    counts = {"old": [2, 1], "new": [3, 1], "n_samples": 8, "k": 2, "subsample": 4}
    with pytest.raises(ValueError, match=r"stages=\(8, 16\), enough=2: .*; use draws_test, or "):
        subsampling_test(**counts, design=stopped if both else (None, stopped))
    assert subsampling_test(**counts, design=(fixed, None)) == subsampling_test(**counts)
