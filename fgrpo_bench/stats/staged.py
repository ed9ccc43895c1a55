"""pass@k from draws that stop once enough of them are correct, exactly unbiased.

In: a StagedDesign and, per problem, correct draws and draws at its end. Out: estimates and their
variances; what a design is expected to cost, and which makes the fewest draws for a wanted
precision (the second half).

Draws of a problem are made in the order of their index. After n_1 of them the problem stops where
at least `enough` are correct, else it goes on to n_2 draws, and so on; at the last stage it stops
anyway. The usual formula is biased then, because problems stop early after lucky draws.

All sequences that end with c of n draws correct are equally likely, at whatever success rate p. So
with W(n, c) the number of sequences that the design lets end there, and W_k(n, c) those of them
whose first k draws are all wrong, W_k / W is the chance that the first k draws failed given where
the problem ended. Its mean is (1 - p)^k, for every p and every k up to the last stage, and
pass@k is estimated by 1 - W_k / W (Girshick, Mosteller and Savage 1946, "Unbiased estimates for
certain binomial sampling problems with applications", Annals of Mathematical Statistics 17(1),
13-23). With one stage that is 1 - C(n-c, k) / C(n, k).

Likewise W_2k / W estimates (1 - p)^2k, the square of that mean, so that the estimate's own variance
has the unbiased estimate (W_k / W)^2 - W_2k / W.

Counts are whole numbers (`DrawPath`), and each value is rounded once. A problem is drawn `before`
times; it continues only where fewer than `enough` of these draws are correct, and then gets `last`
more. Correct draws are never taken back, so whoever has too few after `before` draws had too few at
every stage before, and the sequences with c correct draws in all are

    W(c) = sum over i < enough of C(before, i) C(last, c - i).

Those among them whose first k draws are all wrong are the same number without these k draws.
Stopping must depend on the problem's own verdicts in the order of the draws and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import binomial, draw_moments, integers, pass_at_k

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_DRAWS = 16_384
"""Of several stages: their tables are computed from whole numbers of about a bit a draw."""


class Ends(NamedTuple):
    """Ends of problems, and the k that is asked for at each; all of one shape."""

    n_drawn: Counts
    n_correct: Counts
    k: Counts
    stage: Counts
    """Index of the last stage that was made."""
    before: Counts
    """Judged draws before that stage."""
    last: Counts
    """Judged draws of that stage."""

    @property
    def n_unscored(self) -> Counts:
        """Draws that were not judged."""
        return self.n_drawn - self.before - self.last


def read_design(stages: Any, enough: Any) -> tuple[tuple[int, ...], int]:
    """Both as plain integers. Errors as of `StagedDesign`."""
    sizes, least = np.asarray(stages), np.asarray(enough)
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu":
        raise TypeError(
            f"stages={stages!r}: must be whole numbers of draws, at least one, e.g. (64, 128, 256)"
        )
    if least.ndim or least.dtype.kind not in "iu":
        raise TypeError(f"enough={enough!r}: must be a whole number of correct draws")
    stages, enough = tuple(sizes.tolist()), int(least)
    if stages[0] < 1:
        raise ValueError(f"stages={stages}: the first stage must have at least 1 draw")
    for stage, following in pairwise(stages):
        if following <= stage:
            raise ValueError(
                f"stages={stages}: {following} follows {stage}, but each stage counts all draws so "
                "far and must have more than the one before; sort them, each once"
            )
    if enough < 1:
        raise ValueError(
            f"enough={enough}: every problem would stop after {stages[0]} draws, also one that has "
            "none correct, and pass@k above that could not be estimated; enough must be at least 1"
        )
    if len(stages) > 1 and stages[-1] > MOST_DRAWS:
        raise ValueError(
            f"stages={stages}: the last of several stages may have at most {MOST_DRAWS:,} draws, "
            "because estimates are computed from exact whole numbers; lower it, or draw a fixed "
            "number"
        )
    return stages, enough


def read_ends(
    stages: tuple[int, ...], enough: int, *, n_drawn: Any, n_correct: Any, k: Any, n_unscored: Any
) -> Ends:
    """The ends as arrays of one shape. Arguments and errors as of `StagedDesign.pass_at_k`."""
    unscored = np.zeros(len(stages), np.int64)
    if n_unscored is not None:
        unscored = integers("n_unscored", n_unscored)
    if not unscored.ndim or unscored.shape[-1] != len(stages):
        raise ValueError(
            f"n_unscored of shape {unscored.shape}: must be [..., {len(stages)}], a number for "
            f"each of stages={stages}, 0 for those that were not drawn"
        )
    named = {"n_drawn": n_drawn, "n_correct": n_correct, "k": k}
    n, c, kk = (integers(name, value) for name, value in named.items())
    if kk.size and kk.min() < 1:
        raise ValueError(f"k={kk.min()}: k is a number of draws and must be at least 1")
    # Of the shape of these two alone: there may be many k and counts.
    drawn = np.broadcast_to(n, np.broadcast_shapes(n.shape, unscored.shape[:-1]))
    stage = np.searchsorted(stages, drawn).clip(max=len(stages) - 1)
    is_drawn = np.arange(len(stages)) <= stage[..., None]
    judged = np.diff(stages, prepend=0) * is_drawn - unscored
    last = np.take_along_axis(judged, stage[..., None], axis=-1)[..., 0]
    before = judged.sum(axis=-1) - last
    wrong = (unscored < 0).any(axis=-1) | (judged < 0).any(axis=-1)
    wrong = wrong | (np.take(stages, stage) != drawn)
    wrong = wrong | (c < np.where(stage < len(stages) - 1, enough, 0))
    wrong = wrong | (c > np.minimum(before, enough - 1) + last)
    if wrong.any():
        n, c = (np.broadcast_to(part, wrong.shape)[wrong][0] for part in (n, c))
        of = np.broadcast_to(unscored, (*wrong.shape, len(stages)))[wrong][0].tolist()
        raise ValueError(_impossible(stages, enough, int(n), int(c), of))
    return Ends(*np.broadcast_arrays(drawn, c, kk, stage, before, last))


def most_correct(stages: tuple[int, ...], enough: int, stage: int) -> int:
    """The largest number of correct draws with which a problem can end at a stage."""
    before = stages[stage - 1] if stage else 0
    return min(before, enough - 1) + stages[stage] - before


def _impossible(stages: tuple[int, ...], enough: int, n: int, c: int, unscored: list[int]) -> str:
    """What a design can reach, beside what it cannot."""
    counts = f"n_drawn={n}, n_correct={c}" + f", n_unscored={unscored}" * any(unscored)
    possible = []
    for i, last in enumerate(stages):
        most, is_end = most_correct(stages, enough, i), last == stages[-1]
        if most >= enough or is_end:
            possible.append(f"{0 if is_end else enough} to {most} correct of {last}")
    fewer = "; unscored draws, counted by the stage that made them, leave fewer" * any(unscored)
    return (
        f"{counts}: with stages={stages} and enough={enough} a problem ends with "
        f"{', '.join(possible)}{fewer}. Count its draws in the order of their index, up to where "
        "the design stops"
    )


class DrawPath(NamedTuple):
    """How a problem's draws lie around the decision to go on for the last time."""

    before: int
    """Draws before the last stage that was made; 0 where the first stage is the last."""
    last: int
    """Draws of that last stage."""
    enough: int
    """With fewer correct draws than this among those before, the problem went on."""

    def without(self, k: int) -> DrawPath:
        """The path without its first k draws; `last` is below 0 where there are not so many."""
        return DrawPath(max(0, self.before - k), self.last - max(0, k - self.before), self.enough)

    def counts(self, n_correct: Iterable[int]) -> list[int]:
        """W at every one of these numbers of correct draws; 0 where no sequence has so many."""
        if self.last < 0:
            return [0 for _ in n_correct]
        ways = [comb(self.before, i) for i in range(min(self.enough, self.before + 1))]
        row, out = _row(self.last), []
        for c in n_correct:
            total = 0
            for n_before, way in enumerate(ways):
                if 0 <= c - n_before <= self.last:
                    total += way * row[c - n_before]
            out.append(total)
        return out


