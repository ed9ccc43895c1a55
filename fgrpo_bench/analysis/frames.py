"""The frames of one analysis, and looking things up in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby

import polars as pl

from fgrpo_bench.analysis.bands import Band, FirstLoss
from fgrpo_bench.analysis.cost import Cost
from fgrpo_bench.analysis.coverage import Coverage
from fgrpo_bench.analysis.drift import Drift
from fgrpo_bench.analysis.families import NONE_DECLARED, asked
from fgrpo_bench.analysis.front import Front
from fgrpo_bench.analysis.likelihood import Likelihood
from fgrpo_bench.analysis.rows import CellRow, Comparison, Estimate, from_frame
from fgrpo_bench.results import SweepResults


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Every number of a sweep under one rule for its checkpoints.

    The columns of a frame are the attributes of its row class, by
    fgrpo_bench.analysis.analyse.FRAMES.
    """

    results: SweepResults = field(repr=False)
    """Where the files are, and what was declared."""
    rule: str
    """What chose the checkpoint of every run (fgrpo_bench.analysis.checkpoints.RULES)."""
    family: str
    """The comparisons that p-values are corrected over, in words, or NONE_DECLARED."""
    cells: pl.DataFrame
    estimates: pl.DataFrame
    comparisons: pl.DataFrame
    equal_budget: pl.DataFrame
    """Comparisons of a focal cell with its base algorithm at another N, each at its latest
    checkpoint within the rollouts of the cheaper of the two; a family of their own."""
    bands: pl.DataFrame
    first_loss: pl.DataFrame
    front: pl.DataFrame
    coverage: pl.DataFrame
    cost: pl.DataFrame
    checkpoints: pl.DataFrame
    likelihood: pl.DataFrame
    completeness: pl.DataFrame
    other_graders: pl.DataFrame
    drift: pl.DataFrame
    tasks: pl.DataFrame
    problems: pl.DataFrame

    @property
    def ks(self) -> tuple[int, ...]:
        """The declared k of pass@k, rising."""
        return tuple(self.results.evaluation["ks"])

    @property
    def ends(self) -> tuple[int, ...]:
        """The smallest and the largest k; one where there is one."""
        return tuple(sorted({self.ks[0], self.ks[-1]}))

    @property
    def averages(self) -> dict[str, tuple[str, ...]]:
        """Benchmarks by the name of their average, in domain first."""
        return self.results.averages

    @property
    def columns(self) -> tuple[str, ...]:
        """Averages and benchmarks as tables have them: each average before its benchmarks."""
        return self.results.columns

    @property
    def headline(self) -> tuple[str, ...]:
        """The columns that stand for all: the averages, and a benchmark alone in its domain."""
        return self.results.headline

    def benchmarks_of(self, column: str) -> tuple[str, ...]:
        """The benchmarks of an average; a benchmark's own name."""
        return self.averages.get(column, (column,))

    @cached_property
    def by_cell(self) -> dict[str, CellRow]:
        """Base models first, then in plan order."""
        return {cell.cell: cell for cell in from_frame(CellRow, self.cells)}

    @cached_property
    def _estimates(self) -> dict[tuple[str, str, int], Estimate]:
        rows = from_frame(Estimate, self.estimates.filter("is_chosen"))
        return {(row.column, row.cell, row.k): row for row in rows}

    def estimate(self, column: str, cell: CellRow | str, k: int) -> Estimate:
        """pass@k of a cell at the checkpoint that stands for it; KeyError for no such row."""
        return self._estimates[column, _name(cell), k]

    def of_column(self, column: str) -> list[Estimate]:
        """The same of every cell, at every k."""
        return [row for row in self._estimates.values() if row.column == column]

    def over_k(self, column: str, cell: CellRow | str) -> tuple[Estimate, ...]:
        """The same at every k."""
        return tuple(self.estimate(column, cell, k) for k in self.ks)

    @cached_property
    def asked(self) -> tuple[Comparison, ...]:
        """Those that some question asks for, at the smallest and the largest k, and the family."""
        at_ends = pl.col("group").is_not_null() & pl.col("k").is_in(self.ends)
        own = pl.col("family").is_not_null()
        return tuple(from_frame(Comparison, self.comparisons.filter(at_ends | own)))

    @property
    def has_family(self) -> bool:
        """Whether any comparison was declared, so that some are corrected and may be robust."""
        return self.family != NONE_DECLARED

    @cached_property
    def in_question(self) -> tuple[Comparison, ...]:
        """The rows of `asked` that views show as the question: those of the family; where none was
        declared, of the first kind of pairs on the headline, uncorrected."""
        if self.has_family:
            return tuple(row for row in self.asked if row.family is not None)
        pairs, _ = asked(self.results.declaration["declaration"], tuple(self.by_cell.values()))
        first = {(p.new.cell, p.old.cell) for p in pairs if p.kind == pairs[0].kind}
        rows = (row for row in self.asked if (row.new, row.old) in first)
        return tuple(row for row in rows if row.column in self.headline)

    @cached_property
    def _pairs(self) -> Callable[[str], dict[tuple[int, str, str], Comparison]]:
        """By k and cells, of a column: a first page wants one of many."""
        return cache(
            lambda column: {
                (row.k, row.new, row.old): row
                for row in from_frame(Comparison, self.comparisons.filter(column=column))
            }
        )

    def comparison(self, column: str, k: int, new: str, old: str) -> Comparison | None:
        """The difference of two cells, turned round where the frame has the other direction; None
        where they have no seed in common."""
        pairs = self._pairs(column)
        row, turned = pairs.get((k, new, old)), pairs.get((k, old, new))
        return row or (turned and reversed_(turned))

    def against(self, column: str, k: int, old: str) -> list[Comparison]:
        """How all other cells differ from one, in their order; those without a seed in common with
        it are left out."""
        rows = [self.comparison(column, k, new, old) for new in self.by_cell]
        return [row for row in rows if row is not None]

    @cached_property
    def _bands(self) -> dict[tuple[str, str, str], tuple[Band, ...]]:
        rows = from_frame(Band, self.bands)
        alike = groupby(rows, key=lambda row: (row.column, row.new, row.old))
        return {key: tuple(own) for key, own in alike}

    def band(self, column: str, new: CellRow | str, old: CellRow | str) -> tuple[Band, ...]:
        """The difference of two cells over all k, by rising k; none for a pair that no question
        asks for in this direction, and where they have no seed in common."""
        return self._bands.get((column, _name(new), _name(old)), ())

    @cached_property
    def _first_loss(self) -> dict[tuple[str, str, str], FirstLoss]:
        rows = from_frame(FirstLoss, self.first_loss)
        return {(row.column, row.new, row.old): row for row in rows}

    def first_loss_of(
        self, column: str, new: CellRow | str, old: CellRow | str
    ) -> FirstLoss | None:
        """From which k on `new` loses to `old`, by their band; None where there is none."""
        return self._first_loss.get((column, _name(new), _name(old)))

    @cached_property
    def _front(self) -> dict[tuple[str, str], Front]:
        return {(row.column, row.cell): row for row in from_frame(Front, self.front)}

    def on_front(self, column: str, cell: CellRow | str) -> Front | None:
        """Whether a cell is dominated in the plane of pass@k at the smallest and the largest k;
        None for the base models, and where the family compares it with no other cell."""
        row = self._front.get((column, _name(cell)))
        return None if row is None or row.is_on_front is None else row

    @cached_property
    def _coverage(self) -> dict[tuple[str, str, int], Coverage]:
        rows = from_frame(Coverage, self.coverage)
        return {(row.column, row.cell, row.k): row for row in rows}

    def covered(self, column: str, cell: CellRow | str, k: int) -> Coverage | None:
        """Problems retained, lost and gained; None where the base models or the cell have none."""
        return self._coverage.get((column, _name(cell), k))

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """By cell, up to the checkpoint that stands for it."""
        return {row.cell: row for row in from_frame(Cost, self.cost.filter("is_chosen"))}

    @cached_property
    def likelihoods(self) -> dict[str, Likelihood]:
        """By cell; those that have a score."""
        return {row.cell: row for row in from_frame(Likelihood, self.likelihood)}

    @property
    def missing(self) -> list[tuple[str, str]]:
        """point_id of every planned point without results on some benchmark, and what it lacks."""
        rows = self.completeness.filter(~pl.col("has_results")).unique(
            "point_id", maintain_order=True
        )
        return [(point, lacks) for point, lacks in rows.select("point_id", "lacks").iter_rows()]

    @property
    def n_seeds(self) -> int:
        """Most training seeds behind a result."""
        return max((row.n_seeds for row in self._estimates.values()), default=0)

    @cached_property
    def drifts(self) -> list[Drift]:
        """How far apart engines are, of those pairs of which it is known."""
        return from_frame(Drift, self.drift)

    @cached_property
    def engines(self) -> dict[str, tuple[str, ...]]:
        """point_id of the points by the engine that made their draws, its fingerprint in words."""
        rows = self.completeness.drop_nulls("engine").unique(
            ["engine", "point_id"], maintain_order=True
        )
        points: dict[str, tuple[str, ...]] = {}
        for engine, point in rows.select("engine", "point_id").iter_rows():
            points[engine] = (*points.get(engine, ()), point)
        return points

    def graders(self, benchmarks: Sequence[str]) -> tuple[str, ...]:
        """Versions of the graders behind the results on these benchmarks."""
        rows = self.completeness.filter(pl.col("benchmark").is_in(benchmarks))
        return tuple(rows["grader"].drop_nulls().unique().sort())


def _name(cell: CellRow | str) -> str:
    return cell if isinstance(cell, str) else cell.cell


def reversed_(row: Comparison) -> Comparison:
    """The same comparison, old minus new."""
    return replace(
        row,
        new=row.old,
        new_step=row.old_step,
        old=row.new,
        old_step=row.new_step,
        difference=-row.difference,
        low=None if row.high is None else -row.high,
        high=None if row.low is None else -row.low,
        by_seed=tuple(-value for value in row.by_seed),
    )
