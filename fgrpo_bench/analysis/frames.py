"""Every number of a sweep, computed once and looked up.

In: the results of a sweep or of other checkpoints (`analyse`). Out: an `Analysis`, whose frames
report, MLflow and dashboard show; stored.py keeps it beside the sweep. Next: the columns are in
rows.py, how each is computed in checkpoints.py, question.py, comparisons.py, coverage.py and
other_scores.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby

import numpy as np
import polars as pl

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
    deciding,
    engines_of,
    key_of,
    read_scores,
)
from fgrpo_bench.analysis.comparisons import (
    Resamples,
    bands,
    compare,
    estimates,
    first_losses,
    fronts,
)
from fgrpo_bench.analysis.coverage import coverages
from fgrpo_bench.analysis.effects import effects
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.other_scores import (
    drifts,
    likelihoods,
    other_graders,
    tasks,
)
from fgrpo_bench.analysis.paths import along_paths
from fgrpo_bench.analysis.question import (
    NONE_DECLARED,
    Family,
    budget_family,
    every_pair,
    matches,
    question_of,
)
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
    Drift,
    EqualPassAt1,
    Estimate,
    FirstLoss,
    Front,
    Likelihood,
    PathGap,
    PathRange,
    ProblemRow,
    from_frame,
    make_cell,
    schema,
    to_frame,
)
from fgrpo_bench.specs.cell import BASE


def analyse(results: Results, rule: str = LAST) -> Analysis:
    """Every frame of evaluated checkpoints; a sweep in progress gives what is there so far. What a
    sweep alone has (costs, choices, likelihoods) has no rows without one.

    rule: one of fgrpo_bench.analysis.checkpoints.RULES. Raises ValueError for what is no rule, and
    where there is nothing to choose from.
    """
    check_rule(results, rule)
    # The order matters: a choice of checkpoints needs the scores of all of them, what is reported
    # needs the choice, and `held-out` must not report what it chose by.
    scores = read_scores(results)
    sweep, checkpoints = results.sweep, list[CheckpointRow]()
    if sweep is not None:
        checkpoints = choose(sweep, scores, rule)
        results = sweep = at_steps(sweep, _steps(sweep, checkpoints, rule))
    if rule == HELD_OUT:  # report on the problems that chose nothing
        for benchmark in deciding(results):
            scores[benchmark] = {
                at: cell_scores.half(for_selection=False)
                for at, cell_scores in scores[benchmark].items()
            }
    cells = cells_of(results)
    chosen = tuple((cell.cell, cell.step) for cell in cells.values())
    columns = results.columns
    ks = tuple(results.evaluation["ks"])
    resamples = Resamples(scores, results.averages)
    pairs, family = question_of(results, tuple(cells.values()))
    compared = every_pair(tuple(cells.values()), pairs)
    matched = list(matches(tuple(cells.values()), checkpoints))
    of_matched = [cells_at.pair for cells_at in matched if cells_at.pair]
    # A sweep that declares no comparison has nothing corrected here either.
    at_budget = budget_family(of_matched if family.pairs else [], ks, columns)
    of_budgets = compare(resamples, matched, columns=columns, ks=ks, family=at_budget)
    over_k = list(
        bands(resamples, [cells_at for cells_at in compared if cells_at.pair], columns, ks)
    )
    paths = along_paths(resamples, pairs, columns=columns, ks=ks, family=family)
    # A family is of last checkpoints or of paths, and corrected once.
    of_last = replace(family, pairs=()) if family.at_equal_pass_at_1 else family
    differences = compare(resamples, compared, columns=columns, ks=ks, family=of_last)
    trained = [cell.cell for cell in cells.values() if not cell.is_base]
    ends = sorted({ks[0], ks[-1]})
    rows = {
        "cells": cells.values(),
        "estimates": estimates(results, cells, resamples, columns, chosen),
        "comparisons": differences,
        "equal_budget": [row for row in of_budgets if row.k in at_budget.ks],
        "equal_pass_at_1": paths.compared,
        "path_ranges": paths.ranges,
        "path_gaps": paths.curves,
        "effects": effects(resamples, cells, columns, ks),
        "bands": over_k,
        "first_loss": first_losses(over_k),
        "front": fronts(differences, trained, columns, ends),
        "coverage": coverages(resamples, columns, chosen, ks),
        "cost": [] if sweep is None else costs(sweep.points, chosen),
        "checkpoints": checkpoints,
        "likelihood": [] if sweep is None else likelihoods(sweep, tuple(cells.values())),
        "completeness": _completeness(results, scores),
        "other_graders": other_graders(results, chosen, _problems_of(scores)),
        "drift": drifts(results),
        "tasks": tasks(results, chosen),
        # of evaluations alone: bundles leave a sweep's draws out, and its numbers rest on none
    }
    frames = {name: to_frame(FRAMES[name], rows_of_frame) for name, rows_of_frame in rows.items()}
    frames["problems"] = _problems(scores, chosen)  # by columns: there are many rows
    return Analysis(results=results, rule=rule, family=family.name, **frames)


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


def _completeness(
    results: Results, scores: Mapping[str, Mapping[At, Scores]]
) -> Iterator[Completeness]:
    for benchmark in results.benchmarks:
        for checkpoint in results.checkpoints:
            has_results = checkpoint.seed in scores[benchmark][key_of(checkpoint)].seeds
            marker = checkpoint.evaluated() if checkpoint.is_evaluated else None
            canaries = () if marker is None else marker.canaries_on(benchmark)
            yield Completeness(
                point_id=checkpoint.name,
                cell=checkpoint.label,
                seed=checkpoint.seed,
                benchmark=benchmark,
                has_results=has_results,
                lacks=None if has_results else checkpoint.lacks,
                engine=engines_of(canaries, checkpoint.engine(benchmark)),
                grader=None if marker is None else checkpoint.judge_on(benchmark),
            )


def _problems_of(scores: Mapping[str, Mapping[At, Scores]]) -> dict[str, tuple[str, ...]]:
    """By benchmark; every cell has the same."""
    return {name: next(iter(of_cell.values())).problems for name, of_cell in scores.items()}


def _problems(scores: Mapping[str, Mapping[At, Scores]], chosen: Sequence[At]) -> pl.DataFrame:
    """The rows of ProblemRow; problems that a seed lacks have none."""
    parts = [pl.DataFrame(schema=schema(ProblemRow))]
    for benchmark, of_cell in scores.items():
        for at in chosen:
            cell_scores = of_cell[at]
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
    family: str
    """The comparisons that p-values are corrected over, in words, or NONE_DECLARED."""
    cells: pl.DataFrame
    estimates: pl.DataFrame
    comparisons: pl.DataFrame
    equal_budget: pl.DataFrame
    """Comparisons of a focal cell with its base algorithm at another N, each at its latest
    checkpoint within the rollouts of the cheaper of the two; a family of their own."""
    equal_pass_at_1: pl.DataFrame
    path_ranges: pl.DataFrame
    path_gaps: pl.DataFrame
    effects: pl.DataFrame
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
    def noun(self) -> str:
        """What the checkpoints are called: a sweep's are its points."""
        return "checkpoints" if self.results.sweep is None else "points"

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
        in_family = pl.col("family").is_not_null()
        return tuple(from_frame(Comparison, self.comparisons.filter(at_ends | in_family)))

    @property
    def has_family(self) -> bool:
        """Whether any comparison was declared, so that some are corrected."""
        return self.family != NONE_DECLARED

    @cached_property
    def _family(self) -> Family:
        """As it is declared."""
        return question_of(self.results, tuple(self.by_cell.values()))[1]

    @property
    def at_equal_pass_at_1(self) -> bool:
        """Whether the family is declared at equal pass@1."""
        return self._family.at_equal_pass_at_1

    @cached_property
    def on_paths(self) -> tuple[EqualPassAt1, ...]:
        """Pairs at equal pass@1: those of the family where it is declared so; else every one on the
        headline at the largest k."""
        rows = from_frame(EqualPassAt1, self.equal_pass_at_1)
        if self.at_equal_pass_at_1:
            return tuple(row for row in rows if row.family is not None)
        return tuple(row for row in rows if row.column in self.headline and row.k == self.ks[-1])

    @cached_property
    def off_paths(self) -> tuple[PathRange, ...]:
        """Pairs, likewise, that are inconclusive because their ranges of pass@1 do not meet."""
        family = self._family
        asked = {(pair.new.cell, pair.old.cell) for pair in family.pairs}
        columns = family.columns if family.at_equal_pass_at_1 else self.headline
        return tuple(
            row
            for row in from_frame(PathRange, self.path_ranges)
            if row.reason is not None
            and row.column in columns
            and (not family.at_equal_pass_at_1 or (row.new, row.old) in asked)
        )

    @cached_property
    def _path_gaps(self) -> dict[tuple[str, int, str, str], tuple[PathGap, ...]]:
        rows = from_frame(PathGap, self.path_gaps)
        alike = groupby(rows, key=lambda row: (row.column, row.k, row.new, row.old))
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
        rows = self.estimates.filter(
            pl.col("column") == column,
            pl.col("k").is_in((1, k)),
            pl.col("cell").is_in((BASE, cell)),
            pl.col("mean").is_not_null(),
        )
        if 1 not in self.ks:
            return [], [], []
        by_step = rows.pivot("k", index="step", values="mean").drop_nulls().sort("step")
        x, y = (100 * by_step[str(end)].to_numpy() for end in (1, k))
        return by_step["step"].to_list(), x.tolist(), y.tolist()

    @cached_property
    def in_question(self) -> tuple[Comparison, ...]:
        """The rows of `asked` that views show as the question: those of the family; where none was
        declared, of the first kind of pairs on the headline, uncorrected."""
        if self.at_equal_pass_at_1:
            return self.on_paths
        if self.has_family:
            return tuple(row for row in self.asked if row.family is not None)
        pairs, _ = question_of(self.results, tuple(self.by_cell.values()))
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
        return {key: tuple(of_pair) for key, of_pair in alike}

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
    def _coverage(self) -> dict[tuple[str, str, int], CoverageRow]:
        rows = from_frame(CoverageRow, self.coverage)
        return {(row.column, row.cell, row.k): row for row in rows}

    def covered(self, column: str, cell: CellRow | str, k: int) -> CoverageRow | None:
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
        """Every checkpoint without results on some benchmark by its name, of a sweep the point_id,
        and what it lacks."""
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
        """Names of the checkpoints, of a sweep point_ids, by the engine that made their draws, its
        fingerprint in words."""
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
