"""Evaluated checkpoints: what each scored and cost, and which one stands for its run.

In: the stored tables of evaluations and training runs. Out: `Scores`, counts and pass@k as arrays
by benchmark, cell and step; the rows of `checkpoints` and `cost`; and one checkpoint alone
(`checkpoint_estimates`). Next: question.py says which cells are compared, comparisons.py compares
their scores.

A rule chooses for a cell, by its mean over seeds, so that all runs of a table row have equal steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import PointResult, Results, SweepResults
from fgrpo_bench.analysis.rows import CheckpointRow, Cost, Shares, open_part, unfinished_of
from fgrpo_bench.analysis.scoring import bounds_of, shares_of
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.specs import Cell
from fgrpo_bench.stages.markers import Marker, read_marker
from fgrpo_bench.stages.tables import BOUNDS, N_DRAWN
from fgrpo_bench.stats.intervals import FRACTIONS, estimate
from fgrpo_bench.stats.passk import draw_variance, pass_at_ks
from fgrpo_bench.stats.selection import Candidate, best, is_for_selection, saved_steps
from fgrpo_bench.stats.staged import StagedDesign

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
At = tuple[str, int]
"""A cell by its name, at the checkpoint of a step."""


def frame_key(checkpoint: EvaluatedCheckpoint) -> At:
    """What it is called in frames, with its step."""
    return checkpoint.label, checkpoint.step


def read_scores(results: Results) -> dict[str, dict[At, Scores]]:
    """By benchmark, then cell and step: all are there, with no seeds where nothing is done."""
    every = results.every
    designs = {i: item.stopping() for i, item in enumerate(every) if item.is_evaluated}
    return {name: _benchmark_scores(every, designs, name, results.evaluation["ks"])
            for name in results.benchmarks}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Of one cell at one checkpoint on one benchmark; problems in the order of their names."""

    seeds: tuple[int | None, ...]
    """Training seeds that have results, rising; one None where it was not told."""
    problems: tuple[str, ...] = field(repr=False)
    """Those that any checkpoint has."""
    cluster_names: tuple[str | None, ...] = field(repr=False)
    """[problems], what a problem shares with others; None: nothing."""
    present: NDArray[np.bool_] = field(repr=False)
    """[seeds, problems], whether a seed has the problem."""
    values: Floats = field(repr=False)
    """[seeds, problems, ks], pass@k; nan where a problem has no estimate."""
    bounds: Floats = field(repr=False)
    """[2, seeds, problems, ks], the same were all unscored draws wrong, and were they right."""
    n_scored: Ints = field(repr=False)
    """[seeds, problems], judged draws; 0 where a problem has none."""
    n_correct: Ints = field(repr=False)
    """[seeds, problems], correct draws."""
    n_drawn: Ints = field(repr=False)
    """[seeds, problems], draws up to where a problem stopped, judged or not; 0 where a seed lacks
    the problem, and where its judgements ask for draws that are missing."""
    n_unscored: tuple[Ints, ...] = field(repr=False)
    """[seeds] of [problems, stages], draws that were not judged, by the stage that made them; -1 of
    problems that have not stopped or are not there."""
    unfinished: Ints = field(repr=False)
    """[3, seeds, problems], those of tables.UNFINISHED; -1 where they are not known or there."""
    designs: tuple[StagedDesign, ...]
    """[seeds], by which problems stop; seeds may have other ones for a while."""
    is_shared_across_seeds: bool
    """Whether one evaluation stands for several seeds: that of a base model that they share."""
    is_redesigned: tuple[bool, ...]
    """[seeds], of fgrpo_bench.analysis.evaluated.EvaluatedCheckpoint.has_new_design."""

    def pass_at_ks(self, ks: tuple[int, ...]) -> Floats:
        """pass@k at any k, [seeds, problems, ks]; nan where a problem has no estimate."""
        return self._by_seed(ks, lambda n, c: pass_at_ks(n, c, ks), StagedDesign.pass_at_k)

    def success_rates(self) -> Floats:
        """pass@1, of a fixed number of draws the share of correct ones, [seeds, problems]; nan
        likewise."""
        # Where correct draws stop a problem their share is high.
        return self._by_seed((1,), lambda n, c: (c / n)[:, None], StagedDesign.pass_at_k)[..., 0]

    def draw_variance(self, k: int) -> Floats:
        """Unbiased estimate of the variance of pass@k over the draws, [seeds, problems]; nan where
        a problem has fewer than 2k judged draws, or a design's last stage has."""

        def variance(n: Ints, c: Ints) -> Floats:
            out = np.full((len(n), 1), np.nan)
            # An unbiased estimate needs two sets of k draws that share none.
            if (enough := n >= 2 * k).any():
                out[enough, 0] = draw_variance(n_samples=n[enough], n_correct=c[enough], k=k)
            return out

        return self._by_seed((k,), variance, StagedDesign.draw_variance)[..., 0]

    @cached_property
    def clusters(self) -> Ints | None:
        """As `cluster_numbers`."""
        return cluster_numbers(self.cluster_names)

    def _by_seed(
        self,
        ks: tuple[int, ...],
        usual: Callable[[Ints, Ints], Floats],
        exact: Callable[..., Any],
    ) -> Floats:
        """[seeds, problems, ks], nan where a problem has no judged draw or has not stopped.

        usual: by the formula of a fixed number of draws, in floating point, which is many times as
        quick: of judged and of correct draws, [problems] each, gives [problems, ks]. exact: a
        method of StagedDesign, for draws that stop.
        """
        out = np.full((*self.present.shape, len(ks)), np.nan)
        for row, design in enumerate(self.designs):
            n, c = self.n_scored[row], self.n_correct[row]
            if design.is_fixed:
                judged = n > 0
                out[row, judged] = usual(n[judged], c[judged])
                continue
            stopped = self.n_drawn[row] > 0
            out[row, stopped] = exact(
                design,
                n_drawn=self.n_drawn[row, stopped, None],
                n_correct=c[stopped, None],
                n_unscored=self.n_unscored[row][stopped, None],
                k=np.array(ks),
            )
        return out

    def for_seeds(self, seeds: Sequence[int | None]) -> Scores:
        """The same of these seeds alone, in this order."""
        if tuple(seeds) == self.seeds:
            return self
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            present=self.present[rows],
            values=self.values[rows],
            bounds=self.bounds[:, rows],
            n_scored=self.n_scored[rows],
            n_correct=self.n_correct[rows],
            n_drawn=self.n_drawn[rows],
            n_unscored=tuple(self.n_unscored[row] for row in rows),
            unfinished=self.unfinished[:, rows],
            designs=tuple(self.designs[row] for row in rows),
            is_redesigned=tuple(self.is_redesigned[row] for row in rows),
        )

    def selection_split(self, *, for_selection: bool) -> Scores:
        """The half of the problems that selects checkpoints, or the other one."""
        return self.for_problems(
            [i for i, p in enumerate(self.problems) if is_for_selection(p) == for_selection]
        )

    def for_problems(self, kept: Sequence[int]) -> Scores:
        """The same of the problems at these places alone, in this order."""
        return replace(
            self,
            problems=tuple(self.problems[i] for i in kept),
            cluster_names=tuple(self.cluster_names[i] for i in kept),
            present=self.present[:, kept],
            values=self.values[:, kept],
            bounds=self.bounds[:, :, kept],
            n_scored=self.n_scored[:, kept],
            n_correct=self.n_correct[:, kept],
            n_drawn=self.n_drawn[:, kept],
            n_unscored=tuple(counts[kept] for counts in self.n_unscored),
            unfinished=self.unfinished[:, :, kept],
        )


