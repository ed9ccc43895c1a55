"""What the grades of a done evaluation tell: success rates of its problems, the draws behind them,
and how fast these were made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from fgrpo_bench.files.paths import BenchmarkPaths, RunPaths, StagePaths
from fgrpo_bench.kinds.evaluate import EvaluationMarker, stopping
from fgrpo_bench.kinds.kind import Stage
from fgrpo_bench.stages.markers import read_marker_of
from fgrpo_bench.stages.tables import DRAWS, PASSK, reading, scan_table
from fgrpo_bench.stats.designs import (
    Floats,
)
from fgrpo_bench.stats.staged import StagedDesign


@dataclass(frozen=True, eq=False)
class Graded:
    """What the graded draws of a checkpoint on a benchmark tell; arrays are [problems]."""

    rates: Floats
    """pass@1, of draws that stop by the design that stops them; 0 where none could be judged."""
    tokens: Floats
    """Mean tokens of a draw."""
    pace: Pace | None
    """What a token took; None where nothing tells."""


@dataclass(frozen=True)
class Pace:
    """Seconds that a sampled token took."""

    seconds: float
    """Of one GPU or of one processor."""
    unit: str
    """`GPU` or `processor`."""


def find_graded(paths: RunPaths, stage: Stage) -> dict[str, Graded]:
    """By benchmark, what is graded of an evaluation, of this sweep or of another one under its run
    root that has evaluated the same checkpoint with the same settings; empty where there is none.
    """
    own = paths.folder / stage.name
    *above, name, step = Path(stage.name).parts
    alike = str(Path("*", "*", "*", *above, f"*-{name.rpartition('-')[2]}", step))
    for folder in (own, *sorted(paths.root.glob(alike))):
        graded = read_graded(StagePaths(folder), stage.fingerprint, stage.target["graders"])
        if graded:
            return graded
    return {}


def read_graded(
    stage: StagePaths, fingerprint: str, benchmarks: Iterable[str]
) -> dict[str, Graded]:
    """By benchmark, what a done evaluation of this fingerprint has graded; none of one whose files
    are damaged, which `sweeps check` tells of."""
    try:
        marker = read_marker_of(EvaluationMarker, stage) if stage.done.exists() else None
        if marker is None or marker.fingerprint != fingerprint:
            return {}
        design = stopping(marker.target.get("design"), stage.done)
        counts = {
            name: counted
            for name in benchmarks
            if stage.benchmark(name).passk.exists()
            and stage.benchmark(name).draws.exists()
            and len((counted := _counts(stage.benchmark(name), design))[0])
        }
    except ValueError:
        return {}
    drawn = marker.draws_made or {}
    means = {name: float(tokens.mean()) for name, (_, tokens) in counts.items()}
    sampled = sum(drawn.get(name, 0) * mean for name, mean in means.items())
    pace = _pace(marker, sampled) if sampled and drawn.keys() <= means.keys() else None
    return {name: Graded(rates, tokens, pace) for name, (rates, tokens) in counts.items()}


def _counts(paths: BenchmarkPaths, design: StagedDesign | None) -> tuple[Floats, Floats]:
    """Success rates and mean tokens of a draw, by problem; design: that made the draws."""
    with reading(paths.passk):
        rates = _rates(_by_problem(paths.passk).collect(), design)
    with reading(paths.draws):
        drawn = scan_table(paths.draws, DRAWS).group_by("problem_id")
        tokens = drawn.agg(tokens=pl.col("n_tokens").mean()).collect()
    both = rates.join(tokens, on="problem_id").sort("problem_id")
    return both["rate"].to_numpy(), both["tokens"].to_numpy()


def _rates(table: pl.DataFrame, design: StagedDesign | None) -> pl.DataFrame:
    """Columns problem_id and rate, of a row a problem of tables.PASSK; without the problems that
    stopped nowhere, because their judgements ask for draws that are not there."""
    if design is None:
        rate = (pl.col("n_correct") / pl.col("n_scored")).fill_nan(0.0)
        return table.select("problem_id", rate=rate)
    ended = table.drop_nulls("n_unscored")
    if ended.is_empty():
        return ended.select("problem_id", rate=pl.lit(0.0))
    n_unscored = np.array(ended["n_unscored"].to_list())
    rates = design.pass_at_k(
        n_drawn=ended["n_scored"].to_numpy() + n_unscored.sum(axis=1),
        n_correct=ended["n_correct"].to_numpy(),
        k=1,
        n_unscored=n_unscored,
    )
    return ended.select("problem_id", rate=pl.Series(np.nan_to_num(rates)))


def _by_problem(path: Path) -> pl.LazyFrame:
    """One row a problem of a stored pass@k table, whose counts are the same at every k."""
    return scan_table(path, PASSK).filter(pl.col("k") == pl.col("k").min())


def _pace(marker: EvaluationMarker, tokens: float) -> Pace | None:
    """Of the attempt that the marker tells of, which sampled so many tokens."""
    engine = marker.engine or {}
    on_gpus = engine.get("device", "cpu") != "cpu"
    seconds = marker.wall_seconds if on_gpus else marker.cpu_seconds
    if seconds is None:
        return None
    gpus = engine.get("engines", 1) * engine.get("tensor_parallel", 1) if on_gpus else 1
    return Pace(seconds * gpus / tokens, "GPU" if on_gpus else "processor")


@dataclass(frozen=True, kw_only=True)
class Used:
    """Draws that a done evaluation uses."""

    problems: int
    draws: int


def draws_used(stage: StagePaths, benchmarks: Iterable[str]) -> Used | None:
    """Draws that stand behind the pass@k of a done evaluation under a design, over these
    benchmarks; None where a table of it cannot be read."""
    problems = draws = 0
    try:
        for name in benchmarks:
            path = stage.benchmark(name).passk
            with reading(path):
                n_draws = pl.col("n_scored") + pl.col("n_unscored").list.sum()
                counted = _by_problem(path).select(pl.len(), draws=n_draws.sum()).collect()
            problems += counted["len"].item()
            draws += counted["draws"].item()
    except (OSError, ValueError):
        return None
    return Used(problems=problems, draws=draws)
