"""How often a sweep of true nulls has something "significant", and how often intervals hold the
truth near 0 and 100%, with clusters, and with unequal or skewed training seeds.

A part of `python -m tests.calibration`. Simulations are columns of one array, so that a thousand of
them take as long as a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit, stdtr, stdtrit

from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    FRACTIONS,
    IntervalEstimate,
    Resampled,
    conclude,
    resample,
    room_of_difference,
)
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.repetition import AcrossSeeds, chances
from fgrpo_bench.stats.significance import holm
from tests.support.planted import OWN_SPREAD, SEED_SPREAD, Finding, rates

Floats = NDArray[np.float64]
REPLICATES = 1_000
"""Resamples of each simulated data set; the product makes ten times as many."""
FAMILIES = 2_000
METHODS = 22
"""Against one reference, at two k: 44 comparisons. The first two of them are the family of 4."""
TOGETHER = 8
"""Families that are simulated at once."""
RATIOS = (0.0, 0.3, 2.0, 4.0, 7.0, 16.0)
"""Variance of a difference due to seeds, over that due to what is left."""
SEEDS = (2, 3, 5, 10)


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Shares of families of true nulls that have any significant comparison."""

    world: str
    n_seeds: int
    n_problems: int
    n_comparisons: int
    found: float
    former: float
    """The same, were the degrees of freedom of the 95% interval those of every level."""
    times: int

    @property
    def error(self) -> float:
        """Monte Carlo standard error of `found`."""
        return float(np.sqrt(max(self.found * (1 - self.found), 1e-4) / self.times))