def cluster_numbers(names: Sequence[str | None]) -> Ints | None:
    """[problems], the number of each problem's cluster, from 0 in order of first appearance;
    problems without one have a number of their own. None where no two problems share one."""
    numbers: dict[object, int] = {}
    keys = [(i,) if name is None else name for i, name in enumerate(names)]
    by_problem = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(by_problem) if len(numbers) < len(by_problem) else None


def _benchmark_scores(
    checkpoints: Sequence[EvaluatedCheckpoint],
    designs: Mapping[int, StagedDesign],
    benchmark: str,
    ks: Sequence[int],
) -> dict[At, Scores]:
    tables = [checkpoint.passk(benchmark) for checkpoint in checkpoints]
    table = pl.concat(tables)
    problems = table["problem_id"].unique().sort()
    clusters = _cluster_names(benchmark, table)
    # Where each line of the tables goes: its checkpoint is a row, its problem a column.
    row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    place = problems.search_sorted(table["problem_id"]).to_numpy()
    shape = len(tables), len(problems)
    present = np.zeros(shape, bool)
    present[row, place] = True
    n_scored, n_correct, n_drawn = np.zeros((3, *shape), int)
    n_scored[row, place] = table["n_scored"].to_numpy()
    n_correct[row, place] = table["n_correct"].to_numpy()
    n_drawn[row, place] = table.select(N_DRAWN.fill_null(0)).to_series().to_numpy()
    # Not 0: that would say that no draw was cut off where nothing is known.
    unfinished = np.full((3, *shape), -1)
    unfinished[:, row, place] = unfinished_of(table)
    values = np.full((3, *shape, len(ks)), np.nan)
    is_k = np.isin(table["k"].to_numpy(), ks)
    at = row[is_k], place[is_k], np.searchsorted(ks, table["k"].to_numpy()[is_k])
    for i, name in enumerate(("pass_at_k", *BOUNDS)):
        values[i][at] = table[name].to_numpy()[is_k]
    names, out = tuple(problems), {}
    for key, rows in _rows_by_key(checkpoints).items():
        # Pairing goes by the order of seeds, so that it is the same in every cell.
        done = sorted((r for r in rows if present[r].any()), key=lambda r: _place(checkpoints[r]))
        unscored = [
            _unscored(
                checkpoints[r].evaluate.benchmark(benchmark).passk(),
                designs[r],
                tables[r],
                problems,
            )
            for r in done
        ]
        out[key] = Scores(
            seeds=tuple(checkpoints[r].seed for r in done),
            problems=names,
            cluster_names=clusters,
            present=present[done],
            values=values[0, done],
            bounds=values[1:, done],
            n_scored=n_scored[done],
            n_correct=n_correct[done],
            n_drawn=n_drawn[done],
            n_unscored=tuple(unscored),
            unfinished=unfinished[:, done],
            designs=tuple(designs[r] for r in done),
            # Points that share a base model share its evaluation, and so its folder.
            is_shared_across_seeds=len({checkpoints[r].evaluate.folder for r in done}) < len(done),
            is_redesigned=tuple(checkpoints[r].has_new_design(benchmark) for r in done),
        )
    return out


