"""How far tests and intervals keep what they promise, on planted truths.

    python -m tests.calibration              # all of it, about an hour on one core
    python -m tests.calibration families     # one part, of those that --help lists

The truths are those of `tests.support.planted`; what draws that stop do to them is measured by
`tests.staged_calibration`, what few seeds, ends near 0 and 100% and clusters do by
`tests.few_seeds_calibration`, and comparisons at equal pass@1 by `tests.path_calibration`.
`tests/stats/test_calibration.py` holds the bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from fgrpo_bench.analysis.checkpoints import Scores
from fgrpo_bench.analysis.comparisons import Resamples, bands, first_losses, p_over_draws
from fgrpo_bench.analysis.question import Compared
from fgrpo_bench.stats.intervals import DIFFERENCES, conclude, estimate
from fgrpo_bench.stats.passk import draw_moments, pass_at_k
from fgrpo_bench.stats.power import smallest_effect
from fgrpo_bench.stats.significance import TestResult, draws_test
from fgrpo_bench.stats.staged import fixed_design
from tests import few_seeds_calibration as few_seeds
from tests import path_calibration, staged_calibration
from tests.stats.subsampling import subsampling_test
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
    effect = smallest_effect(design=fixed_design(N), k=k, n_problems=PROBLEMS)
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
            scores[name][method, 1] = judged(rng.binomial(N, model))
    return Resamples(scores, {AVERAGE: tuple(BENCHMARKS)})


def judged(correct: np.ndarray, n: int = N, ks: tuple[int, ...] = KS) -> Scores:
    values = pass_at_k(n_samples=n, n_correct=correct[:, :, None], k=np.array(ks))
    n_seeds, n_problems = correct.shape
    return Scores(
        seeds=tuple(range(n_seeds)),
        problems=tuple(map(str, range(n_problems))),
        cluster_names=(None,) * n_problems,
        present=np.ones(correct.shape, bool),
        values=values,
        bounds=np.stack([values, values]),
        n_scored=np.full(correct.shape, n),
        n_correct=correct,
        n_drawn=np.full(correct.shape, n),
        n_unscored=(np.zeros((n_problems, 1), int),) * n_seeds,
        unfinished=np.full((3, *correct.shape), -1),
        designs=(fixed_design(n),) * n_seeds,
        is_shared_across_seeds=False,
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


def size_with_shared_streams(k: int, times: int) -> list[Finding]:
    """How often `p_draws` is below 5% where both cells are equal on every problem: of three seeds
    whose cells share random numbers, and of one base model that all three are compared with."""
    rng = np.random.default_rng([k, 36])
    n, shape = 512, (3, PROBLEMS)
    low = {"cells of a seed share their random numbers": 0, "a base model that is drawn once": 0}
    for _ in range(times):
        rate = rates(rng, PROBLEMS)
        # Half of the draws fall by the same random number in both cells, half by others.
        both = rng.binomial(n // 2, rate, shape)
        old, new, alone = (
            judged(correct, n, (k,))
            for correct in (
                both + rng.binomial(n - n // 2, rate, shape),
                both + rng.binomial(n - n // 2, rate, shape),
                rng.binomial(n, rate, shape),
            )
        )
        once = np.broadcast_to(rng.binomial(n, rate), shape)
        base = replace(judged(once, n, (k,)), is_shared_across_seeds=True)
        for what, pair in zip(low, ((new, old), (alone, base)), strict=True):
            (p,) = p_over_draws(pair, [cell.draw_variance(k)[None] for cell in pair])
            low[what] += p is not None and p < 0.05
    return [
        Finding(what=f"size, p of the draws, {what}, k={k}", promised=0.05, found=count / times,
                times=times)
        for what, count in low.items()
    ]  # fmt: skip


def draws(times: int) -> list[Finding]:
    """Tests of the draws."""
    found = [one for k in (1, 16, 64) for one in size_of_tests(k, times)]
    found += [one for k in (1, 16, 64) for one in power_of_tests(k, times)]
    return found + [one for k in (1, 16, 256) for one in size_with_shared_streams(k, times)]


def seeds(times: int) -> list[Finding]:
    """Intervals, bands and first losses on the main truths, and where seeds are uneven."""
    found = [coverage_over_problems(k, times) for k in (1, 64)]
    for n_seeds in (2, 3, 5, 10):
        found += coverage_over_seeds(n_seeds, times)
    return found + [one for n in (2, 3, 5) for one in few_seeds.uneven_seeds(n, times=times)]


def clusters(times: int) -> list[Finding]:
    """Intervals where problems share their difficulty."""
    return [
        one
        for (n_clusters, size, singles), n_seeds in product(
            ((50, 5, 0), (200, 5, 0), (6, 20, 136)), (2, 3, 5)
        )
        for one in few_seeds.with_clusters(n_clusters, size, n_seeds, times=times, singles=singles)
    ]


PARTS = {
    "draws": draws,
    "seeds": seeds,
    "clusters": clusters,
    "staged": staged_calibration.study,
    "paths": path_calibration.study,
}


def print_families() -> None:
    """Print the shares of families of true nulls with anything significant."""
    print("\n| world | problems | comparisons | seeds | significant | its error | degrees of 95% |")
    print("| :-- | --: | --: | --: | --: | --: | --: |")
    for world, n_problems, n_seeds in product(few_seeds.WORLDS, (256, 30), few_seeds.SEEDS):
        for one in few_seeds.false_significant(world, n_seeds, n_problems):
            print(
                f"| {world} | {n_problems} | {one.n_comparisons} | {n_seeds} | {one.found:.3f} "
                f"| {one.error:.3f} | {one.former:.3f} |",
                flush=True,
            )
    print("\n| power, seeds / left | comparisons | seeds | of the rule | degrees of 95% |")
    print("| --: | --: | --: | --: | --: |")
    for ratio, size, n_seeds in product((0.3, 2.0, 7.0), (4, 44), (5, 10)):
        ours, former = few_seeds.power_in_a_family(n_seeds, size, ratio)
        print(f"| {ratio:g} | {size} | {n_seeds} | {ours:.3f} | {former:.3f} |", flush=True)


def print_repetitions(times: int) -> None:
    """Print how often a sweep of two comparisons and its repetition say the same."""
    print("\n| spread of the seeds | seeds | both verdicts | each verdict | chance that was said |")
    print("| :-- | --: | --: | --: | --: |")
    for spread, n_seeds in product(few_seeds.WORTH, (3, 5, 6, 8)):
        one = few_seeds.repetitions(spread, n_seeds, times)
        print(
            f"| {spread} | {n_seeds} | {one.both:.2f} | {one.each:.2f} | {one.said:.2f} |",
            flush=True,
        )


def print_ends(times: int) -> None:
    """Print what intervals hold near 0 and 100%: of all shapes, draws and seeds the worst, and
    medians of widths, in points."""
    print(
        "\n| problems | truth | k | cells | before | differences | before | width | before "
        "| most added |"
    )
    print("| --: | --: | :-- | --: | --: | --: | --: | --: | --: | --: |")
    every = list(few_seeds.ends(times))
    for n_problems, truth, is_1 in product((30, 256, 1_000), few_seeds.TRUTHS, (True, False)):
        rows = [
            one
            for one in every
            if (one.n_problems, one.truth, one.k == 1) == (n_problems, truth, is_1)
        ]
        worst = [
            f"{min(getattr(one, name) for one in rows):.3f}"
            for name in ("cells", "cells_before", "differences", "differences_before")
        ]
        widths = [
            f"{np.median([getattr(one, name) for one in rows]):.2f}"
            for name in ("width", "width_before")
        ]
        added = f"{max(one.most_added for one in rows):.2f}"
        k = "1" if is_1 else "n / 2"
        print(
            f"| {n_problems} | {100 * truth:g}% | {k} | {' | '.join([*worst, *widths, added])} |",
            flush=True,
        )
    # The least of many shares is low by chance as well.
    for one in every:
        if min(one.cells, one.differences) < 0.93:
            again = few_seeds.near_an_end(
                one.shape, one.truth, one.k, n=one.n_samples, n_problems=one.n_problems,
                n_seeds=one.n_seeds, times=10 * times,
            )  # fmt: skip
            print(f"\nagain, {10 * times} times: {again}", flush=True)


def main() -> int:
    """Print the study, or parts of it, as Markdown tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__)
    every = [*PARTS, "families", "repetitions", "ends"]
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(every)} (default: all)")
    parts = parser.parse_args().parts or every
    if unknown := [part for part in parts if part not in every]:
        parser.error(f"{unknown[0]} is no part: choose from {', '.join(every)}")
    if set(parts) & set(PARTS):
        print("| what | promised | found | its Monte Carlo error |\n| :-- | --: | --: | --: |")
    for name in [part for part in parts if part in PARTS]:
        for one in PARTS[name](TIMES):
            print(
                f"| {one.what} | {one.promised:.3f} | {one.found:.3f} | {one.error:.3f} |",
                flush=True,
            )
    if "staged" in parts:
        staged_calibration.print_bias(TIMES)
    if "paths" in parts:
        path_calibration.print_bias(TIMES)
    if "families" in parts:
        print_families()
    if "repetitions" in parts:
        print_repetitions(TIMES // 2)
    if "ends" in parts:
        print_ends(TIMES // 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
