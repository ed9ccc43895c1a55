"""pass@k from draws that stop, against exact rationals, and its refusals."""

from fractions import Fraction
from itertools import product
from math import comb, isnan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_bench import StagedDesign, pass_at_k
from fgrpo_bench.stats.passk import draw_variance
from fgrpo_bench.stats.staged import DrawPath, estimates, variances
from tests.support.staged import designs, paths

DESIGNS = [
    StagedDesign(stages=(4, 8, 16), enough=2),
    StagedDesign(stages=(3, 10, 17, 40), enough=4),
    StagedDesign(stages=(2, 3, 20), enough=5),
    StagedDesign(stages=(32, 64), enough=8),
    StagedDesign(stages=(12,), enough=1),
]
RATES = [Fraction(1, 7), Fraction(1, 50), Fraction(2, 3), Fraction(1), Fraction(0)]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_in_rationals_the_mean_over_all_ends_is_the_truth_at_every_k(design):
    ends = [(n, c, path, path.counts([c])[0]) for n, c, path in paths(design)]
    for p in RATES:
        chances = [p**c * (1 - p) ** (n - c) for n, c, _, _ in ends]
        assert sum(way * chance for (*_, way), chance in zip(ends, chances, strict=True)) == 1
        for k in range(1, design.stages[-1] + 1):
            mean = sum(
                Fraction(way - path.without(k).counts([c])[0], way) * way * chance
                for (_, c, path, way), chance in zip(ends, chances, strict=True)
            )
            assert mean == 1 - (1 - p) ** k


@pytest.mark.parametrize("stages", [(64, 128, 256, 512, 1024), (256, 1024, 4096)])
@pytest.mark.parametrize("k", [1, 200, 256])
def test_values_are_the_rationals_rounded_once(stages, k):
    design = StagedDesign(stages=stages, enough=8)
    n, c = design.ends()
    some = np.linspace(0, len(n) - 1, 40).astype(int)
    got = design.pass_at_k(n_drawn=n[some], n_correct=c[some], k=k).tolist()
    for n_drawn, correct, value in zip(n[some].tolist(), c[some].tolist(), got, strict=True):
        before = max((stage for stage in stages if stage < n_drawn), default=0)
        last = n_drawn - before
        ways = failing = 0
        for i in range(min(8, before + 1, correct + 1)):
            ways += comb(before, i) * comb(last, correct - i)
            if k <= before:
                failing += comb(before - k, i) * comb(last, correct - i)
            elif not i:
                failing += comb(n_drawn - k, correct) if k <= n_drawn else 0
        assert value == float(1 - Fraction(failing, ways))