def _cluster_names(benchmark: str, table: pl.DataFrame) -> tuple[str | None, ...]:
    """Of the problems of a benchmark, in the order of their names; ValueError where evaluations
    disagree. table: of all of them (tables.PASSK)."""
    pairs = table.select("problem_id", "cluster").unique().sort("problem_id", "cluster")
    twice = pairs.filter(pl.col("problem_id").is_duplicated())
    if len(twice):
        (problem, first), (_, second) = twice.rows()[:2]
        raise ValueError(
            f"problem {problem} of {benchmark} is of cluster {first!r:.60} in one evaluation of "
            f"those and of {second!r:.60} in another: a problem has one cluster; `fgrpo-bench "
            "evaluate grade <folder>` scores an evaluation again with those that its problems "
            "have now"
        )
    return tuple(pairs["cluster"])


def _unscored(path: Path, design: StagedDesign, table: pl.DataFrame, problems: pl.Series) -> Ints:
    """[problems, stages], of problems that have not stopped or are not there -1. table: stored at
    path."""
    with_counts = table.drop_nulls("n_unscored").unique("problem_id")
    out = np.full((len(problems), len(design.stages)), -1)
    if len(with_counts):
        if with_counts["n_unscored"].list.len().unique().to_list() != [out.shape[1]]:
            raise ValueError(
                f"{path}: n_unscored is not by the stages {design.stages} that its "
                "evaluation was marked done with: it is being scored under another design, or was "
                "stopped in between; run the sweep again, which makes only what is missing"
            )
        place = problems.search_sorted(with_counts["problem_id"]).to_numpy()
        out[place] = np.array(with_counts["n_unscored"].to_list())
    return out


def _rows_by_key(checkpoints: Iterable[EvaluatedCheckpoint]) -> dict[At, list[int]]:
    rows: dict[At, list[int]] = {}
    for i, checkpoint in enumerate(checkpoints):
        rows.setdefault(frame_key(checkpoint), []).append(i)
    return rows


