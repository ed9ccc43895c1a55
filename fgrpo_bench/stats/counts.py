"""Two models on the same problems, from counts of right draws alone: `compare_counts`.

In: how many draws of each problem were right. Out: the difference in pass@k as `fgrpo-bench
compare` gives it for one checkpoint each, with its interval and both p-values. The statistics are
those of `fgrpo_bench.stats.intervals` and `fgrpo_bench.stats.significance`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.intervals import estimate_difference
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.significance import checked_sides, draws_test


@dataclass(frozen=True, kw_only=True)
class CountsComparison:
    """pass@k of a new model minus that of an old one, over problems; fractions."""

    old: float
    """pass@k of the old model, the mean over problems, as `new`."""
    new: float
    difference: float
    low: float | None
    """Of the 95% interval over problems, as `high`; None with fewer than two."""
    high: float | None
    p_value: float | None
    """Two-sided, of no difference over problems; goes with the interval. None likewise."""
    p_draws: float | None
    """Were these problems all there is: of the luck of the draws alone. None where 2k > n."""
    n_problems: int


def compare_counts(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: ArrayLike | tuple[ArrayLike, ArrayLike],
    k: int,
    clusters: ArrayLike | None = None,
) -> CountsComparison:
    """Is pass@k of the new model another one? Paired problem by problem.

    old, new: right draws of each problem, integers [problems], in one order. n_samples: draws of a
    problem, an integer or [problems]; a tuple of two is that of old and new. clusters: a value a
    problem, [problems], alike where problems have something in common, which are then resampled
    together; None where no two have. One training run each says nothing about other training runs.
    Raises ValueError for counts that are none, for sides of other problems, and for a k above n.

    >>> shown = compare_counts(old=[0, 1, 4, 2], new=[1, 3, 4, 4], n_samples=8, k=2)
    >>> round(shown.difference, 4), shown.n_problems
    (0.2411, 4)
    """
    (old_counts, n_old), (new_counts, n_new) = sides = checked_sides(old, new, n_samples)
    fewest = int(min(n_old.min(), n_new.min()))
    if not 1 <= k <= fewest:
        raise ValueError(f"k={k}: must be from 1 to {fewest}, the fewest draws of a problem")
    before, after = (pass_at_k(n_samples=n, n_correct=c, k=k)[None, :, None] for c, n in sides)
    estimate = estimate_difference(after, before, clusters=_numbered(clusters, len(old_counts)))[0]
    has_variance = 2 * k <= fewest
    n_draws = (n_old, n_new)
    return CountsComparison(
        old=float(before.mean()),
        new=float(after.mean()),
        difference=float((after - before).mean()),
        low=estimate.low,
        high=estimate.high,
        p_value=estimate.p_value,
        p_draws=draws_test(old=old_counts, new=new_counts, n_samples=n_draws, k=k).p_value
        if has_variance
        else None,
        n_problems=len(old_counts),
    )


def _numbered(clusters: ArrayLike | None, n_problems: int) -> NDArray[np.int64] | None:
    if clusters is None:
        return None
    values = np.asarray(clusters)
    if values.shape != (n_problems,):
        raise ValueError(
            f"clusters of shape {values.shape}: give a value for each of the {n_problems} problems"
        )
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
