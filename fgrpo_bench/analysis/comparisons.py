"""pass@k of every cell with its interval, and how cells differ: at one k, over all k, on the front.

In: `Scores` of every cell (checkpoints.py), and the pairs that are compared (question.py). Out: the
rows of `estimates`, `comparisons`, `front`, `bands` and `first_loss`. Next: frames.py, which puts
them together; the formulas are in fgrpo_bench.stats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.analysis.checkpoints import At, Floats, Ints, Scores
from fgrpo_bench.analysis.published import published_value
from fgrpo_bench.analysis.question import Compared, Family
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import (
    Band,
    CellRow,
    Comparison,
    Estimate,
    FirstLoss,
    ParetoFront,
    Shares,
    shares,
)
from fgrpo_bench.stats.bands import band_halfwidth, describe_band, first_loss, grid, largest
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    FRACTIONS,
    LEVEL,
    Resampled,
    average,
    bootstrap_means,
    by_cluster,
    conclude,
    difference,
    moments,
    resample,
    resample_together,
    room_of_average,
    room_of_difference,
)
from fgrpo_bench.stats.intervals import IntervalEstimate as IntervalEstimate
from fgrpo_bench.stats.repetition import AcrossSeeds, chances
from fgrpo_bench.stats.significance import benjamini_hochberg, holm, normal_test
from fgrpo_bench.stats.spread import average_spread
from fgrpo_bench.stats.staged import StagedDesign


class Resamples:
    """Means of resampled data by column, cell and seeds, made once."""

    def __init__(
        self,
        scores: Mapping[str, Mapping[At, Scores]],
        averages: Mapping[str, Sequence[str]],
    ) -> None:
        self.scores, self.averages = scores, averages
        # A stream a benchmark: all its cells are resampled alike, which pairs their problems.
        self.streams = {benchmark: stream for stream, benchmark in enumerate(scores)}
        self._cache: dict[tuple[str, At, tuple[int | None, ...]], Resampled] = {}
        for benchmark, cells in scores.items():
            done = {at: cell_scores for at, cell_scores in cells.items() if cell_scores.seeds}
            in_order = resample_together(
                [cell_scores.values for cell_scores in done.values()],
                limits=FRACTIONS,
                stream=self.streams[benchmark],
                clusters=self.clusters(benchmark),
            )
            for (at, cell_scores), resampled in zip(done.items(), in_order, strict=True):
                self._cache[benchmark, at, cell_scores.seeds] = resampled

    def clusters(self, benchmark: str) -> Ints | None:
        """Of the benchmark's problems, which are those of every cell (Scores.clusters)."""
        return next(iter(self.scores[benchmark].values())).clusters

    def seeds(self, column: str, *cells: At) -> tuple[int | None, ...]:
        """Seeds that all these cells have on a benchmark, or on all benchmarks of an average."""
        by_cell = [self.scores[name][at].seeds for name in self.benchmarks(column) for at in cells]
        return tuple(seed for seed in by_cell[0] if all(seed in other for other in by_cell))

    def for_cell(self, column: str, at: At) -> Resampled | None:
        """Of a cell; None without results. An average is of the seeds that each of its benchmarks
        has, and None where these differ, so that none is left out."""
        names = self.benchmarks(column)
        seeds = self.seeds(column, at)
        if not seeds or any(self.scores[name][at].seeds != seeds for name in names):
            return None
        return _mean([self._for_seeds(name, at, seeds) for name in names])

    def difference(
        self, column: str, new: At, old: At
    ) -> tuple[tuple[int | None, ...], Resampled] | None:
        """Seeds and resamples of new minus old, paired over problems and seeds; None without a seed
        in common. Of an average only where all its benchmarks have these seeds in common."""
        parts = []
        for name in self.benchmarks(column):
            seeds = self.seeds(name, new, old)
            if not seeds or seeds != self.seeds(column, new, old):
                return None
            parts.append(self._difference(name, new, old, seeds))
        return seeds, _mean(parts)

    def paired(self, benchmark: str, new: At, old: At) -> tuple[Scores, Scores]:
        """Both cells on the seeds that they have in common."""
        seeds = self.seeds(benchmark, new, old)
        return self.scores[benchmark][new].for_seeds(seeds), self.scores[benchmark][old].for_seeds(
            seeds
        )

    def benchmarks(self, column: str) -> Sequence[str]:
        """Those of an average; a benchmark's own name."""
        return self.averages.get(column, (column,))

    def _for_seeds(self, benchmark: str, at: At, seeds: tuple[int | None, ...]) -> Resampled:
        key = benchmark, at, seeds
        if key not in self._cache:
            self._cache[key] = resample(
                self.scores[benchmark][at].for_seeds(seeds).values,
                limits=FRACTIONS,
                stream=self.streams[benchmark],
                clusters=self.clusters(benchmark),
            )
        return self._cache[key]

    def _difference(
        self, benchmark: str, new: At, old: At, seeds: tuple[int | None, ...]
    ) -> Resampled:
        after, before = self.paired(benchmark, new, old)
        values, clusters = after.values - before.values, self.clusters(benchmark)
        room = room_of_difference(after.values, before.values, clusters=clusters)
        # At a k where a problem lacks a value the cells' resamples are of other problems.
        if np.isnan(values).any() or values.shape[1] < 2:
            stream = self.streams[benchmark]
            return resample(values, limits=DIFFERENCES, stream=stream, clusters=clusters, room=room)
        # Resampled alike, so the difference of the resamples is a resample of the difference.
        resampled = [self._for_seeds(benchmark, at, seeds) for at in (new, old)]
        units = values if clusters is None else by_cluster(values, clusters)
        return difference(resampled[0], resampled[1], units, room)


