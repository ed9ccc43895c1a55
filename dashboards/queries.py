"""What every page reads: the sweeps under a root, the analysis of one, and what became of problems.

In: names from an address, which are looked up and never made into a path. Out: results, their
analysis, both remembered while their files stand unchanged, so that a click costs no second read.
Nothing is written. Next: fgrpo_bench.analysis.frames, which computes, and pages/, which show.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from math import nan
from pathlib import Path
from threading import RLock
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.coverage import by_problem, outcomes
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import (
    Results,
    SweepResults,
    evaluations,
    load_results,
    together,
)
from fgrpo_bench.analysis.solutions import solutions_lost
from fgrpo_bench.analysis.stored import FACTS, input_files
from fgrpo_bench.command.runs import find_runs
from fgrpo_bench.files.paths import EVALUATIONS, TOGETHER, RunPaths, StagePaths
from fgrpo_bench.kinds import rerun_hint
from fgrpo_bench.stages.attempts import logs
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import StageStatus, read_stages


@dataclass(frozen=True, kw_only=True)
class RunRoot:
    """A run root, only ever read."""

    root: Path

    def runs(self) -> list[RunPaths]:
        """Every planned run, sorted by name."""
        return find_runs(self.root)

    def evaluations(self) -> list[str]:
        """Names of the evaluations without a sweep, sorted."""
        return sorted(evaluations(self.root))

    def open(self, sweep: str, experiment: str, version: str) -> Results:
        """A run by its names, or evaluations (fgrpo_bench.analysis.results.together); LookupError
        where the root lists no such run.

        Names are compared with the listing and never made into a path.
        """
        if (sweep, version) == (EVALUATIONS, TOGETHER):
            try:
                return together(self.root, experiment.split("+"))
            except FileNotFoundError as error:
                raise LookupError(str(error)) from None
        for run in self.runs():
            if (run.sweep, run.experiment, run.version) == (sweep, experiment, version):
                return checked(load_results(run))
        raise LookupError("there is no such sweep under this root; the first page lists what is")


def checked(results: SweepResults) -> SweepResults:
    """The same; ValueError where plan.json names a folder outside its run."""
    folder = results.paths.folder
    for point in results.points:
        for stage in (point.train.folder, point.evaluate.folder):
            if ".." in stage.relative_to(folder).parts:
                raise ValueError(f"{results.paths.plan} names {stage}, which is outside {folder}")
    return results


def checkpoints_by_name(results: Results) -> dict[str, EvaluatedCheckpoint]:
    """Every checkpoint by its name, base models first."""
    return {checkpoint.name: checkpoint for checkpoint in results.checkpoints}


KEPT = 128
"""Results that are kept; the one that was not asked for longest goes first."""
P = ParamSpec("P")
T = TypeVar("T")
FileState = tuple[tuple[str | int, ...], ...]
"""What a result was made of: names, each with what changes when it does."""
# One for all threads: the server builds each page in a thread of its own.
_kept: OrderedDict[Hashable, tuple[FileState, object]] = OrderedDict()
# of `_kept` alone: what is missing there is computed without it
_lock = RLock()


def stamp(paths: Iterable[Path]) -> FileState:
    """The state of files: (path, modification time, size), zeros where there is none."""
    return tuple(_file_state(path) for path in paths)


def _file_state(path: Path) -> tuple[str, int, int]:
    try:
        facts = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), facts.st_mtime_ns, facts.st_size


def remembered(state: Callable[..., FileState]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep a function's last result for its arguments until what it was computed from changes.

    state: identifies what that is, from the function's own arguments. The result depends on nothing
    else but the arguments that are plain values (str, int, float, bool, tuples of them).
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            plain = [*args, *sorted(kwargs.items())]
            values = tuple(value for value in plain if isinstance(value, (str, int, float, tuple)))
            # Before anything is read: of a file that changes meanwhile the next click sees it.
            now = state(*args, **kwargs)
            names = tuple(name for name, *_ in now)
            key = (function.__module__, function.__qualname__, values, names)
            with _lock:
                before, result = _kept.get(key, (None, None))
                if before == now:
                    _kept.move_to_end(key)
                    return result  # type: ignore[return-value]
            # Without the lock, so that a slow page holds up no other; two threads may compute the
            # same result, and the later one is kept.
            computed = function(*args, **kwargs)
            with _lock:
                _kept[key] = now, computed
                _kept.move_to_end(key)
                while len(_kept) > KEPT:
                    _kept.popitem(last=False)
            return computed

        return call

    return wrap


Floats = NDArray[np.float64]
SORTED: dict[str, dict[str, bool]] = {
    "loss": {"lost": True, "drop": True},
    "gain": {"gained": True, "drop": False},
    "base": {"base": False, "drop": False},
    "name": {},
}
"""Columns of by_problem that each order of the problems goes by, and which of them fall."""


def _inputs(results: Results, *_: object) -> FileState:
    """The files that an analysis is made of."""
    return stamp(input_files(results))


@remembered(_inputs)
def load_analysis(results: Results) -> Analysis:
    """The stored analysis of a sweep; where there is none and where its results are newer, one
    that is kept in memory alone."""
    return analysed(results, is_kept=False)


def is_analysed(run: RunPaths) -> bool:
    """Whether an analysis of a run is stored, perhaps of fewer results than there are by now."""
    return (run.analysis / FACTS).exists()


def newest_result(results: Results) -> datetime | None:
    """When the last evaluation was finished, in UTC, as its marker says, so that a copy of the
    folder changes nothing; None where none is."""
    stages = [checkpoint.evaluate for checkpoint in results.every]
    times = [read_marker(stage).finished_ms or 0 for stage in stages if stage.done.exists()]
    newest = max(times, default=0)
    return datetime.fromtimestamp(newest / 1e3, UTC) if newest else None


def stage_statuses(results: SweepResults) -> list[StageStatus]:
    """Where every stage of the plan stands."""
    plan = read_plan(results.paths)
    return read_stages(results.paths, plan.stages, rerun_hint=rerun_hint)


def describe_failures(results: Results) -> tuple[str, ...]:
    """Every stage that failed, in words with its newest log; evaluations without a sweep have no
    stages to ask."""
    if not isinstance(results, SweepResults):
        return ()
    folder = results.paths.folder
    failures = []
    for stage in stage_statuses(results):
        if stage.state == "failed":
            paths = logs(StagePaths(folder / stage.name))
            log = f"see {paths[-1].relative_to(folder)}" if paths else "it left no log"
            failures.append(f"{stage.kind} of {stage.point_id}: {log}")
    return tuple(failures)


class DrawCounts(NamedTuple):
    """Draws of a problem from a checkpoint."""

    n_drawn: int | None
    """Those up to where it stopped; None where it asks for draws that are not there."""
    n_scored: int
    """Judged ones."""
    n_correct: int


@dataclass(frozen=True, kw_only=True)
class ProblemOutcomes:
    """What became of the problems of one benchmark at one k."""

    checkpoints: tuple[EvaluatedCheckpoint, ...]
    """Those with results."""
    problems: tuple[str, ...]
    """By name."""
    rows: pl.DataFrame = field(repr=False)
    """fgrpo_bench.analysis.coverage.outcomes: a row a checkpoint and problem, in the order of
    both."""
    means: pl.DataFrame = field(repr=False)
    """fgrpo_bench.analysis.coverage.by_problem."""

    def matrix(self, column: str) -> Floats:
        """A column of the rows, [checkpoints, problems]; nan where it is null."""
        return (
            self.rows[column]
            .cast(pl.Float64)
            .to_numpy()
            .reshape(len(self.checkpoints), len(self.problems))
        )

    def counts(self, checkpoint: EvaluatedCheckpoint, problem: str) -> DrawCounts | None:
        """Of a problem; None for a checkpoint without results."""
        same_seed = pl.col("seed").eq_missing(pl.lit(checkpoint.seed, pl.Int64))
        rows = self.rows.filter(same_seed, cell=checkpoint.label, problem_id=problem)
        return next((DrawCounts(*row) for row in rows.select(DrawCounts._fields).iter_rows()), None)

    def rate(self, checkpoint: EvaluatedCheckpoint, problem: str) -> float:
        """The success rate on a problem; nan where it is not known."""
        if checkpoint not in self.checkpoints:
            return nan
        row, column = self.checkpoints.index(checkpoint), self.problems.index(problem)
        return float(self.matrix("success_rate")[row, column])

    def order(self, by: str) -> list[int]:
        """Places of the problems, sorted by a key of SORTED."""
        falling = SORTED[by]
        places = self.means.with_row_index().sort(
            *falling, "problem_id", descending=[*falling.values(), False], nulls_last=True
        )
        return places["index"].to_list()


@remembered(_inputs)
def problem_outcomes(results: Results, benchmark: str, k: int) -> ProblemOutcomes:
    """Every checkpoint and problem that has results."""
    rows = outcomes(load_analysis(results).problems, benchmark, k)
    means = by_problem(rows)
    checkpoints = {
        (checkpoint.label, checkpoint.seed): checkpoint for checkpoint in results.checkpoints
    }
    keys = rows.select("cell", "seed").unique(maintain_order=True).rows()
    return ProblemOutcomes(
        checkpoints=tuple(checkpoints[key] for key in keys),
        problems=tuple(means["problem_id"]),
        rows=rows,
        means=means,
    )


@remembered(_inputs)
def count_lost_solutions(
    results: Results, benchmark: str, k: int
) -> dict[tuple[str, int | None, str], tuple[int, int]]:
    """By cell, seed and problem_id that are still solved: how many of the base model's solutions
    are lost, and how many it gave (fgrpo_bench.analysis.solutions)."""
    rows = solutions_lost(results.checkpoints, benchmark, k)
    columns = ("cell", "seed", "problem_id", "n_lost", "n_solutions")
    return {tuple(key): (lost, total) for *key, lost, total in rows.select(columns).iter_rows()}


@remembered(_inputs)
def by_gain(results: Results, benchmark: str, left: str, right: str) -> list[str]:
    """Problems of a benchmark by how much more the right checkpoint has of pass@k at the largest k,
    then of pass@1, the largest gain first; those of which one is not known last. left, right:
    names of checkpoints."""
    ks, checkpoints = results.evaluation["ks"], checkpoints_by_name(results)
    sides = [
        checkpoints[name]
        .passk(benchmark)
        .filter(pl.col("k").is_in((ks[0], ks[-1])))
        .pivot("k", index="problem_id", values="pass_at_k")
        for name in (left, right)
    ]
    if any(side.is_empty() for side in sides):
        return []
    both = sides[1].join(sides[0], on="problem_id", suffix="_left", maintain_order="left")
    gains = [pl.col(str(k)) - pl.col(f"{k}_left") for k in (ks[-1], ks[0])]
    ordered = both.sort(*gains, "problem_id", descending=[True, True, False], nulls_last=True)
    return ordered["problem_id"].to_list()