@pytest.mark.slow
@settings(max_examples=25)
@given(designs(), st.fractions(0, 1, max_denominator=60))
def test_in_rationals_the_estimated_variance_is_unbiased_and_never_negative(design, p):
    for k in range(1, design.stages[-1] // 2 + 1):
        mean = second = of_variance = Fraction(0)
        for n, c, path in paths(design):
            way, once, twice = (path.without(j).counts([c])[0] for j in (0, k, 2 * k))
            chance = way * p**c * (1 - p) ** (n - c)
            estimate = Fraction(once, way) ** 2 - Fraction(twice, way)
            assert estimate >= 0
            got = design.draw_variance(n_drawn=n, n_correct=c, k=k)
            assert got == pytest.approx(float(estimate), rel=1e-15)
            mean += chance * Fraction(once, way)
            second += chance * Fraction(once, way) ** 2
            of_variance += chance * estimate
        assert of_variance == second - mean**2


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_moments_at_a_known_rate_are_those_of_the_enumerated_ends(design):
    rates = [Fraction(0), Fraction(1, 50), Fraction(1, 3), Fraction(1)]
    for k in (1, 2, 5, design.stages[-1]):
        got = design.draw_moments(k=k, success_rate=[float(p) for p in rates])
        for p, mean, variance in zip(rates, *(part.tolist() for part in got), strict=True):
            second = Fraction(0)
            for n, c, path in paths(design):
                way, failing = (path.without(j).counts([c])[0] for j in (0, k))
                second += p**c * (1 - p) ** (n - c) * Fraction(failing * failing, way)
            assert mean == pytest.approx(float(1 - (1 - p) ** k), rel=1e-12)
            want = float(second - (1 - p) ** (2 * k))
            assert variance == pytest.approx(want, rel=1e-9, abs=1e-16)
    with pytest.raises(ValueError, match=r"success_rate=1\.5"):
        design.draw_moments(k=1, success_rate=1.5)
    with pytest.raises(ValueError, match="k=99"):
        design.draw_moments(k=99, success_rate=0.5)


def test_at_k_1_of_two_stages_it_is_the_mean_of_the_first_draw_over_all_paths():
    """By lattice points, as two-stage clinical trials do it: paths of the second stage that begin
    at each number of correct draws that the first one leaves going."""
    first, second, enough = 13, 30, 4
    design = StagedDesign(stages=(first, first + second), enough=enough)
    for c in range(enough + second):
        weights = [
            (i, comb(first, i) * comb(second, c - i)) for i in range(enough) if c - i in range(31)
        ]
        total = sum(weight for _, weight in weights)
        want = Fraction(sum(i * weight for i, weight in weights), first * total)
        got = design.pass_at_k(n_drawn=first + second, n_correct=c, k=1)
        assert got == pytest.approx(float(want), abs=1e-15)
    for c in range(enough, first + 1):
        assert design.pass_at_k(n_drawn=first, n_correct=c, k=1) == pytest.approx(c / first)


@pytest.mark.parametrize("n", [1, 64, 1000])
def test_one_stage_is_the_usual_formula_to_the_last_bit(n):
    design, c = StagedDesign(stages=[n], enough=8), np.arange(n + 1)
    for k in {1, max(1, n // 2), n, n + 1}:
        usual = pass_at_k(n_samples=n, n_correct=c, k=k)
        np.testing.assert_array_equal(design.pass_at_k(n_drawn=n, n_correct=c, k=k), usual)
        u = (n - c) // 2
        got = design.pass_at_k(n_drawn=n, n_correct=c, k=k, n_unscored=u[:, None])
        np.testing.assert_array_equal(got, pass_at_k(n_samples=n - u, n_correct=c, k=k))
        low, high = design.bounds(n_drawn=n, n_correct=c, k=k, n_unscored=u[:, None])
        np.testing.assert_array_equal(low, usual)
        np.testing.assert_array_equal(high, pass_at_k(n_samples=n, n_correct=c + u, k=k))
        if 2 * k <= n:
            got = design.draw_variance(n_drawn=n, n_correct=c, k=k)
            want = draw_variance(n_samples=n, n_correct=c, k=k)
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)


def test_the_upper_bound_of_a_single_stage_written_out_is_the_usual_one():
    path = DrawPath(0, 40, 3)
    for c, u, k in product((0, 5, 20), (1, 7, 20), (1, 8, 30)):
        (got,) = estimates(path, [c], k, u)
        assert got == pytest.approx(pass_at_k(n_samples=40, n_correct=c + u, k=k), abs=1e-15)
    assert variances(path, [0, 40], 4) == [0, 0]


def test_a_problem_that_stopped_has_1_above_its_draws_and_no_value_beyond_the_last_stage():
    design = StagedDesign(stages=(64, 128, 256), enough=8)
    got = design.pass_at_k(n_drawn=64, n_correct=8, k=[64, 65, 256, 257])
    np.testing.assert_array_equal(got, [1, 1, 1, np.nan])
    assert design.pass_at_k(n_drawn=256, n_correct=0, k=256) == 0.0
    assert isnan(design.draw_variance(n_drawn=64, n_correct=8, k=129))
    assert design.no_variance(128) is None
    assert "draw 258, or take a smaller k" in design.no_variance(129)


def test_values_are_unchanged_by_the_order_and_shape_of_what_is_asked():
    design = StagedDesign(stages=(8, 16, 32), enough=3)
    n, c = design.ends()
    ks = np.array([1, 5, 16])
    whole = design.pass_at_k(n_drawn=n[:, None], n_correct=c[:, None], k=ks)
    assert whole.shape == (33, 3)
    for row in (0, 5, 20, 32):
        alone = [
            design.pass_at_k(n_drawn=int(n[row]), n_correct=int(c[row]), k=k) for k in (1, 5, 16)
        ]
        assert alone == whole[row].tolist() and isinstance(alone[0], float)
    unscored = np.zeros((33, 1, 3), int)
    np.testing.assert_array_equal(
        design.pass_at_k(n_drawn=n[:, None], n_correct=c[:, None], k=ks, n_unscored=unscored), whole
    )
    assert design.pass_at_k(n_drawn=n[:0], n_correct=c[:0], k=1).shape == (0,)


def test_expected_draws_are_those_of_the_enumerated_ends():
    design = StagedDesign(stages=(4, 9, 30), enough=3)
    for p in (0.0, 0.03, 0.4, 1.0):
        mean = sum(
            n * path.counts([c])[0] * p**c * (1 - p) ** (n - c) for n, c, path in paths(design)
        )
        assert design.expected_draws(p) == pytest.approx(mean, rel=1e-12)
    assert design.expected_draws([[0.0, 1.0]]).tolist() == [[30.0, 4.0]]
    assert StagedDesign(stages=(7,), enough=1).expected_draws(0.5) == 7
    with pytest.raises(ValueError, match=r"success_rate=\[0\.5, 1\.1\]"):
        design.expected_draws([0.5, 1.1])


def test_a_design_is_a_value():
    design = StagedDesign(stages=[64, 128], enough=8)
    assert design == StagedDesign(stages=np.array([64, 128]), enough=np.int64(8))
    assert hash(design) == hash(StagedDesign(stages=(64, 128), enough=8))
    assert {type(value) for value in (*design.stages, design.enough)} == {int}


@pytest.mark.parametrize(
    ("stages", "enough", "error", "text"),
    [
        ((), 8, TypeError, r"stages=\(\): must be whole numbers of draws"),
        ((64, 128.0), 8, TypeError, "must be whole numbers"),
        (64, 8, TypeError, "stages=64"),
        ((True, False), 8, TypeError, "whole numbers"),
        ((64, 128), 1.5, TypeError, r"enough=1\.5"),
        ((0, 64), 8, ValueError, "the first stage must have at least 1 draw"),
        ((64, 64), 8, ValueError, "64 follows 64"),
        ((64, 256, 128), 8, ValueError, "128 follows 256.*sort them"),
        ((64, 128), 0, ValueError, "enough=0: every problem would stop after 64 draws.*at least 1"),
        ((64, 20_000), 8, ValueError, "at most 16,384 draws"),
    ],
)
def test_designs_that_cannot_be_are_refused_by_name(stages, enough, error, text):
    with pytest.raises(error, match=text):
        StagedDesign(stages=stages, enough=enough)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"n_drawn": 100}, ValueError, "n_drawn=100, n_correct=9: with stages=.64, 128."),
        ({"n_drawn": 500}, ValueError, "n_drawn=500"),
        ({"n_correct": 7}, ValueError, "8 to 64 correct of 64, 0 to 71 correct of 128"),
        ({"n_correct": 65}, ValueError, "n_correct=65.*order of their index"),
        ({"n_drawn": 128, "n_correct": 72}, ValueError, "n_drawn=128, n_correct=72"),
        ({"n_drawn": [64, 128], "n_correct": [9, -1]}, ValueError, "n_drawn=128, n_correct=-1"),
        ({"k": 0}, ValueError, "k=0"),
        ({"k": 1.0}, TypeError, r"k=1\.0"),
        ({"n_drawn": 64.0}, TypeError, r"n_drawn=64\.0"),
        ({"n_unscored": [1, 1]}, ValueError, r"n_unscored=\[1, 1\].*by the stage that made them"),
        ({"n_unscored": [56, 0]}, ValueError, "leave fewer"),
        ({"n_unscored": [-1, 0]}, ValueError, "n_unscored"),
        ({"n_unscored": 1}, ValueError, r"must be \[\.\.\., 2\]"),
        ({"n_unscored": [0.5, 0]}, TypeError, "n_unscored"),
    ],
)
def test_ends_that_the_design_cannot_reach_are_refused_by_name(change, error, text):
    design = StagedDesign(stages=(64, 128), enough=8)
    with pytest.raises(error, match=text):
        design.pass_at_k(**({"n_drawn": 64, "n_correct": 9, "k": 4} | change))


def test_the_page_about_designs_has_the_figures_that_they_give():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "sampling.md").read_text()
    design = StagedDesign(stages=(64, 128, 256, 512, 1024), enough=8)
    fixed = StagedDesign(stages=(1024,), enough=8)
    for p in (0, 0.002, 0.01, 0.02, 0.05, 0.1, 0.3, 1):
        cells = [f"{p}", f"{float(design.expected_draws(p)):,.0f}"]
        for k in (1, 16, 256):
            sds = [
                100 * float(own.draw_moments(k=k, success_rate=p)[1]) ** 0.5
                for own in (design, fixed)
            ]
            cells.append("{:.1f} ({:.1f})".format(*sds))
        assert f"| {' | '.join(cells)} |" in page
    assert design.pass_at_k(n_drawn=64, n_correct=8, k=16) == pytest.approx(0.9147, abs=1e-3)