def _mean(parts: Sequence[Resampled]) -> Resampled:
    return parts[0] if len(parts) == 1 else average(parts)


NOTHING = IntervalEstimate(mean=None, low=None, high=None, by_seed=(), n_seeds=0, n_problems=0)


def estimates(
    results: Results,
    cells: Mapping[str, CellRow],
    resamples: Resamples,
    columns: Sequence[str],
    chosen: Collection[At],
) -> Iterator[Estimate]:
    """Rows by column, cell, step and k. chosen: the checkpoint that stands for each cell."""
    ks = results.evaluation["ks"]
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for at in resamples.scores[names[0]]:
            by_benchmark = [resamples.scores[name][at] for name in names]
            resampled, cell = resamples.for_cell(column, at), cells[at[0]]
            # A cell without results has rows too, so that tables say what is missing.
            means = [NOTHING] * len(ks) if resampled is None else conclude(resampled)
            designs = [design for cell_scores in by_benchmark for design in cell_scores.designs]
            n_draws, draw_shares = _draw_counts(by_benchmark)
            n_open = [_n_open(cell_scores) for cell_scores in by_benchmark]
            is_redesigned = any(any(cell_scores.is_redesigned) for cell_scores in by_benchmark)
            for i, (k, estimate) in enumerate(zip(ks, means, strict=True)):
                yield Estimate(
                    column=column,
                    cell=cell.cell,
                    step=at[1],
                    is_chosen=at in chosen,
                    k=k,
                    mean=estimate.mean,
                    low=estimate.low,
                    high=estimate.high,
                    standard_error=estimate.standard_error,
                    degrees=estimate.degrees,
                    seeds=() if resampled is None else by_benchmark[0].seeds,
                    by_seed=estimate.by_seed,
                    n_problems=estimate.n_problems,
                    n_samples=min((design.stages[-1] for design in designs), default=None),
                    n_draws=n_draws,
                    designs=_describe_designs(designs),
                    is_redesigned=is_redesigned,
                    **vars(draw_shares),
                    all_wrong=_bound(
                        [cell_scores.bounds[0, :, :, i] for cell_scores in by_benchmark]
                    ),
                    all_right=_bound(
                        [cell_scores.bounds[1, :, :, i] for cell_scores in by_benchmark]
                    ),
                    lacks=_missing(by_benchmark, n_open, i, cell.n_planned, results.stopping),
                    published=published_value(results, cell.setting, column, k),
                )


