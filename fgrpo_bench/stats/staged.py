"""pass@k from draws that stop once enough of them are correct, exactly unbiased.

Draws of a problem are made in the order of their index. After n_1 of them the problem stops where
at least `enough` are correct, else it goes on to n_2 draws, and so on; at the last stage it stops
anyway. The usual formula is biased then, because a problem stops where luck was good.

All sequences that end with c of n draws correct are equally likely, at whatever success rate p. So
with W(n, c) the number of sequences that the design lets end there, and W_k(n, c) those of them
whose first k draws are all wrong, W_k / W is the chance that the first k draws failed given where
the problem ended. Its mean is (1 - p)^k, for every p and every k up to the last stage, and
pass@k is estimated by 1 - W_k / W (Girshick, Mosteller and Savage 1946, "Unbiased estimates for
certain binomial sampling problems with applications", Annals of Mathematical Statistics 17(1),
13-23). With one stage that is 1 - C(n-c, k) / C(n, k).

Likewise W_2k / W estimates (1 - p)^2k, the square of that mean, so that the estimate's own variance
has the unbiased estimate (W_k / W)^2 - W_2k / W.

Counts are whole numbers (`fgrpo_bench.stats.paths`), and each value is rounded once. Stopping must
depend on the problem's own verdicts in the order of the draws and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.paths import DrawPath, estimates, variances
from fgrpo_bench.stats.staged_arguments import Ends, most_correct, read_design, read_ends
from fgrpo_bench.stats.variance import binomial, draw_moments

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


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
    def words(self) -> str:
        """How many draws a problem makes, for a person."""
        *first, last = (f"{stage:,}" for stage in self.stages)
        if not first:
            return f"{last} draws a problem"
        return (
            f"at most {last} draws a problem, in stages {', '.join(first)} and {last}; a problem "
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
        if len(self.stages) == 1:
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
        if len(self.stages) == 1:
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
        if len(self.stages) == 1 or not 1 <= k <= self.stages[-1]:
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
                own = squares[..., max(0, i - least) : i - least + path.last + 1]
                variance += ways[..., i] * (in_last[..., max(0, least - i) :] * own).sum(axis=-1)
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
"""Of `fgrpo_bench.stats.paths`: from a path, numbers of correct draws and k."""


@lru_cache(maxsize=256)
def _tables(design: StagedDesign, estimator: Estimator, k: int) -> tuple[Floats, ...]:
    """By stage, the values at every number of correct draws with which a problem can end there."""
    tables = []
    for stage in range(len(design.stages)):
        values = np.array(estimator(design._path(stage), design._correct(stage), k))
        values.setflags(write=False)
        tables.append(values)
    return tuple(tables)
