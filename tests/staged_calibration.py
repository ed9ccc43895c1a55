"""What draws that stop do to pass@k, its intervals and the test of the draws, on planted truths.

A part of `python -m tests.calibration`: the same models and problems as there, each problem drawn
until a design stops it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fgrpo_bench import StagedDesign, pass_at_k
from fgrpo_bench.stats.intervals import DIFFERENCES, estimate
from fgrpo_bench.stats.significance import draws_test
from tests.support.planted import (
    KS,
    METHODS,
    PROBLEMS,
    Finding,
    N,
    population,
    rates,
    runs,
    true_differences,
)

FIXED = StagedDesign(stages=(N,), enough=1)
DOUBLING = StagedDesign(stages=(16, 32, 64, 128, N), enough=4)
TWO_STAGES = StagedDesign(stages=(64, N), enough=8)
PAIRS = {
    "staged": (DOUBLING, DOUBLING),
    "fixed against staged": (FIXED, DOUBLING),
    "two designs": (TWO_STAGES, DOUBLING),
}
"""Designs of the old and of the new method."""


def drawn(
    rng: np.random.Generator, design: StagedDesign, rate: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws made and correct ones of problems of these success rates."""
    n, c = np.full(rate.shape, design.stages[0]), rng.binomial(design.stages[0], rate)
    for before, after in pairwise(design.stages):
        going = (n == before) & (c < design.enough)
        c += np.where(going, rng.binomial(after - before, rate), 0)
        n[going] = after
    return n, c


def scored(rng: np.random.Generator, design: StagedDesign, rate: np.ndarray) -> np.ndarray:
    """pass@k at every one of KS, [..., ks]."""
    n, c = drawn(rng, design, rate)
    return design.pass_at_k(n_drawn=n[..., None], n_correct=c[..., None], k=np.array(KS))


def size_of_draws_test(k: int, times: int) -> list[Finding]:
    """How often the test of the draws rejects at 5% where both models are equal."""
    found = []
    for place, (name, designs) in enumerate(PAIRS.items()):
        rng = np.random.default_rng([k, place, 5])
        base = rates(rng, PROBLEMS)
        count = 0
        for _ in range(times):
            (n_old, old), (n_new, new) = (drawn(rng, design, base) for design in designs)
            made = draws_test(old=old, new=new, n_samples=(n_old, n_new), k=k, design=designs)
            count += made.p_value < 0.05
        what = f"size, test of the draws, {name}, k={k}"
        found.append(Finding(what=what, promised=0.05, found=count / times, times=times))
    return found


def coverage_over_problems(k: int, times: int) -> list[Finding]:
    """How often an interval of one run of each method holds the difference over all problems."""
    both, column = population(), KS.index(k)
    truth = float(((1 - both[0]) ** k - (1 - both[1]) ** k).mean())
    found = []
    for place, (name, designs) in enumerate(PAIRS.items()):
        rng, held = np.random.default_rng([k, place, 6]), 0
        for _ in range(times):
            own = both[:, rng.integers(0, both.shape[1], PROBLEMS)]
            old, new = (scored(rng, *each)[:, column] for each in zip(designs, own, strict=True))
            (made,) = estimate((new - old)[None, :, None], limits=DIFFERENCES)
            assert made.low is not None and made.high is not None
            held += made.low <= truth <= made.high
        what = f"coverage, one run each, interval over problems, {name}, k={k}"
        found.append(Finding(what=what, promised=0.95, found=held / times, times=times))
    return found


def coverage_over_seeds(n_seeds: int, times: int) -> list[Finding]:
    """How often intervals over problems and training seeds hold the truth."""
    truth, held = true_differences(), Counter[str]()
    for place, (name, designs) in enumerate(PAIRS.items()):
        rng = np.random.default_rng([n_seeds, place, 7])
        for _ in range(times):
            bases = [rates(rng, PROBLEMS)]
            old, new = (
                scored(rng, design, runs(rng, bases, n_seeds=n_seeds, method=method)[0])
                for method, design in zip(METHODS, designs, strict=True)
            )
            for k, made in zip(KS, estimate(new - old, limits=DIFFERENCES), strict=True):
                assert made.low is not None and made.high is not None
                what = f"coverage, {n_seeds} seeds, interval at k={k}, {name}"
                held[what] += bool(made.low <= truth[k - 1] <= made.high)
    return [
        Finding(what=what, promised=0.95, found=count / times, times=times)
        for what, count in held.items()
    ]


@dataclass(frozen=True, kw_only=True)
class Bias:
    """How far mean pass@k of stopped draws is from the truth of the same problems, on average."""

    design: str
    k: int
    truth: float
    usual: float
    """By the usual formula; where a problem has fewer draws than k, 1, as some of them are
    correct."""
    ours: float
    error: float
    """Standard error of `ours` over simulations."""


def biases(times: int) -> list[Bias]:
    """Of both designs at several k."""
    found = []
    for place, design in enumerate((DOUBLING, TWO_STAGES)):
        rng, ks = np.random.default_rng([place, 8]), np.array([1, 4, 16, 64])
        rate = rates(rng, (times, PROBLEMS))
        n, c = (part[..., None] for part in drawn(rng, design, rate))
        truth = 1 - (1 - rate[..., None]) ** ks
        usual = np.where(n < ks, 1.0, pass_at_k(n_samples=n, n_correct=c, k=ks)) - truth
        ours = (design.pass_at_k(n_drawn=n, n_correct=c, k=ks) - truth).mean(axis=1)
        found += [
            Bias(
                design=f"{design.stages}, {design.enough} correct stop",
                k=k,
                truth=float(truth[..., i].mean()),
                usual=float(usual[..., i].mean()),
                ours=float(ours[:, i].mean()),
                error=float(ours[:, i].std() / times**0.5),
            )
            for i, k in enumerate(ks.tolist())
        ]
    return found


def study(times: int) -> list[Finding]:
    """Every share; `times` simulations each."""
    found = [one for k in (1, 16, 64) for one in size_of_draws_test(k, times)]
    found += [one for k in (1, 64) for one in coverage_over_problems(k, times)]
    return found + [one for n_seeds in (3, 5) for one in coverage_over_seeds(n_seeds, times)]


def print_bias(times: int) -> None:
    """Print the biases as a Markdown table."""
    print("\n| design | k | truth | bias, usual formula | bias, ours | its Monte Carlo error |")
    print("| :-- | --: | --: | --: | --: | --: |")
    for each in biases(times):
        print(
            f"| {each.design} | {each.k} | {each.truth:.4f} | {each.usual:+.4f} "
            f"| {each.ours:+.5f} | {each.error:.5f} |",
            flush=True,
        )
