"""Is a difference in pass@k more than the luck of the draws? Tests from counts of correct draws.

Two models answered the same problems, each with its own draws. Every test here takes the models and
the problems as given and asks about the draws alone; `fgrpo_bench.stats.intervals` asks about
problems and training seeds too.

- `subsampling_test`: paired m-out-of-n subsampling (F-GRPO, arXiv 2602.06717, app. Q): of n draws
  of a problem m are taken without replacement, pass@k of both models is averaged over problems,
  and the difference is looked at over many such choices. In closed form (default), by seeded
  Monte Carlo (the reference), or exactly where k = m. It is conservative: its spread is that of m
  draws with a finite-population factor, sqrt((n - m) / m) times that of the n draws that were
  made, 1.73 times for n = 1,024, m = 256 and k far below m. `rescaled=True` scales each problem's
  variance to that of its n draws, so that the size is right at every k.
- `draws_test`: the same question with the variance of the n draws estimated without bias, so that
  its size is right at every k with 2k <= n; also of draws that stop by a `StagedDesign`.

p-values of many cells are corrected together by `fgrpo_bench.stats.multiplicity`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.stats.subsamples import Subsamples
from fgrpo_bench.stats.variance import draw_variance, rescaling, subsample_moments

SUBSAMPLE = 256
"""m of the published test."""
ITERATIONS = 50_000
"""Of the published test."""
SEED = 0
CHUNK = 5_000
"""Monte Carlo iterations at once: bounds the memory."""

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


def subsampling_test(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: ArrayLike,
    k: int,
    subsample: int = SUBSAMPLE,
    method: Literal["moments", "monte_carlo", "exact"] = "moments",
    rescaled: bool = False,
    iterations: int = ITERATIONS,
    seed: int = SEED,
    design: Designs = None,
) -> TestResult:
    """The paired m-out-of-n subsampling test.

    old, new: correct draws of a problem, integers [problems], in one order. n_samples: draws of a
    problem, an integer, or [problems], or a pair of those for old and new. subsample: m, at most
    every n. method: moments (closed-form mean and variance, normal tails, a continuity correction
    where the difference is on a lattice: of 1 / problems for k = m, of 1 / (m problems) for k = 1;
    an approximation for few problems), monte_carlo (the definition, `iterations` times by
    hypergeometric counts, p-values (b + 1) / (B + 1)), exact (k = m only: a difference of
    Poisson-binomial variables). rescaled: see the top of the module; moments only. design: as of
    `draws_test`; draws that stop have no subsamples.
    Raises ValueError for k > m, m > n, counts outside 0 .. n, no problems, a method that does not
    fit, or a design of several stages.
    """
    for own in design if isinstance(design, tuple) else (design,):
        if own is not None and len(own.stages) > 1:
            raise ValueError(
                f"stages={own.stages}, enough={own.enough}: a subsample is of a fixed number of "
                "draws, and a problem that stopped has more correct ones among them than others; "
                "use draws_test, or judge a fixed number of draws"
            )
    (a, n_a), (b, n_b) = _sides(old, new, n_samples)
    least = int(min(n_a.min(), n_b.min()))
    if not 1 <= k <= subsample <= least:
        raise ValueError(
            f"k={k}, subsample={subsample}, fewest draws of a problem {least}: must satisfy "
            "1 <= k <= subsample <= draws; take a smaller subsample or k, or draw more"
        )
    if rescaled and (method != "moments" or subsample == least):
        raise ValueError(
            f"rescaled with method={method}, subsample={subsample}, n_samples={least}: the "
            "rescaled test needs method=moments and fewer draws taken than made"
        )
    if method == "exact":
        if k != subsample:
            raise ValueError(
                f"method=exact with k={k} and subsample={subsample}: exact only where both are "
                "equal; use moments or monte_carlo"
            )
        return _exact(a, n_a, b, n_b, k)
    if method == "monte_carlo":
        return _monte_carlo(a, n_a, b, n_b, k, subsample, iterations, seed)
    mean_a, var_a = _looked_up(a, n_a, subsample, k)
    mean_b, var_b = _looked_up(b, n_b, subsample, k)
    if rescaled:
        var_a = var_a * _factors(a, n_a, subsample, k)
        var_b = var_b * _factors(b, n_b, subsample, k)
    difference = float((mean_b - mean_a).mean())
    sd = math.sqrt(var_a.sum() + var_b.sum()) / len(a)
    step = _lattice(k, subsample) / len(a)
    return _normal(difference, sd, len(a), half_step=0.0 if rescaled else step / 2)


def _lattice(k: int, subsample: int) -> float:
    """The step of which a subsample's pass@k is a multiple: its correct draws are counted at k = 1,
    and it holds one or none at k = m; 0 between, where the steps differ."""
    return 1.0 if k == subsample else 1 / subsample if k == 1 else 0.0


def draws_test(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: ArrayLike,
    k: int,
    design: Designs = None,
) -> TestResult:
    """Normal test of a difference in pass@k with the draws' own variance.

    Arguments as of `subsampling_test`. The variance of a problem's pass@k is estimated without
    bias (`draw_variance`), so nothing is resampled. design: that of both models, or a pair of those
    for old and new; None is a fixed number of draws, else n_samples are the draws after which each
    problem stopped. Raises ValueError where 2k > n, of a design its last stage: no unbiased
    estimate exists then.
    """
    designs = design if isinstance(design, tuple) else (design, design)
    sides = _sides(old, new, n_samples)
    (mean_a, var_a), (mean_b, var_b) = (
        _estimated(c, n, k, own) for (c, n), own in zip(sides, designs, strict=True)
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
    """Normal test of a mean of independent differences whose variances are known, [problems]
    each."""
    n = len(differences)
    return _normal(float(differences.mean()), math.sqrt(variances.sum()) / n, n, half_step=0.0)


def _sides(
    old: ArrayLike, new: ArrayLike, n_samples: ArrayLike
) -> tuple[tuple[Counts, Counts], tuple[Counts, Counts]]:
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


def _looked_up(
    c: Counts, n: Counts, subsample: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, variance = np.empty(len(c)), np.empty(len(c))
    for total in np.unique(n).tolist():
        rows = n == total
        tables = subsample_moments(total, subsample, k)
        mean[rows], variance[rows] = tables[0][c[rows]], tables[1][c[rows]]
    return mean, variance


def _factors(c: Counts, n: Counts, subsample: int, k: int) -> NDArray[np.float64]:
    factors = np.empty(len(c))
    for total in np.unique(n).tolist():
        rows = n == total
        factors[rows] = rescaling(total, subsample, k)[c[rows]]
    return factors


def _normal(difference: float, sd: float, n_problems: int, *, half_step: float) -> TestResult:
    if sd == 0:
        p = 1.0 if difference == 0 else 0.0
        return TestResult(difference=difference, sd=0.0, p_value=p, p_tie=p, n_problems=n_problems)
    tail = 0.5 * math.erfc((abs(difference) - half_step) / sd / math.sqrt(2))
    return TestResult(
        difference=difference, sd=sd, p_value=min(1.0, 2 * tail), p_tie=0.0, n_problems=n_problems
    )


def _exact(a: Counts, n_a: Counts, b: Counts, n_b: Counts, k: int) -> TestResult:
    """k = m: a subsample's pass@k is 1 where it holds a correct draw, so each mean is a
    Poisson-binomial number of problems over the number of problems."""
    q_a = np.atleast_1d(pass_at_k(n_samples=n_a, n_correct=a, k=k))
    q_b = np.atleast_1d(pass_at_k(n_samples=n_b, n_correct=b, k=k))
    distribution = np.ones(1)  # of solved by new minus solved by old, from -problems up
    for q in (*q_b, *(1 - q_a)):
        distribution = np.convolve(distribution, (1 - q, q))
    zero = len(q_a)  # 1 - q_a counts the problems that old misses
    below, above = distribution[: zero + 1].sum(), distribution[zero:].sum()
    variance = (q_a * (1 - q_a)).sum() + (q_b * (1 - q_b)).sum()
    return TestResult(
        difference=float((q_b - q_a).mean()),
        sd=math.sqrt(variance) / zero,
        p_value=float(min(1.0, 2 * min(below, above))),
        p_tie=float(distribution[zero]),
        n_problems=zero,
    )


def _monte_carlo(
    a: Counts, n_a: Counts, b: Counts, n_b: Counts, k: int, m: int, iterations: int, seed: int
) -> TestResult:
    rng = np.random.default_rng(seed)
    sides = [Subsamples(c, n, m, k) for c, n in ((b, n_b), (a, n_a))]
    differences = np.concatenate(
        [
            sides[0].means(times, rng) - sides[1].means(times, rng)
            for times in [min(CHUNK, iterations - done) for done in range(0, iterations, CHUNK)]
        ]
    )
    rounded = np.round(differences, 12)  # sums of equal terms in another order are equal
    low, high = int((rounded <= 0).sum()), int((rounded >= 0).sum())
    return TestResult(
        difference=float(differences.mean()),
        sd=float(differences.std(ddof=1)),
        p_value=min(1.0, 2 * (min(low, high) + 1) / (iterations + 1)),
        p_tie=float((rounded == 0).mean()),
        n_problems=len(a),
    )