def _draw_counts(scores: Sequence[Scores]) -> tuple[float | None, Shares]:
    """How many draws up to where problems stopped are a problem, None where none has stopped; and
    their shares."""
    n_drawn = np.concatenate([part.n_drawn.ravel() for part in scores])
    draw_shares = shares(
        n_drawn=n_drawn,
        n_scored=np.concatenate([part.n_scored.ravel() for part in scores]),
        n_correct=np.concatenate([part.n_correct.ravel() for part in scores]),
        unfinished=np.concatenate([part.unfinished.reshape(3, -1) for part in scores], axis=1),
    )
    stopped = n_drawn[n_drawn > 0]
    return (float(stopped.mean()) if len(stopped) else None), draw_shares


def _describe_designs(designs: Sequence[StagedDesign]) -> tuple[str, ...]:
    """Each once; none where no problem stops early."""
    if all(design.is_fixed for design in designs):
        return ()
    return tuple(dict.fromkeys(design.text for design in designs))


def _bound(ends: Sequence[Floats]) -> float | None:
    """Mean over benchmarks of the means of [seeds, problems]; None where one is missing."""
    if any(end.size == 0 or np.isnan(end).any() for end in ends):
        return None
    return float(np.mean([end.mean() for end in ends]))


def _n_open(scores: Scores) -> int:
    """Problems whose judgements ask for draws that are missing."""
    return int((scores.present & (scores.n_drawn == 0)).any(axis=0).sum())


def _missing(
    scores: Sequence[Scores],
    n_open: Sequence[int],
    end: int,
    n_planned: int,
    declared: StagedDesign | None,
) -> tuple[str, ...]:
    """What a value has too few of; empty where it has all or is none. declared: the design that was
    declared; None where each checkpoint was asked for its own."""
    out: dict[str, None] = {}
    for cell_scores, n in zip(scores, n_open, strict=True):
        if not cell_scores.seeds:
            continue
        complete = int((~np.isnan(cell_scores.values[:, :, end])).all(axis=0).sum())
        waiting = f" (the judgements of {n} ask for more draws)" if n else ""
        designs = cell_scores.designs
        fewest = min(design.stages[-1] for design in designs)
        # Of fixed numbers the line of draws says which are smaller.
        alike = sum(
            declared is None or design == declared or (design.is_fixed and declared.is_fixed)
            for design in designs
        )
        for have, want, noun in (
            (len(cell_scores.seeds), n_planned, "seeds"),
            (fewest, fewest if declared is None else declared.stages[-1], "draws"),
            (alike, len(cell_scores.seeds), "seeds with the declared design"),
            (complete, len(cell_scores.problems), f"problems{waiting}"),
        ):
            if have < want:
                out[f"{have} of {want} {noun}"] = None
    return tuple(out)


SIGNIFICANT, SUGGESTIVE, INCONCLUSIVE = "significant", "suggestive", "inconclusive"
"""What a comparison can be: see Comparison.verdict."""
AnyComparison = TypeVar("AnyComparison", bound=Comparison)


def compare_cells(
    resamples: Resamples,
    compared: Sequence[Compared],
    *,
    columns: Sequence[str],
    ks: Sequence[int],
    family: Family,
) -> list[Comparison]:
    """Rows by column, pair and k; p-values of those in the family are corrected together."""
    draws = _Draws(resamples, ks)
    rows = list[Comparison]()
    for column in columns:
        for cells in compared:
            rows += _pair_rows(resamples, draws, cells, column, ks)
    pairs = {(cells.new, cells.old): cells.pair for cells in compared}

    def is_in(row: Comparison) -> bool:
        pair = pairs[(row.new, row.new_step), (row.old, row.old_step)]
        return pair is not None and family.has(pair, row.column, row.k)

    return corrected(rows, is_in, family)