@lru_cache(maxsize=32)
def _row(n: int) -> tuple[int, ...]:
    """C(n, 0) .. C(n, n)."""
    row = [1]
    for i in range(n):
        row.append(row[-1] * (n - i) // (i + 1))
    return tuple(row)


def estimates(path: DrawPath, n_correct: Sequence[int], k: int, n_unscored: int = 0) -> list[float]:
    """1 - W_k / W at each of these numbers of correct draws, rounded once.

    n_unscored: draws that were not judged, any of those that are not correct with equal chance. The
    value is then that of all of them right, by the sequences whose first k draws are judged wrong.
    """
    total, out = path.before + path.last, []
    for c, ways, failing in _paired(path, n_correct, k):
        if n_unscored:
            ways *= comb(total - c, n_unscored)
            failing *= comb(total - c - k, n_unscored) if failing else 0
        out.append((ways - failing) / ways)
    return out


def variances(path: DrawPath, n_correct: Sequence[int], k: int) -> list[float]:
    """(W_k / W)^2 - W_2k / W at each of these numbers of correct draws, rounded once."""
    twice = path.without(2 * k).counts(n_correct)
    return [
        (failing * failing - both * ways) / (ways * ways)
        for (_, ways, failing), both in zip(_paired(path, n_correct, k), twice, strict=True)
    ]


def _paired(path: DrawPath, n_correct: Sequence[int], k: int) -> Iterator[tuple[int, int, int]]:
    """Correct draws, W and W_k."""
    return zip(n_correct, path.counts(n_correct), path.without(k).counts(n_correct), strict=True)


@dataclass(frozen=True, kw_only=True)
class StagedDesign:
    """A number of draws for each stage, and how many correct ones stop a problem after a stage.

    Raises TypeError for values that are no whole numbers, and ValueError for stages that do not
    rise, several with more than 16,384 draws, or `enough` below 1.

    >>> StagedDesign(stages=(64, 128), enough=8).pass_at_k(n_drawn=64, n_correct=8, k=[1, 128])
    array([0.125, 1.   ])
    """

    stages: tuple[int, ...]
    """Draws of a problem after each stage, all before it included, rising; any sequence is taken.
    One stage is a fixed number of draws."""
    enough: int
    """Correct draws that stop a problem after a stage. A stage of fewer draws stops none."""

    def __post_init__(self) -> None:
        stages, enough = read_design(self.stages, self.enough)
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "enough", enough)

    @property
    def is_fixed(self) -> bool:
        """Whether every problem makes as many draws, whatever its verdicts."""
        return len(self.stages) == 1

    @property
    def text(self) -> str:
        """How many draws a problem makes, for a person."""
        *first, last = (f"{stage:,}" for stage in self.stages)
        if not first:
            return f"{last} draws per problem"
        return (
            f"at most {last} draws per problem, in stages {', '.join(first)} and {last}; a problem "
            f"stops after a stage with {self.enough:,} correct"
        )

    def pass_at_k(
        self, *, n_drawn: Any, n_correct: Any, k: Any, n_unscored: ArrayLike | None = None
    ) -> Any:
        """Unbiased pass@k from where each problem ended.

        n_drawn, n_correct, k: integers, or integer arrays that broadcast together; n_drawn is one
        of the stages. n_unscored: of n_drawn, the draws that the grader could not judge, integers
        [..., stages] by the stage that made them; None: none. They count as not correct for
        stopping, and the estimate takes as given which ones they are: it is that of the design
        whose stages lack them.
        Returns a float for scalars, else float64 of the broadcast shape, as fractions in [0, 1]; 1
        where k is above the judged draws of a problem that stopped early; nan where k is above the
        last stage, or above the judged draws of a problem that reached it. With one stage it is
        `fgrpo_bench.pass_at_k`.
        Raises TypeError for values that are no integers, and ValueError for k < 1 or where the
        design cannot end with such counts.
        """
        ends = self._read(n_drawn, n_correct, k, n_unscored)
        if self.is_fixed:
            return pass_at_k(n_samples=ends.last, n_correct=ends.n_correct, k=ends.k)
        return self._estimated(ends, estimates, draws=ends.k)

    def bounds(
        self, *, n_drawn: Any, n_correct: Any, k: Any, n_unscored: ArrayLike
    ) -> tuple[Any, Any]:
        """pass@k over all draws, were all unscored ones wrong, and were they all right.

        Arguments and errors as of `pass_at_k`; nan where k is above the last stage. The problem
        stopped as it did either way. With u unscored draws of n, all ways in which u of the draws
        that are not correct can be those are equally likely, so that the second bound multiplies
        W_k by C(n-c-k, u) / C(n-c, u).
        """
        ends = self._read(n_drawn, n_correct, k, n_unscored)
        if self.is_fixed:
            n, k = ends.n_drawn, ends.k
            right = ends.n_correct + ends.n_unscored
            low = pass_at_k(n_samples=n, n_correct=ends.n_correct, k=k)
            return low, pass_at_k(n_samples=n, n_correct=right, k=k)
        judged = self._read(n_drawn, n_correct, k, None)
        low = self._estimated(judged, estimates, draws=ends.k)
        return low, self._estimated(judged, estimates, draws=ends.k, unscored=ends.n_unscored)

    def draw_variance(
        self, *, n_drawn: Any, n_correct: Any, k: Any, n_unscored: ArrayLike | None = None
    ) -> Any:
        """Unbiased estimate of the variance of a problem's pass@k over its draws.

        As `pass_at_k`, but nan where 2k is above the last stage (or above the judged draws of a
        problem that reached it): (1 - p)^2k cannot be estimated there. `no_variance` says so.
        """
        ends = self._read(n_drawn, n_correct, k, n_unscored)
        return self._estimated(ends, variances, draws=2 * ends.k)

    def no_variance(self, k: int) -> str | None:
        """Why the variance of pass@k cannot be estimated; None where it can."""
        if 2 * k <= self.stages[-1]:
            return None
        return (
            f"k={k} with {self.stages[-1]} draws of a problem at most: the variance of pass@k can "
            f"be estimated for 2k <= n only; draw {2 * k}, or take a smaller k"
        )

    def ends(self) -> tuple[Counts, Counts]:
        """Every (n_drawn, n_correct) at which a problem can end, [last stage + 1] each."""
        ends = [(n, c) for i, n in enumerate(self.stages) for c in self._correct(i)]
        n_drawn, n_correct = np.array(ends).T
        return n_drawn, n_correct

    def expected_draws(self, success_rate: ArrayLike) -> Floats:
        """Mean draws of a problem at a known success rate, of its shape.

        Raises ValueError for rates outside [0, 1].
        """
        from scipy.special import bdtr  # as scipy.stats.binom.cdf, whose import takes long

        rate = np.asarray(success_rate, dtype=float)
        if not np.all((rate >= 0) & (rate <= 1)):
            raise ValueError(f"success_rate={success_rate!r}: must be from 0 to 1")
        drawn, added = np.array(self.stages[:-1], dtype=int), np.diff(self.stages)
        # A stage of fewer draws than are enough stops none; bdtr gives nan for more than drawn.
        going = bdtr(np.minimum(self.enough - 1, drawn), drawn, rate[..., None])
        return np.asarray(self.stages[0] + (going * added).sum(axis=-1))

    def draw_moments(self, *, k: int, success_rate: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and variance of a problem's estimate at a known success rate, each of its shape.

        By the chance of every end; the mean is 1 - (1 - p)^k. Raises ValueError for rates outside
        [0, 1] or k outside 1 .. last stage.
        """
        if self.is_fixed or not 1 <= k <= self.stages[-1]:
            return draw_moments(n_samples=self.stages[-1], k=k, success_rate=success_rate)
        rate = np.asarray(success_rate, dtype=float)[..., None]
        mean, _ = draw_moments(n_samples=k, k=k, success_rate=success_rate)
        variance = np.zeros(mean.shape)
        for stage, values in enumerate(_tables(self, estimates, k)):
            path, least = self._path(stage), self._correct(stage).start
            squares = (values - mean[..., None]) ** 2
            in_last = binomial(np.arange(path.last + 1), path.last, rate)
            ways = binomial(np.arange(min(path.enough, path.before + 1)), path.before, rate)
            for i in range(ways.shape[-1]):
                of_correct = squares[..., max(0, i - least) : i - least + path.last + 1]
                variance += ways[..., i] * (in_last[..., max(0, least - i) :] * of_correct).sum(
                    axis=-1
                )
        return mean, variance

    def _path(self, stage: int) -> DrawPath:
        before = self.stages[stage - 1] if stage else 0
        return DrawPath(before, self.stages[stage] - before, self.enough)

    def _correct(self, stage: int) -> range:
        """Numbers of correct draws with which a problem can end at a stage."""
        least = self.enough if stage < len(self.stages) - 1 else 0
        return range(least, most_correct(self.stages, self.enough, stage) + 1)

    def _read(self, n_drawn: Any, n_correct: Any, k: Any, n_unscored: Any) -> Ends:
        return read_ends(
            *(self.stages, self.enough),
            n_drawn=n_drawn,
            n_correct=n_correct,
            k=k,
            n_unscored=n_unscored,
        )

    def _estimated(
        self, ends: Ends, estimator: Estimator, *, draws: Counts, unscored: Counts | None = None
    ) -> Any:
        """What an estimator gives: looked up where every draw was judged, else computed.

        draws: how many of the first draws it looks at, k or 2k; nan where there are less. unscored:
        draws that are in the ends but were not judged; None: those that the ends lack.
        """
        last = len(self.stages) - 1
        left_out = ends.n_unscored if unscored is None else unscored
        available = np.where(ends.stage < last, self.stages[-1], ends.before + ends.last)
        out = np.full(ends.k.shape, np.nan)
        judged = (left_out == 0) & (draws <= available)
        for stage, k in set(zip(ends.stage[judged].tolist(), ends.k[judged].tolist(), strict=True)):
            rows = judged & (ends.stage == stage) & (ends.k == k)
            values = _tables(self, estimator, k)[stage]
            out[rows] = values[ends.n_correct[rows] - self._correct(stage).start]
        few = (left_out > 0) & (draws <= available)
        parts = [ends.before, ends.last, ends.n_correct, ends.k]
        if unscored is not None:
            parts.append(unscored)
        distinct, index = np.unique([part[few] for part in parts], axis=1, return_inverse=True)
        singles = [
            estimator(DrawPath(before, last, self.enough), [c], *of)[0]
            for before, last, c, *of in distinct.T.tolist()
        ]
        out[few] = np.array(singles)[index.ravel()] if singles else []
        return float(out[()]) if out.ndim == 0 else out


Estimator = Callable[..., list[float]]
"""Of `fgrpo_bench.stats.staged`: from a path, numbers of correct draws and k."""


@lru_cache(maxsize=256)
def _tables(design: StagedDesign, estimator: Estimator, k: int) -> tuple[Floats, ...]:
    """By stage, the values at every number of correct draws with which a problem can end there."""
    tables = []
    for stage in range(len(design.stages)):
        values = np.array(estimator(design._path(stage), design._correct(stage), k))
        values.setflags(write=False)
        tables.append(values)
    return tuple(tables)


FIRST_STAGES = (16, 32, 64, 128, 256)
"""Draws of the first stage, of the designs that are tried."""
ENOUGH = (2, 4, 8, 16, 32)
"""Correct draws that stop a problem, of the designs that are tried."""
LONGER = (1, 1.1, 1.25, 1.5, 2, 4)
"""Last stages that are tried, in multiples of the fixed draws that are precise enough."""
MOST_FIXED = 4_096
"""The largest fixed number that is tried."""
QUANTILES = 200
"""Success rates that stand for the Beta distribution."""
PRIOR = (0.5, 0.5)
"""Parameters of the Beta distribution that success rates are taken from where none are given."""


def beta_rates(a: float, b: float) -> Floats:
    """Success rates of problems that are distributed as Beta(a, b): its quantiles, rising."""
    from scipy.special import betaincinv  # as scipy.stats.beta.ppf, whose import takes long

    return np.asarray(betaincinv(a, b, (np.arange(QUANTILES) + 0.5) / QUANTILES))


def mean_variance(design: StagedDesign, k: int, rates: Floats) -> float:
    """Of a problem's pass@k over its draws, as a mean over problems of these success rates,
    [problems]; over their number it is the variance of mean pass@k."""
    distinct, index = np.unique(rates, return_inverse=True)
    variance = design.draw_moments(k=k, success_rate=distinct)[1]
    return float(np.average(variance, weights=np.bincount(index)))


def fewest_draws(*, ks: Sequence[int], rates: Floats, variance: float) -> int | None:
    """The fewest draws, the same for every problem, whose pass@k is precise enough at every k.

    rates: success rates of problems, [problems]. variance: the largest that the variance of a
    problem's pass@k over its draws may be, as a mean over these problems. None where MOST_FIXED
    are too few.
    """
    return fewest(
        lambda n: _suffices(fixed_design(n), ks, rates, variance), least=max(ks), most=MOST_FIXED
    )


def fewest(suffices: Callable[[int], bool], *, least: int, most: int) -> int | None:
    """The smallest number from `least` on that suffices, where all above one that does suffice too;
    None where `most` does not, or `least` where that is larger."""
    low = high = least
    while not suffices(high):
        if high >= most:
            return None
        low, high = high + 1, min(high * 2, most)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return low


def cheapest_design(
    *, ks: Sequence[int], rates: Floats, variance: float, fixed: int
) -> StagedDesign:
    """The design with the fewest expected draws that is precise enough, as of `fewest_draws`.

    fixed: the fewest fixed draws, which the design makes where no other that is tried is cheaper.
    Tried are stages that double from FIRST_STAGES on up to a last one, and ENOUGH correct draws.
    """
    by_cost = {design: float(design.expected_draws(rates).mean()) for design in _tried(fixed)}
    for design in sorted(by_cost, key=by_cost.__getitem__):
        if by_cost[design] < fixed and _suffices(design, ks, rates, variance):
            return design
    return fixed_design(fixed)


def fixed_design(n_samples: int) -> StagedDesign:
    """The design under which every problem makes as many draws."""
    return StagedDesign(stages=(n_samples,), enough=1)


def _tried(fixed: int) -> Iterator[StagedDesign]:
    """Of last stages that can be precise enough: at least as many as the fixed draws."""
    lasts = (math.ceil(fixed * times) for times in LONGER)
    for last in (last for last in lasts if last <= MOST_DRAWS):
        for first in (stage for stage in FIRST_STAGES if stage < last):
            stages = [first << i for i in range(last.bit_length()) if first << i < last]
            for enough in ENOUGH:
                yield StagedDesign(stages=(*stages, last), enough=enough)


def _suffices(design: StagedDesign, ks: Sequence[int], rates: Floats, variance: float) -> bool:
    return all(mean_variance(design, k, rates) <= variance for k in ks)
