"""Every number of a sweep, computed once and looked up.

In: the results of a sweep or of other checkpoints (`analyse`). Out: an `Analysis`, whose frames
report, MLflow and dashboard show; stored.py keeps it beside the sweep. Next: the columns are in
rows.py, how each is computed in checkpoints.py, question.py, comparisons.py, by_value.py,
coverage.py and other_scores.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis.by_value import Partition, notes_on_values, partitions, rows_by_value
from fgrpo_bench.analysis.checkpoints import (
    HELD_OUT,
    LAST,
    STEP,
    At,
    Scores,
    at_steps,
    check_rule,
    choose,
    costs,
    describe_engines,
    frame_key,
    read_scores,
    selection_benchmarks,
)
from fgrpo_bench.analysis.comparisons import (
    Resamples,
    bands,
    compare_cells,
    estimates,
    first_losses,
    fronts,
)
from fgrpo_bench.analysis.coverage import coverages
from fgrpo_bench.analysis.effects import effects
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.other_scores import likelihoods, other_graders
from fgrpo_bench.analysis.paths import PathRows, along_paths
from fgrpo_bench.analysis.question import (
    NONE_DECLARED,
    Compared,
    Family,
    Pair,
    budget_family,
    every_pair,
    matches,
    pairs_and_family,
)
from fgrpo_bench.analysis.readings import readings
from fgrpo_bench.analysis.results import Results, SweepResults
from fgrpo_bench.analysis.rows import (
    FRAMES,
    Band,
    CellRow,
    CheckpointRow,
    Comparison,
    Completeness,
    Cost,
    CoverageRow,
    EffectRow,
    EqualPassAt1,
    Estimate,
    FirstLoss,
    Likelihood,
    OtherGrader,
    ParetoFront,
    PathGap,
    PathRange,
    ProblemRow,
    ReadingRow,
    Rows,
    ValueComparison,
    ValueEstimate,
    make_cell,
    schema,
)
from fgrpo_bench.specs.cell import BASE


def analyse(results: Results, rule: str = LAST, by: str | None = None) -> Analysis:
    """Evaluated checkpoints; a sweep in progress gives what is there so far. What a sweep alone has
    (costs, choices, likelihoods) has no rows without one. Read is every pass@k at once, computed
    what is asked for.

    rule: one of fgrpo_bench.analysis.checkpoints.RULES. by: the column of the problems by whose
    values pass@k is told; None is that of a benchmark's own, as SynLogic's task. Raises ValueError
    for what is no rule, where there is nothing to choose from, and for a column as
    fgrpo_bench.analysis.by_value.partitions.
    """
    check_rule(results, rule)
    # The order matters: a choice of checkpoints needs the scores of all of them, what is reported
    # needs the choice, and `held-out` must not report what it chose by.
    scores = read_scores(results)
    sweep, checkpoints = results.sweep, list[CheckpointRow]()
    if sweep is not None:
        checkpoints = choose(sweep, scores, rule)
        results = at_steps(sweep, _steps(sweep, checkpoints, rule))
    if rule == HELD_OUT:  # report on the problems that chose nothing
        for benchmark in selection_benchmarks(results):
            scores[benchmark] = {
                at: cell_scores.selection_split(for_selection=False)
                for at, cell_scores in scores[benchmark].items()
            }
    computed = _Computed(results, scores, checkpoints, by)
    if by is not None:  # a column that is none is refused before anything is computed
        _ = computed.partitions
    makers: dict[str, Callable[[], Iterable[Any]]] = {
        "cells": lambda: computed.cells.values(),
        "estimates": computed.estimates,
        "comparisons": lambda: computed.differences,
        "equal_budget": computed.equal_budget,
        "equal_pass_at_1": lambda: computed.paths.compared,
        "path_ranges": lambda: computed.paths.ranges,
        "path_gaps": lambda: computed.paths.curves,
        "effects": computed.effects,
        "bands": lambda: computed.bands,
        "first_loss": lambda: first_losses(computed.bands),
        "front": computed.fronts,
        "coverage": computed.coverages,
        "cost": computed.costs,
        "checkpoints": lambda: checkpoints,
        "likelihood": computed.likelihoods,
        "completeness": computed.completeness,
        "other_graders": computed.other_graders,
        "by_value": lambda: computed.by_value[0],
        "by_value_comparisons": lambda: computed.by_value[1],
    }
    tables = {name: Rows(FRAMES[name], rows=make) for name, make in makers.items()}
    # by columns: there are many rows
    tables["problems"] = Rows(ProblemRow, frame=computed.problems)
    tables["readings"] = Rows(ReadingRow, rows=computed.readings)
    family = computed.question[1].name
    return Analysis(results=computed.results, rule=rule, by=by, family=family, tables=tables)


class _Computed:
    """What several kinds of rows rest on, computed once."""

    def __init__(
        self,
        results: Results,
        scores: Mapping[str, Mapping[At, Scores]],
        checkpoints: Sequence[CheckpointRow],
        by: str | None,
    ) -> None:
        self.results, self.scores, self.checkpoints, self.by = results, scores, checkpoints, by
        self.cells = cells_of(results)
        self.chosen = tuple((cell.cell, cell.step) for cell in self.cells.values())
        self.columns, self.ks = results.columns, tuple(results.evaluation["ks"])
        self.question: tuple[list[Pair], Family] = pairs_and_family(
            results, tuple(self.cells.values())
        )

    @cached_property
    def resamples(self) -> Resamples:
        return Resamples(self.scores, self.results.averages)

    @cached_property
    def compared(self) -> list[Compared]:
        return every_pair(tuple(self.cells.values()), self.question[0])

    @cached_property
    def differences(self) -> list[Comparison]:
        family = self.question[1]
        # A family is of last checkpoints or of paths, and corrected once.
        of_last = replace(family, pairs=()) if family.at_equal_pass_at_1 else family
        return compare_cells(
            self.resamples, self.compared, columns=self.columns, ks=self.ks, family=of_last
        )

    @cached_property
    def paths(self) -> PathRows:
        pairs, family = self.question
        return along_paths(self.resamples, pairs, columns=self.columns, ks=self.ks, family=family)

    @cached_property
    def bands(self) -> list[Band]:
        declared = [cells_at for cells_at in self.compared if cells_at.pair]
        return list(bands(self.resamples, declared, self.columns, self.ks))

    def estimates(self) -> Iterator[Estimate]:
        return estimates(self.results, self.cells, self.resamples, self.columns, self.chosen)

    def equal_budget(self) -> Iterator[Comparison]:
        matched = list(matches(tuple(self.cells.values()), self.checkpoints))
        pairs = [cells_at.pair for cells_at in matched if cells_at.pair]
        # A sweep that declares no comparison has nothing corrected here either.
        family = budget_family(pairs if self.question[1].pairs else [], self.ks, self.columns)
        rows = compare_cells(
            self.resamples, matched, columns=self.columns, ks=self.ks, family=family
        )
        return (row for row in rows if row.k in family.ks)

    def effects(self) -> Iterable[EffectRow]:
        return effects(self.resamples, self.cells, self.columns, self.ks)

    def fronts(self) -> Iterable[ParetoFront]:
        trained = [cell.cell for cell in self.cells.values() if not cell.is_base]
        ends = sorted({self.ks[0], self.ks[-1]})
        return fronts(self.differences, trained, self.columns, ends)

    def coverages(self) -> Iterable[CoverageRow]:
        return coverages(self.resamples, self.columns, self.chosen, self.ks)

    def costs(self) -> Iterable[Cost]:
        sweep = self.results.sweep
        return [] if sweep is None else costs(sweep.points, self.chosen)

    def likelihoods(self) -> Iterable[Likelihood]:
        sweep = self.results.sweep
        return [] if sweep is None else likelihoods(sweep, tuple(self.cells.values()))

    @cached_property
    def problem_ids(self) -> dict[str, tuple[str, ...]]:
        """By benchmark: every cell has the same."""
        return {
            name: next(iter(of_cell.values())).problems for name, of_cell in self.scores.items()
        }

    def other_graders(self) -> Iterable[OtherGrader]:
        return other_graders(self.results, self.chosen, self.problem_ids)

    def readings(self) -> Iterator[ReadingRow]:
        return readings(self.results, self.chosen, self.problem_ids)

    @cached_property
    def partitions(self) -> list[Partition]:
        return partitions(self.results, self.problem_ids, self.by)

    @cached_property
    def by_value(self) -> tuple[list[ValueEstimate], list[ValueComparison]]:
        none = replace(self.question[1], pairs=())  # corrected over the values alone

        def differing(resamples: Resamples, value: str) -> list[Comparison]:
            there = resamples.scores[value]
            asked = [of for of in self.compared if of.pair and of.new in there and of.old in there]
            return compare_cells(resamples, asked, columns=[value], ks=self.ks, family=none)

        def estimated(resamples: Resamples, value: str) -> Iterator[Estimate]:
            return estimates(self.results, self.cells, resamples, [value], self.chosen)

        return rows_by_value(self.partitions, self.scores, self.chosen, estimated, differing)

    def completeness(self) -> Iterator[Completeness]:
        for benchmark in self.results.benchmarks:
            for checkpoint in self.results.checkpoints:
                has_results = checkpoint.seed in self.scores[benchmark][frame_key(checkpoint)].seeds
                marker = checkpoint.evaluated() if checkpoint.is_evaluated else None
                yield Completeness(
                    point_id=checkpoint.name,
                    cell=checkpoint.label,
                    seed=checkpoint.seed,
                    benchmark=benchmark,
                    has_results=has_results,
                    lacks=None if has_results else checkpoint.missing_reason,
                    engine=describe_engines(checkpoint.engines(benchmark)),
                    grader=None if marker is None else checkpoint.judge_on(benchmark),
                )

    def problems(self) -> pl.DataFrame:
        """The rows of ProblemRow; problems that a seed lacks have none."""
        parts = [pl.DataFrame(schema=schema(ProblemRow))]
        for benchmark, of_cell in self.scores.items():
            for at in self.chosen:
                cell_scores = of_cell[at]
                # A row only where a seed has the problem, seeds outermost.
                seed, problem = cell_scores.present.nonzero()
                parts.append(
                    pl.DataFrame(
                        {
                            "benchmark": [benchmark] * len(seed),
                            "problem_id": np.array(cell_scores.problems, dtype=object)[problem],
                            "cluster": pl.Series(cell_scores.cluster_names, dtype=pl.String).gather(
                                problem
                            ),
                            "cell": [at[0]] * len(seed),
                            "seed": pl.Series(cell_scores.seeds, dtype=pl.Int64).gather(seed),
                            "n_drawn": cell_scores.n_drawn[seed, problem],
                            "n_scored": cell_scores.n_scored[seed, problem],
                            "n_correct": cell_scores.n_correct[seed, problem],
                            "success_rate": cell_scores.success_rates()[seed, problem],
                        },
                        schema=schema(ProblemRow),
                    ).with_columns(
                        pl.col("n_drawn").replace(0, None), pl.col("success_rate").fill_nan(None)
                    )
                )
        return pl.concat(parts)


def _steps(
    results: SweepResults, checkpoints: Sequence[CheckpointRow], rule: str
) -> Mapping[str, int]:
    if rule.startswith(STEP):
        names = {point.label for point in results.points if point.cell is not None}
        return dict.fromkeys(names, int(rule.removeprefix(STEP)))
    return {row.cell: row.step for row in checkpoints if row.is_chosen}


def cells_of(results: Results) -> dict[str, CellRow]:
    """Every planned cell, or label, by its name, base models first."""
    by_label: dict[str, list[EvaluatedCheckpoint]] = {}
    for checkpoint in results.checkpoints:
        by_label.setdefault(checkpoint.label, []).append(checkpoint)
    return {
        label: make_cell(
            checkpoints[0].cell,
            label=label,
            title=checkpoints[0].title,
            step=checkpoints[0].step,
            n_planned=len(checkpoints),
        )
        for label, checkpoints in by_label.items()
    }


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Every number of a sweep under one rule for its checkpoints, or of checkpoints from elsewhere.

    The columns of a frame are the attributes of its row class, by
    fgrpo_bench.analysis.rows.FRAMES.
    """

    results: Results = field(repr=False)
    """Where the files are, and what was asked; of a sweep what it declares."""
    rule: str
    """What chose the checkpoint of every run (fgrpo_bench.analysis.checkpoints.RULES)."""
    by: str | None = None
    """The column by whose values `by_value` tells pass@k; None: that of each benchmark's own."""
    family: str
    """The comparisons that p-values are corrected over, in words, or NONE_DECLARED."""
    tables: Mapping[str, Rows[Any]] = field(repr=False)
    """Rows by the names of FRAMES. The frame of each is an attribute of its name."""

    def __getattr__(self, name: str) -> pl.DataFrame:
        """A frame, by its name."""
        if name not in FRAMES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.tables[name].frame

    def __dir__(self) -> list[str]:
        """With the frames, which a notebook completes."""
        return [*super().__dir__(), *FRAMES]

    def rows(self, name: str) -> tuple[Any, ...]:
        """Of a frame, by its name: instances of its row class, by FRAMES."""
        return self.tables[name].rows

    @property
    def noun(self) -> str:
        """What the checkpoints are called: a sweep's are those of its runs."""
        return "checkpoints" if self.results.sweep is None else "runs"

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
        return {cell.cell: cell for cell in self.rows("cells")}

    @cached_property
    def _estimates(self) -> dict[tuple[str, str, int], Estimate]:
        rows = self.rows("estimates")
        return {(row.column, row.cell, row.k): row for row in rows if row.is_chosen}

    def estimate(self, column: str, cell: CellRow | str, k: int) -> Estimate:
        """pass@k of a cell at the checkpoint that stands for it; KeyError for no such row."""
        return self._estimates[column, _name(cell), k]

    def estimates_on(self, column: str) -> list[Estimate]:
        """The same of every cell, at every k."""
        return [row for row in self._estimates.values() if row.column == column]

    def over_k(self, column: str, cell: CellRow | str) -> tuple[Estimate, ...]:
        """The same at every k."""
        return tuple(self.estimate(column, cell, k) for k in self.ks)

    @cached_property
    def _at_every_checkpoint(self) -> dict[str, list[Estimate]]:
        by_cell: dict[str, list[Estimate]] = {}
        for row in self.rows("estimates"):
            by_cell.setdefault(row.cell, []).append(row)
        return by_cell

    def at_every_checkpoint(self, cell: str) -> list[Estimate]:
        """pass@k of a cell at each evaluated checkpoint, on every column and at every k."""
        return self._at_every_checkpoint.get(cell, [])

    @cached_property
    def question_rows(self) -> tuple[Comparison, ...]:
        """Those that some question asks for, at the smallest and the largest k, and the family."""
        return tuple(
            row
            for row in self.rows("comparisons")
            if row.family is not None or (row.group is not None and row.k in self.ends)
        )

    @property
    def has_family(self) -> bool:
        """Whether any comparison was declared, so that some are corrected."""
        return self.family != NONE_DECLARED

    @cached_property
    def _family(self) -> Family:
        """As it is declared."""
        return pairs_and_family(self.results, tuple(self.by_cell.values()))[1]

    @property
    def at_equal_pass_at_1(self) -> bool:
        """Whether the family is declared at equal pass@1."""
        return self._family.at_equal_pass_at_1

    @cached_property
    def on_paths(self) -> tuple[EqualPassAt1, ...]:
        """Pairs at equal pass@1: those of the family where it is declared so; else every one on the
        headline at the largest k."""
        rows = self.rows("equal_pass_at_1")
        if self.at_equal_pass_at_1:
            return tuple(row for row in rows if row.family is not None)
        return tuple(row for row in rows if row.column in self.headline and row.k == self.ks[-1])

    @cached_property
    def off_paths(self) -> tuple[PathRange, ...]:
        """Pairs, likewise, that are inconclusive because their ranges of pass@1 do not meet."""
        family = self._family
        declared = {(pair.new.cell, pair.old.cell) for pair in family.pairs}
        columns = family.columns if family.at_equal_pass_at_1 else self.headline
        return tuple(
            row
            for row in self.rows("path_ranges")
            if row.reason is not None
            and row.column in columns
            and (not family.at_equal_pass_at_1 or (row.new, row.old) in declared)
        )

    @cached_property
    def _path_gaps(self) -> dict[tuple[str, int, str, str], tuple[PathGap, ...]]:
        alike = groupby(
            self.rows("path_gaps"), key=lambda row: (row.column, row.k, row.new, row.old)
        )
        return {key: tuple(of_pair) for key, of_pair in alike}

    def path_gap(self, row: EqualPassAt1) -> tuple[PathGap, ...]:
        """The difference of a pair along the range that both reach, by rising pass@1; none where
        its seeds have no range in common."""
        return self._path_gaps.get((row.column, row.k, row.new, row.old), ())

    def checkpoints_of(
        self, column: str, cell: str, k: int
    ) -> tuple[list[int], list[float], list[float]]:
        """Steps of a cell's evaluated checkpoints, the base models first, and mean pass@1 and
        pass@k of each in percent; none where pass@1 is not among the k."""
        by_step: dict[int, dict[int, float]] = {}
        for row in (*self.at_every_checkpoint(BASE), *self.at_every_checkpoint(cell)):
            if row.column == column and row.mean is not None:
                by_step.setdefault(row.step, {})[row.k] = 100 * row.mean
        whole = [(step, by_step[step]) for step in sorted(by_step) if {1, k} <= {*by_step[step]}]
        return [step for step, _ in whole], [of[1] for _, of in whole], [of[k] for _, of in whole]

    def notes_on_values(self, benchmark: str) -> tuple[str, ...]:
        """What the rows of `by_value` of a benchmark leave out, in sentences."""
        rows = [row for row in self.rows("by_value") if row.column == benchmark]
        with_column = {row.column for row in self.rows("by_value")}
        sizes = self.problems.group_by("benchmark").agg(pl.col("problem_id").n_unique())
        n_problems = dict(sizes.sort("benchmark").iter_rows())
        lacking = [name for name in n_problems if self.by is not None and name not in with_column]
        of_values = {row.value: row.n_of_value for row in rows}
        return notes_on_values(rows[0].by, of_values, n_problems.get(benchmark, 0), lacking)

    @cached_property
    def in_question(self) -> tuple[Comparison, ...]:
        """The rows of `asked` that views show as the question: those of the family; where none was
        declared, of the first kind of pairs on the headline, uncorrected."""
        if self.at_equal_pass_at_1:
            return self.on_paths
        if self.has_family:
            return tuple(row for row in self.question_rows if row.family is not None)
        pairs, _ = pairs_and_family(self.results, tuple(self.by_cell.values()))
        first = {(p.new.cell, p.old.cell) for p in pairs if p.kind == pairs[0].kind}
        rows = (row for row in self.question_rows if (row.new, row.old) in first)
        return tuple(row for row in rows if row.column in self.headline)

    @cached_property
    def _pairs(self) -> dict[tuple[str, int, str, str], Comparison]:
        return {(row.column, row.k, row.new, row.old): row for row in self.rows("comparisons")}

    def comparison(self, column: str, k: int, new: str, old: str) -> Comparison | None:
        """The difference of two cells, turned round where the frame has the other direction; None
        where they have no seed in common."""
        pairs = self._pairs
        row, turned = pairs.get((column, k, new, old)), pairs.get((column, k, old, new))
        return row or (turned and reversed_(turned))

    def against(self, column: str, k: int, old: str) -> list[Comparison]:
        """How all other cells differ from one, in their order; those without a seed in common with
        it are left out."""
        rows = [self.comparison(column, k, new, old) for new in self.by_cell]
        return [row for row in rows if row is not None]

    @cached_property
    def _bands(self) -> dict[tuple[str, str, str], tuple[Band, ...]]:
        alike = groupby(self.rows("bands"), key=lambda row: (row.column, row.new, row.old))
        return {key: tuple(of_pair) for key, of_pair in alike}

    def band(self, column: str, new: CellRow | str, old: CellRow | str) -> tuple[Band, ...]:
        """The difference of two cells over all k, by rising k; none for a pair that no question
        asks for in this direction, and where they have no seed in common."""
        return self._bands.get((column, _name(new), _name(old)), ())

    @cached_property
    def _first_loss(self) -> dict[tuple[str, str, str], FirstLoss]:
        return {(row.column, row.new, row.old): row for row in self.rows("first_loss")}

    def first_loss_of(
        self, column: str, new: CellRow | str, old: CellRow | str
    ) -> FirstLoss | None:
        """From which k on `new` loses to `old`, by their band; None where there is none."""
        return self._first_loss.get((column, _name(new), _name(old)))

    @cached_property
    def _front(self) -> dict[tuple[str, str], ParetoFront]:
        return {(row.column, row.cell): row for row in self.rows("front")}

    def on_front(self, column: str, cell: CellRow | str) -> ParetoFront | None:
        """Whether a cell is dominated in the plane of pass@k at the smallest and the largest k;
        None for the base models, and where the family compares it with no other cell."""
        row = self._front.get((column, _name(cell)))
        return None if row is None or row.is_on_front is None else row

    @cached_property
    def _coverage(self) -> dict[tuple[str, str, int], CoverageRow]:
        return {(row.column, row.cell, row.k): row for row in self.rows("coverage")}

    def covered(self, column: str, cell: CellRow | str, k: int) -> CoverageRow | None:
        """Problems retained, lost and gained; None where the base models or the cell have none."""
        return self._coverage.get((column, _name(cell), k))

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """By cell, up to the checkpoint that stands for it."""
        return {row.cell: row for row in self.rows("cost") if row.is_chosen}

    @cached_property
    def likelihoods(self) -> dict[str, Likelihood]:
        """By cell; those that have a score."""
        return {row.cell: row for row in self.rows("likelihood")}

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Every checkpoint without results on some benchmark by its name, of a sweep the point_id,
        and what it lacks."""
        first: dict[str, str] = {}
        for row in self.rows("completeness"):
            if not row.has_results:
                first.setdefault(row.point_id, row.lacks)
        return list(first.items())

    @property
    def with_results(self) -> str:
        """How many have results on every benchmark, e.g. `19 of 21 runs have results`. As in plan
        and status the base models of a sweep are no runs: they are counted apart, where some of
        them lack results."""
        lacking = {name for name, _ in self.missing}
        checkpoints = self.results.checkpoints
        if self.results.sweep is None:
            kinds = {self.noun: checkpoints}
        else:
            trained = tuple(item for item in checkpoints if item.cell is not None)
            bases = tuple(item for item in checkpoints if item.cell is None)
            kinds = {self.noun: trained, "base models": bases}
        counts = []
        for noun, alike in kinds.items():
            n, n_lacking = len(alike), sum(item.name in lacking for item in alike)
            if n_lacking or noun == self.noun:
                counts.append(f"{n - n_lacking} of {n} {noun if n != 1 else noun[:-1]}")
        return f"{' and '.join(counts)} have results"

    @property
    def n_seeds(self) -> int:
        """Most training seeds behind a result."""
        return max((row.n_seeds for row in self._estimates.values()), default=0)

    @cached_property
    def engines(self) -> dict[str, tuple[str, ...]]:
        """Names of the checkpoints, of a sweep point_ids, by the engine that made their draws, its
        fingerprint in words."""
        points: dict[str, dict[str, None]] = {}
        for row in self.rows("completeness"):
            if row.engine is not None:
                points.setdefault(row.engine, {})[row.point_id] = None
        return {engine: tuple(names) for engine, names in points.items()}

    def graders(self, benchmarks: Sequence[str]) -> tuple[str, ...]:
        """Versions of the graders behind the results on these benchmarks."""
        rows = [row for row in self.rows("completeness") if row.benchmark in benchmarks]
        return tuple(sorted({row.grader for row in rows if row.grader is not None}))


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