def _pair_rows(
    resamples: Resamples, draws: _Draws, cells: Compared, column: str, ks: Sequence[int]
) -> Iterator[Comparison]:
    together = resamples.difference(column, cells.new, cells.old)
    if together is None:
        return
    seeds, resampled = together
    of_draws = draws.p_values(column, cells)
    for k, estimate, p_draws in zip(ks, conclude(resampled), of_draws, strict=True):
        if estimate.mean is not None:
            yield Comparison(
                column=column,
                k=k,
                group=cells.pair.group if cells.pair else None,
                name=cells.pair.name if cells.pair else None,
                new=cells.new[0],
                new_step=cells.new[1],
                old=cells.old[0],
                old_step=cells.old[1],
                p_draws=p_draws,
                seeds=seeds,
                **uncorrected(estimate),
            )


def uncorrected(estimate: IntervalEstimate) -> dict[str, Any]:
    """The columns of a comparison that its estimate has, and those of a family, before any
    correction."""
    return {
        "difference": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "standard_error": estimate.standard_error,
        "degrees": estimate.degrees,
        "p": estimate.p_value,
        "by_seed": estimate.by_seed,
        "n_problems": estimate.n_problems,
        "family": None,
        "p_holm": None,
        "p_bh": None,
        "verdict": SUGGESTIVE if _excludes_zero(estimate) else INCONCLUSIVE,
        "repeats": None,
        "repeats_low": None,
        "repeats_high": None,
    }


def _excludes_zero(estimate: IntervalEstimate) -> bool:
    """Whether the interval does."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > 0 or high < 0)


def corrected(
    rows: Sequence[AnyComparison], is_in: Callable[[AnyComparison], bool], family: Family
) -> list[AnyComparison]:
    """The rows with the p-values of a family corrected together, and what then holds; comparisons
    of it that have no p, or are not there yet, count as 1."""
    p_by_row = {i: row.p for i, row in enumerate(rows) if row.p is not None and is_in(row)}
    p = [value for value in p_by_row.values() if value is not None]
    # A family is declared before its results: what is missing still counts, or each new result
    # would be corrected over fewer than the last.
    p += [1.0] * (len(family.comparisons) - len(p))
    holms = dict(zip(p_by_row, holm(p), strict=False))
    bhs = dict(zip(p_by_row, benjamini_hochberg(p), strict=False))
    out = list(rows)
    for i, p_holm in holms.items():
        # Both: an interval that excludes 0, and a p that is below 0.05 after the correction.
        is_significant = out[i].verdict == SUGGESTIVE and p_holm < 1 - LEVEL
        verdict = SIGNIFICANT if is_significant else out[i].verdict
        out[i] = replace(out[i], family=family.name, p_holm=p_holm, p_bh=bhs[i], verdict=verdict)
    return _with_chances(out, family)


def _with_chances(rows: list[AnyComparison], family: Family) -> list[AnyComparison]:
    """The rows with the chance that a repetition gives their verdicts, of those in the family with
    several seeds; those of the same seeds together, as far as these vary together."""
    alike: dict[tuple[int | None, ...], list[int]] = {}
    for i, row in enumerate(rows):
        if row.family is not None and len(row.seeds) > 1 and row.standard_error is not None:
            alike.setdefault(row.seeds, []).append(i)
    for places in alike.values():
        across_seeds = tuple(_across_seeds(rows[i]) for i in places)
        of_rows = chances(across_seeds, family=len(family.comparisons))
        for i, chance in zip(places, of_rows, strict=True):
            rows[i] = replace(
                rows[i],
                repeats=chance.chance,
                repeats_low=chance.low,
                repeats_high=chance.high,
            )
    return rows


def _across_seeds(row: Comparison) -> AcrossSeeds:
    assert row.standard_error is not None
    of_seeds = float(np.var(row.by_seed, ddof=1)) / len(row.by_seed)
    size = {SIGNIFICANT: 2, SUGGESTIVE: 1, INCONCLUSIVE: 0}[row.verdict]
    return AcrossSeeds(
        by_seed=row.by_seed,
        # what a standard error holds beyond its seeds is due to problems
        problems=max(row.standard_error**2 - of_seeds, 0.0),
        n_problems=row.n_problems,
        verdict=size if row.difference > 0 else -size,
    )


class _Draws:
    """p-values of the draws alone, from the variance of every cell's pass@k over its draws."""

    def __init__(self, resamples: Resamples, ks: Sequence[int]) -> None:
        self._resamples, self._ks = resamples, ks
        self._variances: dict[tuple[str, At], Floats] = {}

    def p_values(self, column: str, cells: Compared) -> list[float | None]:
        """`p_over_draws` at every k; None for averages."""
        if column not in self._resamples.scores:
            return [None] * len(self._ks)
        scores = self._resamples.scores[column]
        new, old = self._resamples.paired(column, cells.new, cells.old)
        variances = [
            self._variance(column, at)[
                :, [scores[at].seeds.index(seed) for seed in cell_scores.seeds]
            ]
            for at, cell_scores in ((cells.new, new), (cells.old, old))
        ]
        return p_over_draws((new, old), variances)

    def _variance(self, benchmark: str, at: At) -> Floats:
        """Scores.draw_variance at every k, [ks, seeds, problems]."""
        if (benchmark, at) not in self._variances:
            cell_scores = self._resamples.scores[benchmark][at]
            self._variances[benchmark, at] = np.array(
                [cell_scores.draw_variance(k) for k in self._ks]
            )
        return self._variances[benchmark, at]


