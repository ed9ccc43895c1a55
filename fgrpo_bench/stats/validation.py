"""pass@k for a trainer's validation loop, under the ks that verl logs `best@k` for.

verl 0.9.1 draws k of a problem's n rollouts with replacement, 1,000 times, and takes the best. That
misses a right one which is there: with 1 right of 4 it gives 1 - (3/4)^4 = 0.68 for k = 4. Here k
are drawn without replacement, in closed form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fgrpo_bench.stats.passk import pass_at_ks


def validation_metrics(correct: ArrayLike) -> dict[str, float]:
    """`mean@n` and `pass@k` for k = 2, 4, ... below n, and n, as fractions over all problems.

    correct: [problems, n], 1 or True for a right rollout and 0 or False for a wrong one. The
    estimate of pass@k is unbiased (Chen et al. 2021, arXiv 2107.03374, eq. 1). ValueError for
    another shape or other values, for no problem and no rollout.

    >>> validation_metrics([[1, 0, 0, 0], [1, 1, 1, 0]])
    {'mean@4': 0.5, 'pass@2': 0.75, 'pass@4': 1.0}
    """
    values = np.asarray(correct, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"correct of shape {list(values.shape)}: must be [problems, n], one and more of both"
        )
    if not np.isin(values, (0, 1)).all():
        other = values[~np.isin(values, (0, 1))][0]
        raise ValueError(
            f"correct holds {other:g}: must be 0 or 1 for each rollout; leave out problems with "
            "rollouts that were not graded"
        )
    n_problems, n = values.shape
    ks = (*(2**i for i in range(1, (n - 1).bit_length())), *((n,) if n > 1 else ()))
    totals = np.full(n_problems, n)
    by_k = pass_at_ks(totals, values.sum(1).astype(np.int64), ks).mean(0) if ks else ()
    means = zip(ks, by_k, strict=True)
    return {f"mean@{n}": float(values.mean()), **{f"pass@{k}": float(v) for k, v in means}}
