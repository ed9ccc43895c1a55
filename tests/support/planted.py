"""Models with planted truths, for what is measured over many simulations.

Problems have success rates from a skewed Beta distribution. A training run shifts all of them by
one normal amount in log-odds, stretches log-odds by another, and shifts each by one of its own, so
that runs differ as wholes, along k and problem by problem. The new method stretches more: better
for small k, worse for large ones. The truth is the difference over all problems and all runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

N, PROBLEMS = 256, 100
SEED_SPREAD, STRETCH_SPREAD, OWN_SPREAD = 0.25, 0.08, 0.5
"""Standard deviations of a run's shift of log-odds and of its stretch, and of each problem's."""
METHODS = {"old": (0.0, 1.0), "new": (1.2, 1.35)}
"""Mean shift and stretch. The new one loses from k = 22 on."""
KS = (1, 64, 128)
TIMES = 1_000
"""Simulations of each."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A share that was found beside the share that was promised."""

    what: str
    promised: float
    found: float
    times: int

    @property
    def error(self) -> float:
        """Standard error of `found` over simulations, were the promise kept exactly."""
        return float(np.sqrt(self.promised * (1 - self.promised) / self.times))


def rates(rng: np.random.Generator, n_problems: int | tuple[int, ...]) -> np.ndarray:
    """Success rates of problems under the base method."""
    return np.clip(rng.beta(0.25, 1.5, n_problems), 1e-6, 1 - 1e-6)


def runs(rng: np.random.Generator, bases: list[np.ndarray], *, n_seeds: int, method: str) -> list:
    """Success rates of trained models on every benchmark, [seeds, problems] each."""
    shift, stretch = METHODS[method]
    shifts = shift + rng.normal(0, SEED_SPREAD, (n_seeds, 1))
    stretches = stretch + rng.normal(0, STRETCH_SPREAD, (n_seeds, 1))
    out = []
    for base in bases:
        own = rng.normal(0, OWN_SPREAD, (n_seeds, len(base)))
        out.append(rate_of(shifts + stretches * log_odds(base) + own))
    return out


def log_odds(rate: np.ndarray) -> np.ndarray:
    return np.log(rate / (1 - rate))


def rate_of(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-log_odds))


@lru_cache(maxsize=1)
def population() -> np.ndarray:
    """Success rates on very many problems of one run of each method, [methods, problems]."""
    everything = rates(np.random.default_rng(9), 200_000)
    own = np.random.default_rng(10).normal(0, OWN_SPREAD, (2, len(everything)))
    shifts, stretches = np.array(list(METHODS.values()))[:, :, None].transpose(1, 0, 2)
    return rate_of(shifts + stretches * log_odds(everything) + own)


@lru_cache(maxsize=1)
def true_differences() -> np.ndarray:
    """pass@k of the new method less that of the old one, at every k up to the largest, [ks]."""
    from scipy.stats import beta

    quantiles = (np.arange(20_000) + 0.5) / 20_000
    base = np.clip(beta.ppf(quantiles, 0.25, 1.5), 1e-6, 1 - 1e-6)[:, None]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    known, means = log_odds(base), []
    spread = np.sqrt(SEED_SPREAD**2 + (STRETCH_SPREAD * known) ** 2 + OWN_SPREAD**2)
    for shift, stretch in METHODS.values():
        misses = 1 - rate_of(shift + stretch * known + spread * nodes)
        left, by_k = np.ones_like(misses), []
        for _ in range(KS[-1]):
            left *= misses
            by_k.append(1 - (left @ weights).mean() / weights.sum())
        means.append(by_k)
    return np.subtract(means[1], means[0])
