"""How far tests and intervals keep what they promise, on planted truths.

    python -m tests.calibration

The truths are those of `tests.support.planted`; what draws that stop do to them is measured by
`tests.staged_calibration`. `tests/stats/test_calibration.py` holds the bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from fgrpo_bench.analysis.bands import bands, first_losses
from fgrpo_bench.analysis.comparisons import Compared
from fgrpo_bench.analysis.read import Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.points import Asked
from fgrpo_bench.stats.intervals import DIFFERENCES, conclude, estimate
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.power import smallest_effect
from fgrpo_bench.stats.significance import TestResult, draws_test
from fgrpo_bench.stats.subsampling import subsampling_test
from fgrpo_bench.stats.variance import draw_moments
from tests import staged_calibration
from tests.support.planted import (
    KS,
    METHODS,
    PROBLEMS,
    TIMES,
    Finding,
    N,
    population,
    rates,
    runs,
    true_differences,
)

BENCHMARKS = {"small": 30, "usual": PROBLEMS, "large": 200}
"""Problems of each; an average is over all three."""
AVERAGE = "average"

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
        cluster_names=(None,) * n_problems,
        present=np.ones(correct.shape, bool),
        values=values,
        bounds=np.stack([values, values]),
        n_scored=np.full(correct.shape, N),
        n_correct=correct,
        n_drawn=np.full(correct.shape, N),
        n_unscored=(None,) * n_seeds,
        asked=(Asked(n_samples=N, design=None),) * n_seeds,
        is_drawn_once=False,
        is_redesigned=(False,) * n_seeds,
    )


def coverage_over_problems(k: int, times: int) -> Finding:
    """How often an interval of one run of each method holds the difference over all problems."""
    rng = np.random.default_rng([k, 4])
    both = population()
    truth = float(((1 - both[0]) ** k - (1 - both[1]) ** k).mean())
    held = 0
    for _ in range(times):
        chosen = rng.integers(0, both.shape[1], PROBLEMS)
        old, new = rng.binomial(N, both[:, chosen])
        values = pass_at_k(n_samples=N, n_correct=new, k=k) - pass_at_k(
            n_samples=N, n_correct=old, k=k
        )
        (made,) = estimate(values[None, :, None], limits=DIFFERENCES)
        assert made.low is not None and made.high is not None
        held += made.low <= truth <= made.high
    what = f"coverage, one run each, interval over problems, k={k}"
    return Finding(what=what, promised=0.95, found=held / times, times=times)


def study(times: int) -> list[Finding]:
    """Every finding; `times` simulations each."""
    found = [one for k in (1, 16, 64) for one in size_of_tests(k, times)]
    found += [one for k in (1, 16, 64) for one in power_of_tests(k, times)]
    found += [coverage_over_problems(k, times) for k in (1, 64)]
    for n_seeds in (2, 3, 5, 10):
        found += coverage_over_seeds(n_seeds, times)
    return found + staged_calibration.study(times)


def main() -> int:
    """Print the study as Markdown tables."""
    argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__).parse_args()
    print("| what | promised | found | its Monte Carlo error |\n| :-- | --: | --: | --: |")
    for one in study(TIMES):
        print(
            f"| {one.what} | {one.promised:.3f} | {one.found:.3f} | {one.error:.3f} |", flush=True
        )
    staged_calibration.print_bias(TIMES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
