"""Unbiased pass@k from counts: the estimator of Chen et al. 2021, exact to the last digit.

The table of all n + 1 possible values is built once for a pair (n, k) and then looked up, so that
millions of rows cost one gather. Nothing here knows about files, graders or sweeps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=256)
def pass_at_k_table(n_samples: int, k: int) -> NDArray[np.float64]:
    """pass@k for every possible number of correct draws; float64 [n_samples + 1], read-only.

    1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, eq. 1), as the running product of
    (n - j - k) / (n - j), j = 0 .. c-1: no binomial is formed, so nothing overflows. All nan where
    n_samples < k, because then the estimator does not exist.
    """
    if n_samples < k:
        table = np.full(n_samples + 1, np.nan)
    else:
        j = np.arange(n_samples, dtype=np.longdouble)  # the wide type keeps the last digit right
        misses = np.cumprod(np.maximum(n_samples - j - k, 0) / (n_samples - j))
        table = np.concatenate(([0.0], 1 - misses)).astype(np.float64)
    table.setflags(write=False)
    return table


def pass_at_k(*, n_samples: Any, n_correct: Any, k: Any) -> Any:
    """Probability that at least one of k draws without replacement from n is correct.

    n_samples, n_correct, k: integers, or integer arrays that broadcast together (a row a problem).
    Returns a float for scalars, else float64 of the broadcast shape, as fractions in [0, 1]; nan
    where n_samples < k, never 1.0.
    Raises TypeError for values that are no integers and ValueError for counts outside
    0 <= n_correct <= n_samples or k < 1.

    >>> pass_at_k(n_samples=4, n_correct=1, k=2)
    0.5
    """
    n, c, kk = np.broadcast_arrays(
        _integers("n_samples", n_samples), _integers("n_correct", n_correct), _integers("k", k)
    )
    if n.size and (n.min() < 0 or c.min() < 0 or (c > n).any()):
        row = np.flatnonzero(((n < 0) | (c < 0) | (c > n)).ravel())[0]
        raise ValueError(
            f"n_correct={c.ravel()[row]} of n_samples={n.ravel()[row]}: counts must satisfy "
            "0 <= n_correct <= n_samples; count each draw once"
        )
    if kk.size and kk.min() < 1:
        raise ValueError(f"k={kk.min()}: k is a number of draws and must be at least 1")
    out = np.empty(n.shape)
    pairs, index = np.unique(np.stack([n.ravel(), kk.ravel()], 1), axis=0, return_inverse=True)
    flat, counts = out.reshape(-1), c.ravel()
    if len(pairs) == 1:
        flat[:] = pass_at_k_table(int(pairs[0, 0]), int(pairs[0, 1]))[counts]
    else:
        for i, (pair_n, pair_k) in enumerate(pairs):
            rows = np.flatnonzero(index.ravel() == i)
            flat[rows] = pass_at_k_table(int(pair_n), int(pair_k))[counts[rows]]
    return float(out[()]) if out.ndim == 0 else out


def _integers(name: str, value: Any) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}={value!r}: must be an integer or an integer array")
    return array.astype(np.int64)
