"""Is a difference in pass@k more than the luck of the draws? Tests from counts of correct draws.

Two models answered the same problems. Every test here takes the models and the problems as given
and asks about the draws alone; `fgrpo_bench.stats.intervals` asks about problems and training seeds
too. The draws of both are taken as independent. Where they share random numbers, as cells of one
training seed do, both are lucky at once: the difference then varies less than the tests take it to,
and p is too large rather than too small.

`draws_test` estimates the variance of the n draws without bias, so that its size is right at every
k with 2k <= n; also of draws that stop by a `StagedDesign`. The published test, of a fixed
number of draws, is in `tests/stats/subsampling.py`, where the two are compared.

p-values of many comparisons are corrected together by `holm` and `benjamini_hochberg`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import draw_variance, pass_at_k
from fgrpo_bench.stats.staged import StagedDesign


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that bound the chance of any false rejection, however they depend (Holm
    1979, "A simple sequentially rejective multiple test procedure")."""
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    # the i-th smallest of m times m - i + 1, and no adjusted p below that of a smaller p
    raised = np.maximum.accumulate(np.asarray(p_values, dtype=float)[order] * factors)
    out = np.empty(len(p_values))
    out[order] = np.minimum(raised, 1.0)
    return [float(value) for value in out]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that bound the expected share of false rejections, for tests that are
    independent or positively dependent (Benjamini and Hochberg 1995)."""
    # As scipy.stats.false_discovery_control, to the last bit; importing that takes a second.
    order, m = np.argsort(p_values)[::-1], len(p_values)
    raised = np.asarray(p_values, dtype=float)[order] * (m / np.arange(m, 0, -1))
    out = np.empty(m)
    out[order] = np.minimum(np.minimum.accumulate(raised), 1.0)  # from the largest p downwards
    return [float(value) for value in out]


Counts = NDArray[np.int64]
Designs = StagedDesign | tuple[StagedDesign | None, StagedDesign | None] | None
"""Of both models, or of the old one and the new one; None is a fixed number of draws."""


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """A difference in pass@k between two models on the same problems."""

    difference: float
    """Mean over problems of pass@k of the new model minus that of the old one, a fraction."""
    sd: float
    """Standard deviation of the difference under the test's own randomness."""
    p_value: float
    """Two-sided: twice the smaller of P(D <= 0) and P(D >= 0), at most 1."""
    p_tie: float
    """P(D = 0); 0 where the test knows only a density."""
    n_problems: int

    __test__ = False  # no test class, whatever its name begins with


def draws_test(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: ArrayLike,
    k: int,
    design: Designs = None,
) -> TestResult:
    """Normal test of a difference in pass@k with the draws' own variance.

    old, new: correct draws of a problem, integers [problems], in one order. n_samples: draws of a
    problem, an integer, or [problems], or a pair of those for old and new. The variance of a
    problem's pass@k is estimated without bias (`draw_variance`), so nothing is resampled. design:
    that of both models, or a pair of those for old and new; None is a fixed number of draws, else
    n_samples are the draws after which each problem stopped. Raises ValueError where 2k > n, of a
    design its last stage: no unbiased estimate exists then.
    """
    designs = design if isinstance(design, tuple) else (design, design)
    sides = checked_sides(old, new, n_samples)
    (mean_a, var_a), (mean_b, var_b) = (
        _estimated(c, n, k, design) for (c, n), design in zip(sides, designs, strict=True)
    )
    return normal_test(mean_b - mean_a, var_a + var_b)


def _estimated(
    c: Counts, n: Counts, k: int, design: StagedDesign | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """pass@k and its variance over the draws, [problems] each."""
    if design is None:
        value = pass_at_k(n_samples=n, n_correct=c, k=k)
        return value, draw_variance(n_samples=n, n_correct=c, k=k)
    if reason := design.no_variance(k):
        raise ValueError(reason)
    value = design.pass_at_k(n_drawn=n, n_correct=c, k=k)
    return value, design.draw_variance(n_drawn=n, n_correct=c, k=k)


def normal_test(differences: NDArray[np.float64], variances: NDArray[np.float64]) -> TestResult:
    """Normal test of a mean of independent differences whose variances are known, one of each a
    problem, or a problem and seed."""
    n = len(differences)
    return normal_result(
        float(differences.mean()), math.sqrt(variances.sum()) / n, n, half_step=0.0
    )


def checked_sides(
    old: ArrayLike, new: ArrayLike, n_samples: ArrayLike | tuple[ArrayLike, ArrayLike]
) -> tuple[tuple[Counts, Counts], tuple[Counts, Counts]]:
    """Correct draws and draws of a problem, integers [problems], of the old model and of the new
    one; ValueError for what cannot be such."""
    pair = n_samples if isinstance(n_samples, tuple) else (n_samples, n_samples)
    sides = []
    for name, counts, n in (("old", old, pair[0]), ("new", new, pair[1])):
        c = np.asarray(counts)
        if c.ndim != 1 or not c.size or c.dtype.kind not in "iu":
            raise ValueError(
                f"{name}={counts!r}: must be integers [problems], at least one: correct draws"
            )
        total = np.broadcast_to(np.asarray(n, dtype=np.int64), c.shape)
        if np.any((c < 0) | (c > total)):
            raise ValueError(f"{name}: a problem has fewer than 0 or more than n correct draws")
        sides.append((c.astype(np.int64), total))
    if len(sides[0][0]) != len(sides[1][0]):
        raise ValueError(
            f"{len(sides[0][0])} old and {len(sides[1][0])} new problems: both models must be "
            "judged on the same ones, in one order"
        )
    return sides[0], sides[1]


def normal_result(difference: float, sd: float, n_problems: int, *, half_step: float) -> TestResult:
    """Of a normal variable. half_step: half the step of the lattice that it stands for; 0: none."""
    if sd == 0:
        p = 1.0 if difference == 0 else 0.0
        return TestResult(difference=difference, sd=0.0, p_value=p, p_tie=p, n_problems=n_problems)
    # continuity correction: a lattice value stands for half a step to either side
    tail = 0.5 * math.erfc((abs(difference) - half_step) / sd / math.sqrt(2))
    return TestResult(
        difference=difference, sd=sd, p_value=min(1.0, 2 * tail), p_tie=0.0, n_problems=n_problems
    )