def p_over_draws(cells: tuple[Scores, Scores], variances: Sequence[Floats]) -> list[float | None]:
    """p of a difference for given models and problems at every k, over the problems that every seed
    has judged; None where 2k > n, of a design its last stage (StagedDesign.no_variance says why).

    cells: the new one and the old one, of the same seeds; variances: of each cell's pass@k over its
    draws (Scores.draw_variance), [ks, seeds, problems]. The draws of both cells are taken as
    independent. Those of one seed share their random numbers, which makes them alike, so that the
    test is on the safe side. Seeds share none; where one evaluation stands for several of them, its
    noise does not average out.
    """
    new, old = cells
    both = (new.n_scored > 0).all(axis=0) & (old.n_scored > 0).all(axis=0)
    differences = (new.values - old.values)[:, both]
    # The mean over seeds divides a variance by their number; noise that they share stays whole.
    noise = np.sum(
        [
            variance * (len(cell.seeds) if cell.is_shared_across_seeds else 1)
            for cell, variance in zip(cells, variances, strict=True)
        ],
        axis=0,
    )
    by_k = noise[:, :, both].reshape(len(noise), -1)
    return [
        normal_test(differences[:, :, i].ravel(), variance).p_value
        if variance.size and not np.isnan(variance).any()
        else None
        for i, variance in enumerate(by_k)
    ]


def fronts(
    comparisons: Sequence[Comparison],
    cells: Sequence[str],
    columns: Sequence[str],
    ends: Sequence[int],
) -> Iterator[ParetoFront]:
    """A row a column and cell. ends: the smallest and the largest k; one where there is one.

    A cell is dominated by another that is significantly better at one of them and, by the point
    estimate, not worse at the other. Significant is a comparison of the family alone, so two cells
    that it does not compare leave each other on the front.
    """
    for column in columns:
        rows = [row for row in comparisons if row.column == column and row.k in ends]
        compared_cells = {
            cell for row in rows if row.family is not None for cell in (row.new, row.old)
        }
        worse = dict.fromkeys(_dominated(rows))
        for cell in cells:
            by = tuple(better for lost, better in worse if lost == cell)
            is_on_front = not by if cell in compared_cells else None
            yield ParetoFront(column=column, cell=cell, is_on_front=is_on_front, dominated_by=by)