def _place(checkpoint: EvaluatedCheckpoint) -> int:
    """By rising seed; one without a seed is alone under its label."""
    return 0 if checkpoint.seed is None else checkpoint.seed


LAST, PAPER, HELD_OUT, STEP = "last", "paper", "held-out", "step="
RULES = (LAST, PAPER, HELD_OUT, f"{STEP}<step>")
"""What `--select` takes."""


def check_rule(results: Results, rule: str) -> None:
    """ValueError for what is no rule, and for one that has nothing to choose from."""
    if not (rule in (LAST, PAPER, HELD_OUT) or re.fullmatch(rf"{STEP}\d+", rule)):
        near = suggestion(rule, RULES)
        raise ValueError(f"--select {rule} is no rule{near}: choose {', '.join(RULES)}")
    if rule != LAST and results.sweep is None:
        raise ValueError(
            f"--select {rule} chooses among the checkpoints of each training run, and these were "
            f"evaluated without a sweep: take {LAST}, and give every checkpoint a label of its own"
        )
    if rule in (PAPER, HELD_OUT) and all(
        len(checkpoint.run_checkpoints) == 1 for checkpoint in results.checkpoints
    ):
        raise ValueError(
            f"--select {rule} needs several checkpoints of a run, and this sweep evaluates one of "
            "each: run it again with experiment.checkpoints=every, which trains nothing anew"
        )


def at_steps(results: SweepResults, steps: Mapping[str, int]) -> SweepResults:
    """The results with these checkpoints, by name of the cell, standing for their runs; cells that
    are not named keep their last one. ValueError for one that is not evaluated."""
    points = [
        _point_at(results, point, steps[point.label]) if point.label in steps else point
        for point in results.points
    ]
    return replace(results, checkpoints=tuple(points))


def _point_at(results: SweepResults, point: PointResult, step: int) -> PointResult:
    for checkpoint in point.checkpoints:
        if checkpoint.step == step:
            return point.at(checkpoint)
    evaluated = [checkpoint.step for checkpoint in point.checkpoints]
    train = results.train
    saved = saved_steps(steps=train["steps"], save_every=train["save_every"])
    steps = ",".join(map(str, sorted({*evaluated, step})))
    more = (
        f"run the sweep again with experiment.checkpoints=[{steps}], which trains nothing anew"
        if step in saved
        else f"evaluate another of those that a run keeps: {', '.join(map(str, saved))}"
    )
    raise ValueError(
        f"step {step} of {point.point_id} is not evaluated, only "
        f"{', '.join(map(str, evaluated))}: choose one of these, or {more}"
    )


def selection_benchmarks(results: Results) -> list[str]:
    """The benchmarks that a choice of checkpoints goes by: those in domain, all where none is."""
    return results.domains.get("in-domain") or results.benchmarks


def choose(
    results: SweepResults, scores: Mapping[str, Mapping[At, Scores]], rule: str
) -> list[CheckpointRow]:
    """Every checkpoint that may be chosen, by cell and rising step, and which one the rule chooses.

    Under `paper` and `held-out` a focal cell may cost as much as the chosen checkpoint of its base
    algorithm at the same N, if that was run; `held-out` judges by the problems of
    fgrpo_bench.stats.selection.is_for_selection alone. ValueError where none is within that.
    """
    cells: dict[Cell, list[PointResult]] = {}
    for point in results.points:
        if point.cell is not None:
            cells.setdefault(point.cell, []).append(point)
    rows: dict[Cell, list[CheckpointRow]] = {}
    # Base algorithms (gamma = 0) come first: what they chose is the budget of their focal cells.
    for cell, points in sorted(cells.items(), key=lambda entry: entry[0].focal_gamma):
        candidates = _candidates(
            results, scores, cell.name, points, only_selection_half=rule == HELD_OUT
        )
        base = rows.get(cell.unweighted, []) if cell.focal_gamma else []
        budget = next((row.rollouts for row in base if row.is_chosen), None)
        chosen = points[0].step
        if rule in (PAPER, HELD_OUT) and candidates:
            candidate = best(candidates, budget=budget)
            if candidate is None:
                raise ValueError(
                    f"{points[0].point_id} has no evaluated checkpoint within the {budget:,.0f} "
                    "rollouts of the chosen one of its base algorithm: evaluate earlier ones with "
                    "experiment.checkpoints=every"
                )
            chosen = candidate.step
        elif rule.startswith(STEP):
            chosen = int(rule.removeprefix(STEP))
        rows[cell] = [
            CheckpointRow(
                cell=cell.name,
                step=option.step,
                is_chosen=option.step == chosen,
                rollouts=option.cost,
                pass_at_1=option.score,
                budget=budget if rule in (PAPER, HELD_OUT) else None,
            )
            for option in candidates
        ]
    return [row for cell in cells for row in rows[cell]]


