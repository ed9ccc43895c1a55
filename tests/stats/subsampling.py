"""The paired m-out-of-n subsampling test of pass@k (F-GRPO, arXiv 2602.06717, app. Q), to be
compared with the test of the draws.

Of n draws of a problem m are taken without replacement, pass@k of both models is averaged over
problems, and the difference is looked at over many such choices; here in closed form. It is
conservative: its spread is that of m draws with a finite-population factor, sqrt((n - m) / m) times
that of the n draws that were made, 1.73 times for n = 1,024, m = 256 and k far below m.
`rescaled=True` scales each problem's variance to that of its n draws, so that the size is right at
every k.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import draw_moments, log_choose, pass_at_k_table
from fgrpo_bench.stats.significance import TestResult, normal_result


def subsampling_test(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: int,
    k: int,
    subsample: int,
    rescaled: bool = False,
) -> TestResult:
    """By mean and variance of a subsample's pass@k, normal tails, and a continuity correction where
    the difference is on a lattice: of 1 / problems for k = m, of 1 / (m problems) for k = 1.

    old, new: correct draws of every problem. subsample: m. rescaled: see the top of the module.
    """
    mean, variance = subsample_moments(n_samples, subsample, k)
    a, b = np.asarray(old), np.asarray(new)
    if rescaled:
        variance = variance * rescaling(n_samples, subsample, k)
    sd = math.sqrt(variance[a].sum() + variance[b].sum()) / len(a)
    step = 0.0 if rescaled else _lattice(k, subsample) / len(a)
    return normal_result(float((mean[b] - mean[a]).mean()), sd, len(a), half_step=step / 2)


def _lattice(k: int, subsample: int) -> float:
    """The step of which a subsample's pass@k is a multiple: its correct draws are counted at k = 1,
    and it holds one or none at k = m; 0 between, where the steps differ."""
    return 1.0 if k == subsample else 1 / subsample if k == 1 else 0.0


@lru_cache(maxsize=64)
def subsample_moments(
    n_samples: int, subsample: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of pass@k of a subsample, for every number of correct draws; each [n + 1].

    The correct draws of m out of n are hypergeometric. The mean is pass@k of all n draws exactly,
    because a subsample of a subsample is one.
    """
    h, c = np.arange(subsample + 1)[None, :], np.arange(n_samples + 1)[:, None]
    log = log_choose(c, h) + log_choose(n_samples - c, subsample - h)
    log -= log.max(axis=1, keepdims=True)
    weights = np.exp(log)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = pass_at_k_table(n_samples, k)
    deviation = pass_at_k_table(subsample, k)[None, :] - mean[:, None]
    variance = np.einsum("ch,ch->c", weights, deviation * deviation)
    variance[[0, -1]] = 0.0
    return mean, variance


@lru_cache(maxsize=64)
def rescaling(n_samples: int, subsample: int, k: int) -> NDArray[np.float64]:
    """What the variance of a subsample's pass@k is multiplied by to be that of all n draws, for
    every number of correct draws; [n + 1].

    With V_n the variance of n draws at a success rate, that of a subsample of given draws is
    V_m - V_n on average, so the factor is V_n / (V_m - V_n) at the rate c / n. For k far below m it
    is the finite-population m / (n - m) (Politis and Romano 1994); near m it is less.
    """
    factor = np.full(n_samples + 1, subsample / (n_samples - subsample))
    rate = np.arange(1, n_samples) / n_samples
    of_all, of_some = (
        draw_moments(n_samples=n, k=k, success_rate=rate)[1] for n in (n_samples, subsample)
    )
    varied = of_some > of_all  # both are 0 to the last digit where success is all but certain
    inner = factor[1:-1]
    inner[varied] = of_all[varied] / (of_some - of_all)[varied]
    return factor
