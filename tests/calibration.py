"""How far tests and intervals keep what they promise, on planted truths.

    python -m tests.calibration

Problems have success rates from a skewed Beta distribution. A training run shifts all of them by
one normal amount in log-odds, stretches log-odds by another, and shifts each by one of its own, so
that runs differ as wholes, along k and problem by problem. The new method stretches more: better
for small k, worse for large ones. The truth is the difference over all problems and all runs.
`tests/stats/test_calibration.py` holds the bounds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from fgrpo_bench.analysis.bands import bands, first_losses
from fgrpo_bench.analysis.comparisons import Compared
from fgrpo_bench.analysis.read import Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.stats.intervals import DIFFERENCES, conclude, estimate
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.power import smallest_effect
from fgrpo_bench.stats.significance import TestResult, draws_test, subsampling_test
from fgrpo_bench.stats.variance import draw_moments

N, PROBLEMS = 256, 100
SEED_SPREAD, STRETCH_SPREAD, OWN_SPREAD = 0.25, 0.08, 0.5
"""Standard deviations of a run's shift of log-odds and of its stretch, and of each problem's."""
METHODS = {"old": (0.0, 1.0), "new": (1.2, 1.35)}
"""Mean shift and stretch. The new one loses from k = 22 on."""
BENCHMARKS = {"small": 30, "usual": PROBLEMS, "large": 200}
"""Problems of each; an average is over all three."""
KS = (1, 64, 128)
AVERAGE = "average"
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


def rates(rng: np.random.Generator, n_problems: int) -> np.ndarray:
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
        out.append(_rate(shifts + stretches * _log_odds(base) + own))
    return out


def _log_odds(rate: np.ndarray) -> np.ndarray:
    return np.log(rate / (1 - rate))


def _rate(log_odds: np.ndarray) -> np.ndarray:
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


def coverage_over_seeds(n_seeds: int, times: int) -> list[Finding]:
    """How often intervals hold the truth at one k, bands at every k, and sets the first loss."""
    rng = np.random.default_rng([n_seeds, 3])
    held = Counter(what for _ in range(times) for what in _held(simulated(rng, n_seeds)))
    return [
        Finding(
            what=f"coverage, {n_seeds} seeds, {what}",
            promised=0.95,
            found=count / times,
            times=times,
        )
        for what, count in sorted(held.items())
    ]


def _held(resamples: Resamples) -> Iterator[str]:
    """What holds the truth."""
    truth = true_differences()
    lost = int(np.flatnonzero(truth < 0)[0]) + 1
    pair = Compared(new=("new", 1), old=("old", 1), pair=None)
    for column, what in (("usual", "one benchmark"), (AVERAGE, "average of three")):
        together = resamples.difference(column, pair.new, pair.old)
        assert together is not None
        for k, made in zip(KS, conclude(together[1]), strict=True):
            assert made.low is not None and made.high is not None
            if made.low <= truth[k - 1] <= made.high:
                yield f"interval at k={k}, {what}"
        rows = list(bands(resamples, [pair], (column,), KS))
        if all(row.low <= truth[row.k - 1] <= row.high for row in rows):
            yield f"band over all k, {what}"
        (loss,) = first_losses(rows)
        if (loss.low or np.inf) <= lost <= (loss.high or np.inf):
            yield f"set of the first loss, {what}"


def simulated(rng: np.random.Generator, n_seeds: int) -> Resamples:
    """Both methods' runs, judged on all benchmarks."""
    bases = [rates(rng, n) for n in BENCHMARKS.values()]
    scores: dict[str, dict[tuple[str, int], Scores]] = {name: {} for name in BENCHMARKS}
    for method in METHODS:
        models = runs(rng, bases, n_seeds=n_seeds, method=method)
        for name, model in zip(BENCHMARKS, models, strict=True):
            scores[name][method, 1] = _judged(rng.binomial(N, model))
    return Resamples(scores, {AVERAGE: tuple(BENCHMARKS)})


def _judged(correct: np.ndarray) -> Scores:
    values = pass_at_k(n_samples=N, n_correct=correct[:, :, None], k=np.array(KS))
    n_seeds, n_problems = correct.shape
    return Scores(
        seeds=tuple(range(n_seeds)),
        problems=tuple(map(str, range(n_problems))),
        present=np.ones(correct.shape, bool),
        values=values,
        bounds=np.stack([values, values]),
        n_scored=np.full(correct.shape, N),
        n_correct=correct,
        n_samples=(N,) * n_seeds,
    )


def coverage_over_problems(k: int, times: int) -> Finding:
    """How often an interval of one run of each method holds the difference over all problems."""
    rng = np.random.default_rng([k, 4])
    everything = rates(np.random.default_rng(9), 200_000)
    own = np.random.default_rng(10).normal(0, OWN_SPREAD, (2, len(everything)))
    shifts, stretches = np.array(list(METHODS.values()))[:, :, None].transpose(1, 0, 2)
    both = _rate(shifts + stretches * _log_odds(everything) + own)
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
    what = f"coverage, one run each, interval over problems, k={k}"
    return Finding(what=what, promised=0.95, found=held / times, times=times)


@lru_cache(maxsize=1)
def true_differences() -> np.ndarray:
    """pass@k of the new method less that of the old one, at every k up to the largest, [ks]."""
    from scipy.stats import beta

    quantiles = (np.arange(20_000) + 0.5) / 20_000
    base = np.clip(beta.ppf(quantiles, 0.25, 1.5), 1e-6, 1 - 1e-6)[:, None]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    log_odds, means = _log_odds(base), []
    spread = np.sqrt(SEED_SPREAD**2 + (STRETCH_SPREAD * log_odds) ** 2 + OWN_SPREAD**2)
    for shift, stretch in METHODS.values():
        misses = 1 - _rate(shift + stretch * log_odds + spread * nodes)
        left, by_k = np.ones_like(misses), []
        for _ in range(KS[-1]):
            left *= misses
            by_k.append(1 - (left @ weights).mean() / weights.sum())
        means.append(by_k)
    return np.subtract(means[1], means[0])


def study(times: int) -> list[Finding]:
    """Every finding; `times` simulations each."""
    found = [one for k in (1, 16, 64) for one in size_of_tests(k, times)]
    found += [one for k in (1, 16, 64) for one in power_of_tests(k, times)]
    found += [coverage_over_problems(k, times) for k in (1, 64)]
    for n_seeds in (2, 3, 5, 10):
        found += coverage_over_seeds(n_seeds, times)
    return found


def main() -> int:
    """Print the study as a Markdown table."""
    print("| what | promised | found | its Monte Carlo error |\n| :-- | --: | --: | --: |")
    for one in study(TIMES):
        print(
            f"| {one.what} | {one.promised:.3f} | {one.found:.3f} | {one.error:.3f} |", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