def _candidates(
    results: SweepResults,
    scores: Mapping[str, Mapping[At, Scores]],
    name: str,
    points: Sequence[PointResult],
    *,
    only_selection_half: bool,
) -> list[Candidate]:
    """The checkpoints of a cell that all its finished runs have evaluated, by rising step."""
    trained = [point for point in points if point.is_trained]
    metrics = [point.metrics() for point in trained]
    benchmarks = selection_benchmarks(results)
    out = []
    for step in sorted({checkpoint.step for point in trained for checkpoint in point.checkpoints}):
        by_benchmark = [scores[benchmark][name, step] for benchmark in benchmarks]
        # A mean over fewer seeds could win by the luck of which ones they are.
        if any(len(cell_scores.seeds) < len(trained) for cell_scores in by_benchmark):
            continue
        halves = [
            cell_scores.selection_split(for_selection=True) if only_selection_half else cell_scores
            for cell_scores in by_benchmark
        ]
        out.append(
            Candidate(
                step=step,
                cost=float(np.mean([_rollouts(frame, step) for frame in metrics])),
                score=float(np.mean([_pass_at_1(cell_scores) for cell_scores in halves])),
            )
        )
    return out


def _rollouts(metrics: pl.DataFrame, step: int) -> float:
    return float(metrics.filter(pl.col("step") <= step)["rollouts"].max() or 0)  # type: ignore[arg-type]


def _pass_at_1(scores: Scores) -> float:
    """Mean over seeds, and over the problems of each that have a judged draw; 0 where none has."""
    rates = scores.success_rates()
    judged = ~np.isnan(rates)
    sums = np.where(judged, rates, 0.0).sum(axis=1)
    return float(np.mean(sums / np.maximum(judged.sum(axis=1), 1)))


def describe_rule(results: Results, rule: str) -> str:
    """What stands below every table: which checkpoint of every run it is about."""
    if results.sweep is None:
        return "as they were given"
    benchmark = "in-domain benchmark" if "in-domain" in results.domains else "benchmark"
    best_of = (
        f"each base algorithm's best by mean pass@1 over {benchmark}s and seeds, then the "
        "best focal one of no more rollouts"
    )
    match rule:
        case "last":
            return "the last one of every run"
        case "paper":
            return (
                f"{best_of}; chosen on the benchmarks that are reported, as the paper does, which "
                "flatters every row"
            )
        case "held-out":
            return (
                f"{best_of}; chosen on one half of the problems of each {benchmark}, whose "
                "other half alone is reported; the same training runs choose and report, so the "
                "luck of the seeds stays in every row"
            )
    return f"step {rule.partition('=')[2]} of every run"


LAST_SHARE = 10
"""The entropy that training ends with is a mean over 1 / LAST_SHARE of its steps: that of one step
is of its few prompts alone."""


