"""How far tests and intervals keep what they promise, on planted truths.

    python -m tests.calibration

Problems have success rates from a skewed Beta distribution; a training run shifts all of them by
one normal amount in log-odds and each by one of its own, so that runs differ as wholes and problem
by problem. The truth of an interval is the difference over all problems and all runs.
`tests/stats/test_calibration.py` holds the bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fgrpo_bench.stats.intervals import DIFFERENCES, estimate
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.power import smallest_effect
from fgrpo_bench.stats.significance import TestResult, draws_test, subsampling_test
from fgrpo_bench.stats.variance import draw_moments
from tests.support.hierarchical import hierarchical_interval

N, PROBLEMS = 256, 100
SEED_SPREAD, OWN_SPREAD, EFFECT = 0.25, 0.5, 0.3
"""Standard deviations of the shifts in log-odds, and the new method's own shift."""


TIMES = 1_000
"""Simulations of each."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A share that was found beside the share that was promised."""

    what: str
    promised: float
    found: float
    times: int


def rates(rng: np.random.Generator, n_problems: int) -> np.ndarray:
    """Success rates of problems under the base method."""
    return np.clip(rng.beta(0.25, 1.5, n_problems), 1e-6, 1 - 1e-6)


def runs(rng: np.random.Generator, base: np.ndarray, *, n_seeds: int, shift: float) -> np.ndarray:
    """Success rates of trained models, [seeds, problems]."""
    own = rng.normal(0, OWN_SPREAD, (n_seeds, len(base)))
    log_odds = np.log(base / (1 - base)) + shift + rng.normal(0, SEED_SPREAD, (n_seeds, 1)) + own
    return 1 / (1 + np.exp(-log_odds))


TESTS: dict[str, Callable[..., TestResult]] = {
    "paper's subsampling test": partial(subsampling_test, subsample=N // 4),
    "the same, rescaled": partial(subsampling_test, subsample=N // 4, rescaled=True),
    "test of the draws": draws_test,
}


def size_of_tests(k: int, times: int) -> list[Finding]:
    """How often each test rejects at 5% where both models are equal on every problem."""
    rng = np.random.default_rng([k, 1])
    base = rates(rng, PROBLEMS)
    pairs = ((rng.binomial(N, base), rng.binomial(N, base)) for _ in range(times))
    return _rejected("size", 0.05, k, times, pairs)


def power_of_tests(k: int, times: int) -> list[Finding]:
    """How often each test finds the smallest effect, where every problem is the worst."""
    rng = np.random.default_rng([k, 2])
    grid = np.linspace(1e-4, 0.9, 4_000)
    worst = grid[draw_moments(n_samples=N, k=k, success_rate=grid)[1].argmax()]
    effect = smallest_effect(n_samples=N, k=k, n_problems=PROBLEMS)
    at = 1 - (1 - worst) ** k
    better = 1 - (1 - min(1.0, at + effect)) ** (1 / k)
    pairs = (
        (rng.binomial(N, worst, PROBLEMS), rng.binomial(N, better, PROBLEMS)) for _ in range(times)
    )
    return _rejected("power at the smallest effect", 0.8, k, times, pairs)


def _rejected(
    what: str, promised: float, k: int, times: int, pairs: Iterable[tuple[np.ndarray, np.ndarray]]
) -> list[Finding]:
    rejected = dict.fromkeys(TESTS, 0)
    for old, new in pairs:
        for name, test in TESTS.items():
            rejected[name] += test(old=old, new=new, n_samples=N, k=k).p_value < 0.05
    return [
        Finding(what=f"{what}, {name}, k={k}", promised=promised, found=count / times, times=times)
        for name, count in rejected.items()
    ]


def coverage_of_intervals(k: int, n_seeds: int, times: int) -> list[Finding]:
    """How often a 95% interval of the difference holds the truth."""
    rng = np.random.default_rng([k, n_seeds, 3])
    truth = _truth(k)
    held = {"problems and seeds": 0, "problems, seeds and draws": 0}
    for i in range(times):
        base = rates(rng, PROBLEMS)
        old, new = (
            rng.binomial(N, runs(rng, base, n_seeds=n_seeds, shift=shift)) for shift in (0, EFFECT)
        )
        values = pass_at_k(n_samples=N, n_correct=new, k=k) - pass_at_k(
            n_samples=N, n_correct=old, k=k
        )
        (made,) = estimate(values[:, :, None], limits=DIFFERENCES)
        assert made.low is not None and made.high is not None
        held["problems and seeds"] += made.low <= truth <= made.high
        low, high = hierarchical_interval(
            old=old, new=new, n_samples=N, k=k, replicates=400, seed=i
        )
        held["problems, seeds and draws"] += low <= truth <= high
    return [
        Finding(
            what=f"coverage, bootstrap of {name}, {n_seeds} seeds, k={k}",
            promised=0.95,
            found=count / times,
            times=times,
        )
        for name, count in held.items()
    ]


def coverage_over_problems(k: int, times: int) -> Finding:
    """The same with one run of each method, for these runs over all problems."""
    rng = np.random.default_rng([k, 4])
    everything = rates(np.random.default_rng(9), 200_000)
    spread = np.random.default_rng(10).normal(0, OWN_SPREAD, (2, len(everything)))
    log_odds = np.log(everything / (1 - everything)) + spread + np.array([[0.0], [EFFECT]])
    both = 1 / (1 + np.exp(-log_odds))
    truth = float(((1 - both[0]) ** k - (1 - both[1]) ** k).mean())
    held = 0
    for _ in range(times):
        chosen = rng.integers(0, len(everything), PROBLEMS)
        old, new = rng.binomial(N, both[:, chosen])
        values = pass_at_k(n_samples=N, n_correct=new, k=k) - pass_at_k(
            n_samples=N, n_correct=old, k=k
        )
        (made,) = estimate(values[None, :, None], limits=DIFFERENCES)
        assert made.low is not None and made.high is not None
        held += made.low <= truth <= made.high
    what = f"coverage, paired bootstrap of problems, one run each, k={k}"
    return Finding(what=what, promised=0.95, found=held / times, times=times)


def _truth(k: int) -> float:
    rng = np.random.default_rng(11)
    base = rates(rng, 400_000)
    means = []
    for shift in (0.0, EFFECT):
        own = rng.normal(0, np.hypot(OWN_SPREAD, SEED_SPREAD), len(base))
        p = 1 / (1 + np.exp(-(np.log(base / (1 - base)) + shift + own)))
        means.append((1 - (1 - p) ** k).mean())
    return float(means[1] - means[0])


def study(times: int) -> list[Finding]:
    """Every finding; `times` simulations each."""
    found = [one for k in (1, 16, 64) for one in size_of_tests(k, times)]
    found += [one for k in (1, 16, 64) for one in power_of_tests(k, times)]
    found += [coverage_over_problems(k, times) for k in (1, 64)]
    for n_seeds in (2, 3, 10):
        found += [one for k in (1, 64) for one in coverage_of_intervals(k, n_seeds, times)]
    return found


def main() -> int:
    """Print the study as a Markdown table."""
    print("| what | promised | found | simulations |\n| :-- | --: | --: | --: |")
    for one in study(TIMES):
        print(f"| {one.what} | {one.promised:.3f} | {one.found:.3f} | {one.times:,} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