def _dominated(rows: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    """Each dominated cell, and one that dominates it. rows: of one column, at the two k."""
    for row in rows:
        if row.verdict != SIGNIFICANT:
            continue
        of_pair = [other for other in rows if (other.new, other.old) == (row.new, row.old)]
        # Not worse at the other k: a tie is enough.
        if all(other.difference * row.difference >= 0 for other in of_pair):
            yield (row.old, row.new) if row.difference > 0 else (row.new, row.old)


PRECISION = 1e-10
"""Share of the squares of curves that directions may leave out, each: 1e-5 of a curve's size, where
10,000 resamples are exact to 1e-2."""
ROUNDING = 1e-24
"""Squares of curves below which they are the rounding of equal fractions, each about 1e-16: these
would be scaled up to a band without end."""


@dataclass(frozen=True, kw_only=True)
class _Curves:
    """The difference of two cells on one benchmark, over the k of the grid."""

    by_seed: Floats
    """[seeds, ks]; nan where the band has ended."""
    parts: Floats
    """[3, ks], of fgrpo_bench.stats.spread."""
    room: Floats
    """[2, 3, ks], of fgrpo_bench.stats.intervals."""
    is_complete: NDArray[np.bool_]
    """[problems] or [clusters], those with a value up to the end of the band; the rest does not
    count for c."""
    by_problem: Floats
    """[problems, ks] or [clusters, ks], the mean over seeds of these, less their mean; 0 for the
    rest and beyond."""


def bands(
    resamples: Resamples, compared: Sequence[Compared], columns: Sequence[str], ks: Sequence[int]
) -> Iterator[Band]:
    """Rows by column, pair and k of fgrpo_bench.stats.bands.grid; an average only where all its
    benchmarks have the seeds that the pair has in common.

    At each k those problems count that have a value there, as in a comparison. A band ends where
    these are fewer than half, and fewer than two: where k is near the number of judged draws.
    """
    over = grid(ks)
    pairs = [(cells.new, cells.old) for cells in compared]
    curves = {name: _curves_by_pair(resamples, name, pairs, over) for name in resamples.scores}
    directions = _directions(
        [pair_curves for of_pair in curves.values() for pair_curves in of_pair.values()]
    )
    drawn = {
        name: _resampled(of_pair, directions, resamples.streams[name])
        for name, of_pair in curves.items()
    }
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for pair in pairs:
            by_benchmark = [curves[name][pair] for name in names if pair in curves[name]]
            seeds = {resamples.seeds(name, *pair) for name in names}
            if len(by_benchmark) == len(names) and len(seeds) == 1:
                mean = np.mean([drawn[name][pair] for name in names], axis=0)
                yield from _band_rows(column, pair, over, by_benchmark, directions, mean)


def _curves_by_pair(
    resamples: Resamples, name: str, pairs: Sequence[tuple[At, At]], ks: tuple[int, ...]
) -> dict[tuple[At, At], _Curves]:
    """Of the pairs with a seed in common, and two problems that have a value."""
    cache: dict[tuple[At, tuple[int | None, ...]], Floats] = {}

    def cell_curves(at: At, scores: Scores) -> Floats:
        key = at, scores.seeds
        if key not in cache:  # a cell is in many pairs
            cache[key] = scores.pass_at_ks(ks)
        return cache[key]

    curves, clusters = {}, resamples.clusters(name)
    for new, old in pairs:
        after, before = resamples.paired(name, new, old)
        pair_curves = _curves(cell_curves(new, after), cell_curves(old, before), clusters)
        if pair_curves is not None:
            curves[new, old] = pair_curves
    return curves


def _curves(new: Floats, old: Floats, clusters: Ints | None) -> _Curves | None:
    """new, old: [seeds, problems, ks]; clusters: Scores.clusters."""
    values = new - old
    by_seed, n_problems, parts = moments(values, clusters=clusters)
    # Problems drop out where k passes their judged draws; of fewer than half the curve would be of
    # others than it began with.
    within = (n_problems >= 2) & (2 * n_problems >= n_problems[0])
    if not len(by_seed) or not within[0]:
        return None
    by_seed[:, ~within] = np.nan
    is_complete = np.asarray(~np.isnan(values[:, :, within]).any(axis=(0, 2)))
    complete_values = values[:, is_complete][:, :, within].mean(axis=0)
    if clusters is not None:
        n_clusters, present = clusters.max() + 1, clusters[is_complete]
        complete_values = by_cluster(complete_values[None], present)[0]
        is_complete = np.isin(np.arange(n_clusters), present)
    by_problem = np.zeros((len(is_complete), values.shape[2]))
    by_problem[np.ix_(is_complete, within)] = complete_values - complete_values.mean(axis=0)
    return _Curves(
        by_seed=by_seed,
        parts=parts,
        room=room_of_difference(new, old, clusters=clusters),
        is_complete=is_complete,
        by_problem=by_problem,
    )


def _directions(curves: Sequence[_Curves]) -> Floats:
    """The few directions that all curves lie in, orthogonal, [ks, directions]: resamples of these
    are resamples at every k, at a fifth of the cost."""
    if not curves:
        return np.empty((0, 0))
    squares = np.sum(
        [pair_curves.by_problem.T @ pair_curves.by_problem for pair_curves in curves], axis=0
    )
    sizes, vectors = np.linalg.eigh(squares)
    return np.asarray(vectors[:, sizes > max(PRECISION * sizes[-1], ROUNDING)])


def _resampled(
    curves: Mapping[tuple[At, At], _Curves], directions: Floats, stream: int
) -> dict[tuple[At, At], Floats]:
    """Means of resampled problems less their mean, along the directions, [directions, replicates].

    The same resamples as of an interval: a problem that is not whole counts 0 times."""
    if not curves:
        return {}
    values = [
        np.concatenate(
            [pair_curves.by_problem @ directions, pair_curves.is_complete[:, None]], axis=1
        )
        for pair_curves in curves.values()
    ]
    # Single precision: its error is far below that of resampling, and the product takes the time.
    together = np.concatenate(values, axis=1, dtype=np.float32)
    means = bootstrap_means(together[None], stream=stream)
    by_pair = np.split(means, len(values))
    return {
        # A resample without any whole problem has no mean: 0 / 1e-9 leaves it at 0.
        pair: of_pair[:-1] / np.maximum(of_pair[-1:], 1e-9)
        for pair, of_pair in zip(curves, by_pair, strict=True)
    }


def _band_rows(
    column: str,
    pair: tuple[At, At],
    ks: Sequence[int],
    curves: Sequence[_Curves],
    directions: Floats,
    resampled: Floats,
) -> Iterator[Band]:
    by_seed = np.mean([of_benchmark.by_seed for of_benchmark in curves], axis=0)
    parts = average_spread([of_benchmark.parts for of_benchmark in curves])
    # The band ends at the first k that too few problems have: larger ones are nan.
    n = int((~np.isnan(by_seed[0])).sum())
    deviations = largest(directions[:n], resampled)
    below, above = band_halfwidth(
        ks[:n],
        by_seed=by_seed[:, :n],
        parts=parts[:, :n],
        largest_deviations=deviations,
        room=room_of_average([of_benchmark.room for of_benchmark in curves])[:, :, :n],
    )
    means = by_seed[:, :n].mean(axis=0)
    # A difference of two fractions lies between -1 and 1, whatever its band.
    ends = np.clip([means - below, means + above], *DIFFERENCES)
    for k, mean, low, high in zip(ks[:n], means.tolist(), *ends.tolist(), strict=True):
        yield Band(
            column=column,
            new=pair[0][0],
            old=pair[1][0],
            k=k,
            difference=mean,
            low=low,
            high=high,
        )


def first_losses(rows: Sequence[Band]) -> Iterator[FirstLoss]:
    """A row a column and pair. rows: of `bands`."""
    for (column, new, old), group in groupby(rows, key=lambda row: (row.column, row.new, row.old)):
        band = list(group)
        ks = [row.k for row in band]
        low, high = np.array([[row.low, row.high] for row in band]).T
        first, certain = first_loss(ks, low, high)
        yield FirstLoss(
            column=column,
            new=new,
            old=old,
            low=first,
            high=certain,
            words=describe_band(ks, low, high),
        )