def costs(runs: Sequence[PointResult], chosen: Collection[At]) -> Iterator[Cost]:
    """A row a cell and checkpoint of training runs."""
    cells: dict[str, list[PointResult]] = {}
    for run in runs:
        cells.setdefault(run.label, []).append(run)
    for name, points in cells.items():
        trained = [p for p in points if p.is_trained and p.cell is not None]
        metrics = [point.metrics().sort("step") for point in trained]
        steps = sorted({checkpoint.step for point in points for checkpoint in point.checkpoints})
        for step in steps:
            judged = [
                checkpoint
                for point in points
                for checkpoint in point.run_checkpoints
                if checkpoint.step == step and checkpoint.is_evaluated
            ]
            until = [frame.filter(pl.col("step") <= step) for frame in metrics]
            rows = [frame for frame in until if len(frame)]
            # Processor time is recorded of whole runs alone.
            training = [read_marker(point.train) for point in trained] if step == steps[-1] else []
            markers = [read_marker(point.evaluate) for point in judged]
            # Who took draws from another evaluation did not pay for them.
            graded = [marker for marker in markers if not marker.taken_from]
            yield Cost(
                cell=name,
                step=step,
                is_chosen=(name, step) in chosen,
                n_runs=len([point for point in points if point.is_trained]),
                rollouts=_mean_or_none([frame["rollouts"][-1] for frame in rows]),
                tokens=_mean_or_none([frame["tokens"][-1] for frame in rows]),
                optimizer_steps=_mean_or_none([frame["optimizer_steps"][-1] for frame in rows]),
                active_fraction=_mean_over_runs(rows, "active_fraction"),
                entropy=_mean_over_runs(
                    [frame.tail(-(-len(frame) // LAST_SHARE)) for frame in rows], "entropy"
                ),
                train_gpu_seconds=_mean_or_none(
                    [float((frame["seconds"] * frame["gpus"]).to_numpy().sum()) for frame in rows]
                ),
                train_cpu_seconds=_cpu_seconds(training),
                evaluate_cpu_seconds=_cpu_seconds(graded),
            )


def _mean_over_runs(frames: Sequence[pl.DataFrame], metric: str) -> float | None:
    """Of the steps of each run, then of the runs that have a value."""
    by_run = [frame[metric].drop_nulls().to_numpy() for frame in frames]
    return _mean_or_none([float(values.mean()) for values in by_run if len(values)])


def _cpu_seconds(markers: Sequence[Marker]) -> float | None:
    recorded = [marker.cpu_seconds for marker in markers]
    return _mean_or_none([seconds for seconds in recorded if seconds is not None])


def _mean_or_none(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


THEN = ", then "
"""Between the engines that made draws one after the other."""


def describe_engines(engines: Sequence[dict[str, Any]]) -> str | None:
    """The fingerprints of all engines that made draws, for a person; None where none is
    recorded."""
    return THEN.join(dict.fromkeys(filter(None, map(_describe_engine, engines)))) or None


def _describe_engine(engine: dict[str, Any]) -> str:
    """Of draws that another program made nobody told which engine it was: two of its files are no
    two engines."""
    if engine.get("engine") == "imported":
        return "another program's"
    return ", ".join(f"{name} {value}" for name, value in sorted(engine.items()))


@dataclass(frozen=True, kw_only=True)
class CheckpointEstimate:
    """Mean pass@k of one checkpoint on one benchmark, as fractions."""

    k: int
    mean: float | None
    """Over problems; None where none has a value."""
    low: float | None
    """Of the 95% interval over problems, like high; None with fewer than two problems."""
    high: float | None
    standard_error: float | None
    n_problems: int
    """With a value."""
    all_wrong: float | None
    """The mean were all draws that the grader could not judge wrong."""
    all_right: float | None
    """Were they all right."""
    shares: Shares
    """What it rests on."""

    @property
    def open_part(self) -> tuple[float | None, tuple[float, float] | None]:
        """As fgrpo_bench.analysis.rows.open_part."""
        return open_part(self.shares.unscored, self.all_wrong, self.all_right)


def checkpoint_estimates(
    checkpoint: EvaluatedCheckpoint, benchmark: str
) -> list[CheckpointEstimate]:
    """A row a k; none where the evaluation is not complete."""
    return table_estimates(checkpoint.passk(benchmark))


def table_estimates(table: pl.DataFrame) -> list[CheckpointEstimate]:
    """A row a k of tables.PASSK, of all problems of one checkpoint or of some."""
    if not len(table):
        return []
    table = table.sort("problem_id", "k")
    shares = shares_of(table)
    ks = table["k"].unique().sort().to_list()
    values = table["pass_at_k"].fill_null(float("nan")).to_numpy().reshape(-1, len(ks))
    bounds = bounds_of(table)
    clusters = cluster_numbers(table.filter(k=ks[0])["cluster"].to_list())
    over_problems = estimate(values[None], limits=FRACTIONS, clusters=clusters)
    return [
        CheckpointEstimate(
            k=k,
            mean=over.mean,
            low=over.low,
            high=over.high,
            standard_error=over.standard_error,
            n_problems=over.n_problems,
            all_wrong=bounds[k][0],
            all_right=bounds[k][1],
            shares=shares,
        )
        for k, over in zip(ks, over_problems, strict=True)
    ]