def false_significant(
    world: str, n_seeds: int, n_problems: int, times: int = FAMILIES
) -> list[Verdicts]:
    """Of families of 4 and of 44 comparisons in a world of WORLDS."""
    rng = np.random.default_rng([n_seeds, n_problems, sum(map(ord, world)), 31])
    counts = {(size, rule): 0 for size in (4, 2 * METHODS) for rule in ("ours", "former")}
    for _ in range(times // TOGETHER):
        made = conclude(WORLDS[world](rng, n_seeds, n_problems))
        shown = np.array([_excludes_0(one) for one in made]).reshape(TOGETHER, -1)
        rules = {"ours": [one.p_value for one in made], "former": list(map(_former_p, made))}
        for (size, rule), _ in counts.items():
            p = np.array(rules[rule], float).reshape(TOGETHER, -1)
            for of_family, visible in zip(p, shown, strict=True):
                significant = (np.array(holm(of_family[:size].tolist())) < 0.05) & visible[:size]
                counts[size, rule] += bool(significant.any())
    done = times // TOGETHER * TOGETHER
    return [
        Verdicts(
            world=world,
            n_seeds=n_seeds,
            n_problems=n_problems,
            n_comparisons=size,
            found=counts[size, "ours"] / done,
            former=counts[size, "former"] / done,
            times=done,
        )
        for size in (4, 2 * METHODS)
    ]


def power_in_a_family(
    n_seeds: int, size: int, ratio: float, times: int = FAMILIES
) -> tuple[float, float]:
    """Share of true differences, all as large, that pass the first step of Holm's correction in a
    family of so many: by the rule, and with the degrees of the 95% interval at every level.

    ratio: as in RATIOS. The difference is one that is found in most cases.
    """
    rng = np.random.default_rng([n_seeds, size, int(10 * ratio), 32])
    effect = -stdtrit(1.6 * (n_seeds - 1), 0.025 / size) + 0.8
    sd = np.sqrt((ratio + 1) / 256 / n_seeds)
    made = conclude(_resampled(_normal(rng, n_seeds, 256, ratio, times) + effect * sd))
    level = 0.05 / size
    found = np.mean([one.p_value is not None and one.p_value < level for one in made])
    return float(found), float(np.mean([_former_p(one) < level for one in made]))


def _excludes_0(one: IntervalEstimate) -> bool:
    assert one.low is not None and one.high is not None
    return one.low > 0 or one.high < 0


def _former_p(one: IntervalEstimate) -> float:
    """By Student's t with the degrees that give the 95% interval its width."""
    assert None not in (one.mean, one.low, one.high, one.degrees)
    reach = one.mean - one.low if one.mean > 0 else one.high - one.mean  # type: ignore[operator]
    if reach == 0:
        return 0.0 if one.mean else 1.0
    t = abs(one.mean) / reach * stdtrit(one.degrees, 0.975)  # type: ignore[arg-type]
    return float(2 * stdtr(one.degrees, -t))


def _normal(
    rng: np.random.Generator, n_seeds: int, n_problems: int, ratio: float, columns: int
) -> Floats:
    of_seeds = np.sqrt(ratio / n_problems) * rng.standard_normal((n_seeds, 1, columns))
    return of_seeds + rng.standard_normal((n_seeds, n_problems, columns), np.float32)


def _resampled(differences: Floats) -> Resampled:
    return resample(differences, limits=(-np.inf, np.inf), replicates=REPLICATES)


def _against_the_first(cells: Floats) -> Floats:
    """[seeds, problems, families, 1 + methods, ks] -> all differences of methods, in columns."""
    differences = cells[:, :, :, 1:] - cells[:, :, :, :1]
    return differences.reshape(*cells.shape[:2], -1)


def _normal_world(ratio: float) -> Callable[[np.random.Generator, int, int], Resampled]:
    def made(rng: np.random.Generator, n_seeds: int, n_problems: int) -> Resampled:
        shape = (TOGETHER, 1 + METHODS, 2)
        cells = _normal(rng, n_seeds, n_problems, ratio, int(np.prod(shape)))
        return _resampled(_against_the_first(cells.reshape(n_seeds, n_problems, *shape)))

    return made


def _unrelated_world(
    ratio: float,
) -> Callable[[np.random.Generator, int, int], Resampled]:
    """Differences that have nothing in common, not even a reference."""

    def made(rng: np.random.Generator, n_seeds: int, n_problems: int) -> Resampled:
        return _resampled(_normal(rng, n_seeds, n_problems, ratio, TOGETHER * METHODS * 2))

    return made


def _planted_world(
    shift: float, seeds: Callable[..., Floats]
) -> Callable[[np.random.Generator, int, int], Resampled]:
    """pass@1 and pass@256 of 512 draws. shift: of log-odds of success; seeds: draws the shift of
    each training run, of standard deviation 1."""

    def made(rng: np.random.Generator, n_seeds: int, n_problems: int) -> Resampled:
        base = logit(rates(rng, (n_problems, TOGETHER, 1)))
        runs = SEED_SPREAD * seeds(rng, (n_seeds, 1, TOGETHER, 1 + METHODS))
        own = OWN_SPREAD * rng.standard_normal((n_seeds, n_problems, TOGETHER, 1 + METHODS))
        correct = rng.binomial(512, expit(shift + base + runs + own))
        cells = pass_at_k(n_samples=512, n_correct=correct[..., None], k=np.array([1, 256]))
        alone = cells[:, :, :, :1]
        room = room_of_difference(
            cells[:, :, :, 1:].reshape(n_seeds, n_problems, -1),
            np.broadcast_to(alone, cells[:, :, :, 1:].shape).reshape(n_seeds, n_problems, -1),
        )
        values = _against_the_first(cells)
        return resample(values, limits=DIFFERENCES, room=room, replicates=REPLICATES)

    return made


def normal_seeds(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Alike on both sides."""
    return rng.standard_normal(shape)


def skewed_seeds(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A long tail of runs that came out worse; mean 0, standard deviation 1."""
    return 1 - rng.exponential(size=shape)


NORMAL = {f"normal, seeds / left = {ratio:g}": _normal_world(ratio) for ratio in RATIOS}
WORLDS = NORMAL | {
    "normal, unrelated, seeds / left = 69": _unrelated_world(69.0),
    "near the ceiling": _planted_world(9.0, normal_seeds),
    "skewed seeds": _planted_world(1.5, skewed_seeds),
}

Pair = tuple[float, float]
WORTH: dict[str, tuple[Pair, Pair]] = {  # true differences, standard deviations between seeds
    "pooled over all seeds": ((0.059, 0.107), (0.0145, 0.036)),
    "pessimistic": ((0.05, 0.09), (0.025, 0.044)),
}
"""What a focal weight of 0.5 and 1 is worth at k = 256 in the sweep groupsize."""
OF_PROBLEMS, LEFT = 0.0069, 0.0094
"""Standard deviation of the mean over 256 problems that is due to these, and to what is left."""


@dataclass(frozen=True, kw_only=True)
class Repetitions:
    """Pairs of sweeps of two comparisons on the same problems, with other seeds."""

    spread: str
    n_seeds: int
    both: float
    """Share of the pairs with the same two verdicts."""
    each: float
    """Share of the comparisons with the same verdict."""
    said: float
    """Mean of the chances that the first sweep gives its verdicts."""
    times: int


def repetitions(spread: str, n_seeds: int, times: int) -> Repetitions:
    """How often a sweep and its repetition agree, by the shipped intervals and correction."""
    rng = np.random.default_rng([n_seeds, sum(map(ord, spread)), 33])
    truths, deviations = map(np.array, WORTH[spread])
    shape = (n_seeds, 1, times, 2, 2)  # sweeps of a pair, comparisons
    of_seeds = np.sqrt(deviations**2 - LEFT**2) * rng.standard_normal(shape)
    of_problems = 16 * OF_PROBLEMS * rng.standard_normal((1, 256, times, 1, 2))
    left = 16 * LEFT * rng.standard_normal((n_seeds, 256, times, 2, 2))
    values = truths + of_seeds + of_problems - of_problems.mean(axis=1) + left
    estimates = conclude(_resampled(values.reshape(n_seeds, 256, -1)))
    verdicts = np.array([_verdicts(estimates[at : at + 2]) for at in range(0, 4 * times, 2)])
    pairs = verdicts.reshape(times, 2, 2)
    same = pairs[:, 0] == pairs[:, 1]
    said = [
        [one.chance for one in chances(tuple(_shown(estimates[at : at + 2], of_pair[0])), family=2)]
        for at, of_pair in zip(range(0, 4 * times, 4), pairs, strict=True)
    ]
    return Repetitions(
        spread=spread,
        n_seeds=n_seeds,
        both=float(same.all(axis=1).mean()),
        each=float(same.mean()),
        said=float(np.mean(said)),
        times=times,
    )


def _verdicts(family: list[IntervalEstimate]) -> list[int]:
    """As in fgrpo_bench.stats.repetition."""
    corrected = holm([one.p_value for one in family if one.p_value is not None])
    return [
        int(np.sign(one.mean or 0)) * (_excludes_0(one) + (_excludes_0(one) and p < 0.05))
        for one, p in zip(family, corrected, strict=True)
    ]


def _of_mean(by_seed: Sequence[float]) -> float:
    """Variance of a mean over seeds that is due to them."""
    return float(np.var(by_seed, ddof=1) / len(by_seed))


def _shown(family: list[IntervalEstimate], verdicts: Iterable[int]) -> list[AcrossSeeds]:
    return [
        AcrossSeeds(
            by_seed=one.by_seed,
            problems=max((one.standard_error or 0) ** 2 - _of_mean(one.by_seed), 0),
            n_problems=one.n_problems,
            verdict=int(verdict),
        )
        for one, verdict in zip(family, verdicts, strict=True)
    ]


TRUTHS = (0.001, 0.005, 0.995, 0.998, 0.999)
NEXT = {0.001: 0.005, 0.005: 0.001, 0.995: 0.998, 0.998: 0.999, 0.999: 0.999}
"""The other cell of a paired difference."""
SHAPES = ("few", "spread", "alike")
"""How problems differ: a few are unlike all others; rates are spread widely; all are alike."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(30)


@dataclass(frozen=True, kw_only=True)
class End:
    """What intervals hold where the truth is near 0 or 100%."""

    shape: str
    truth: float
    k: int
    n_samples: int
    n_problems: int
    n_seeds: int
    cells: float
    cells_before: float
    """Without the room that is left near the ends; likewise below."""
    differences: float
    differences_before: float
    width: float
    """Median of the cells' intervals, in points; likewise below."""
    width_before: float
    most_added: float
    """To either end of a cell's interval."""


def near_an_end(
    shape: str, truth: float, k: int, *, n: int, n_problems: int, n_seeds: int, times: int
) -> End:
    """One seed: of that checkpoint's own truth."""
    rng = np.random.default_rng([TRUTHS.index(truth), k, n, n_problems, n_seeds, 33])
    base, hard = _bases(shape, rng, (n_problems, times)), rng.random((n_problems, times))
    cells, truths = [], []
    for of_cell in (truth, NEXT[truth]):
        at, shifts = _centre(shape, k, of_cell), np.zeros((n_seeds, 1, times))
        if shape == "few":
            unlike = hard < min(of_cell, 1 - of_cell)
            rate = np.broadcast_to(unlike == (of_cell < 0.5), (n_seeds, n_problems, times)) * 1.0
        else:
            shifts = rng.normal(0, SEED_SPREAD, shifts.shape)
            own = rng.normal(0, OWN_SPREAD, (n_seeds, n_problems, times))
            rate = expit(at + base + shifts + own)
        cells.append(pass_at_k(n_samples=n, n_correct=rng.binomial(n, rate), k=k))
        own_truth = n_seeds == 1 and shape != "few"
        truths.append(_mean(shape, at, k, shifts[0, 0]) if own_truth else of_cell)
    without = np.zeros((2, 3, times))
    room = room_of_difference(cells[1], cells[0])
    held = {
        name: conclude(resample(values, limits=limits, room=given, replicates=REPLICATES // 2))
        for name, values, limits, given in (
            ("cells", cells[0], FRACTIONS, None),
            ("cells_before", cells[0], FRACTIONS, without),
            ("differences", cells[1] - cells[0], DIFFERENCES, room),
            ("differences_before", cells[1] - cells[0], DIFFERENCES, without),
        )
    }
    ends = {
        name: np.array([(one.low, one.high) for one in made], float).T
        for name, made in held.items()
    }
    wanted = {"cells": truths[0], "differences": np.subtract(truths[1], truths[0])}
    shares = {
        name: float(np.mean(_holds(of, wanted[name.removesuffix("_before")])))
        for name, of in ends.items()
    }
    for one in held["differences"]:
        assert one.p_value is not None and ((one.p_value < 0.05) == _excludes_0(one))
    after, before = ends["cells"], ends["cells_before"]
    return End(
        shape=shape,
        truth=truth,
        k=k,
        n_samples=n,
        n_problems=n_problems,
        n_seeds=n_seeds,
        **shares,
        width=100 * float(np.median(after[1] - after[0])),
        width_before=100 * float(np.median(before[1] - before[0])),
        most_added=100 * float(max((before[0] - after[0]).max(), (after[1] - before[1]).max())),
    )


def _holds(ends: Floats, truth: Floats | float) -> NDArray[np.bool_]:
    low, high = ends
    return np.asarray((low <= truth + 1e-12) & (truth <= high + 1e-12))


def _bases(shape: str, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    return np.zeros(size) if shape == "alike" else logit(rates(rng, size))


@lru_cache(maxsize=1)
def _many() -> Floats:
    """Log-odds of all problems: quantiles of the distribution of tests.support.planted.rates."""
    quantiles = betaincinv(0.25, 1.5, (np.arange(4_000) + 0.5) / 4_000)
    return np.asarray(logit(np.clip(quantiles, 1e-6, 1 - 1e-6)))


def _mean(shape: str, at: float, k: int, shifts: Floats | None) -> Floats:
    """True pass@k over all problems: of runs of these shifts, else over all runs."""
    base = np.zeros(1) if shape == "alike" else _many()
    spread, given = (OWN_SPREAD, shifts) if shifts is not None else (
        np.hypot(OWN_SPREAD, SEED_SPREAD), np.zeros(1)
    )  # fmt: skip
    # As a function of the run's shift it is smooth: a few points and straight lines will do.
    grid = np.linspace(given.min(), given.max(), 24) if len(given) > 1 else given
    logits = (at + grid)[:, None, None] + base[:, None] + spread * _NODES
    misses = -np.expm1(-k * np.logaddexp(0, logits))
    means = (misses @ _WEIGHTS).mean(axis=1) / _WEIGHTS.sum()
    return np.asarray(np.interp(given, grid, means))


@lru_cache(maxsize=256)
def _centre(shape: str, k: int, truth: float) -> float:
    """Shift of log-odds at which mean pass@k is the truth."""
    if shape == "few":
        return 0.0
    low, high = -60.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _mean(shape, middle, k, None)[0] < truth else (low, middle)
    return low


def ends(times: int, problems: tuple[int, ...] = (30, 256, 1_000)) -> Iterator[End]:
    """Every truth, k = 1 and n / 2, every shape."""
    for shape, n, n_problems, n_seeds in product(SHAPES, (32, 512, 1_024), problems, (1, 2, 3, 5)):
        for k, truth in product((1, n // 2), TRUTHS):
            yield near_an_end(
                shape, truth, k, n=n, n_problems=n_problems, n_seeds=n_seeds, times=times
            )


def with_clusters(
    n_clusters: int,
    size: int,
    n_seeds: int,
    *,
    times: int,
    singles: int = 0,
    k: int = 16,
    n: int = 256,
) -> list[Finding]:
    """Intervals of a cell and of a paired difference where problems of a cluster share most of
    their difficulty, with clusters and as if there were none. singles: further clusters of one."""
    rng = np.random.default_rng([n_clusters, size, n_seeds, 34])
    sizes = [size] * n_clusters + [1] * singles
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(-2.5, 2.0, (len(sizes), times))[clusters]
    base = shared + rng.normal(0, 0.5, shared.shape)
    turned = rng.normal(0, 0.7, (len(sizes), times))[clusters]  # what a method does to a cluster
    cells = []
    for effect in (0.0 * turned, 0.5 + turned):
        runs = rng.normal(0, SEED_SPREAD, (n_seeds, 1, times))
        own = rng.normal(0, OWN_SPREAD, (n_seeds, *shared.shape))
        correct = rng.binomial(n, expit(base + effect + runs + own))
        cells.append(pass_at_k(n_samples=n, n_correct=correct, k=k))
    truth = [_over_clusters(effect, k) for effect in ((0.0, 0.0), (0.5, 0.7))]
    found = []
    for name, values, limits, wanted in (
        ("cell", cells[1], FRACTIONS, truth[1]),
        ("difference", cells[1] - cells[0], DIFFERENCES, truth[1] - truth[0]),
    ):
        for told, given in (("clusters", clusters), ("no clusters", None)):
            resampled = resample(values, limits=limits, clusters=given, replicates=REPLICATES)
            ends = np.array([(one.low, one.high) for one in conclude(resampled)], float).T
            beside = f" beside {singles} single problems" if singles else ""
            what = f"{n_clusters} clusters of {size}{beside}, {n_seeds} seeds, {name}, {told}"
            share = float(np.mean(_holds(ends, wanted)))
            found.append(Finding(what=what, promised=0.95, found=share, times=times))
    return found


def _over_clusters(effect: tuple[float, float], k: int) -> float:
    sd = np.sqrt(2.0**2 + 0.5**2 + effect[1] ** 2 + SEED_SPREAD**2 + OWN_SPREAD**2)
    z = -2.5 + effect[0] + sd * _NODES
    return float(-np.expm1(-k * np.logaddexp(0, z)) @ _WEIGHTS / _WEIGHTS.sum())


def uneven_seeds(n_seeds: int, *, times: int, n_problems: int = 256) -> list[Finding]:
    """Intervals of cells and of paired differences where training seeds are skewed, or where one
    method's runs differ three times as much as the other's."""
    found, n, ks = [], 512, np.array([1, 16, 64, 256])
    for name, seeds, spreads in (
        ("skewed seeds", skewed_seeds, (1.0, 1.0)),
        ("unequal seeds", normal_seeds, (0.5, 1.5)),
    ):
        rng = np.random.default_rng([n_seeds, len(name), 35])
        base = logit(rates(rng, (n_problems, times)))
        cells, truths = [], []
        for shift, spread in zip((0.0, 1.0), spreads, strict=True):
            runs = spread * SEED_SPREAD * seeds(rng, (n_seeds, 1, times))
            own = OWN_SPREAD * rng.standard_normal((n_seeds, n_problems, times))
            correct = rng.binomial(n, expit(shift + base + runs + own))
            cells.append(correct)
            many = spread * SEED_SPREAD * seeds(np.random.default_rng(2), (4_000,))
            truths.append([_mean("spread", shift, int(k), many).mean() for k in ks])
        for i, k in enumerate(ks.tolist()):
            old, new = (pass_at_k(n_samples=n, n_correct=cell, k=k) for cell in cells)
            for what, values, limits, truth, room in (
                ("cell", new, FRACTIONS, truths[1][i], None),
                (
                    "difference",
                    new - old,
                    DIFFERENCES,
                    truths[1][i] - truths[0][i],
                    room_of_difference(new, old),
                ),
            ):
                made = conclude(resample(values, limits=limits, room=room, replicates=REPLICATES))
                ends = np.array([(one.low, one.high) for one in made], float).T
                found.append(
                    Finding(
                        what=f"{name}, {n_seeds} seeds, {what}, k={k}",
                        promised=0.95,
                        found=float(np.mean(_holds(ends, truth))),
                        times=times,
                    )
                )
    return found
