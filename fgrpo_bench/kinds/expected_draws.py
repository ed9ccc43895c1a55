"""What evaluations under a design are expected to draw, beside as many draws of every problem.

In: the stages of a plan. Out: `expected` as a table in words. Success rates of problems are those
of stored grades where there are some (`find_graded`: their draws, and how fast these were made): a
checkpoint's own ones, from wherever under the run root it was evaluated with the same settings,
else those of the base models. Where nothing is graded they are as of
fgrpo_bench.stats.staged.PRIOR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.documents.table import NONE, Table, number
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.files.paths import BenchmarkPaths, RunPaths, StagePaths
from fgrpo_bench.kinds.evaluate import EvaluationMarker, stopping
from fgrpo_bench.kinds.kind import Stage
from fgrpo_bench.specs import EvalSpec
from fgrpo_bench.stages.markers import read_marker_of
from fgrpo_bench.stages.tables import DRAWS, PASSK, reading, scan_table
from fgrpo_bench.stats.staged import (
    PRIOR,
    Floats,
    StagedDesign,
    beta_rates,
    fixed_design,
    mean_variance,
)


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
    own_folder = paths.folder / stage.name
    *above, name, step = Path(stage.name).parts
    alike = str(Path("*", "*", "*", *above, f"*-{name.rpartition('-')[2]}", step))
    for folder in (own_folder, *sorted(paths.root.glob(alike))):
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
    engine = next((made[-1] for made in (marker.engines or {}).values() if made), {})
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


_Weighed = tuple[Floats, Floats | None, float]
"""Success rates, mean tokens of a draw (None: not known), and for how many checkpoints they are."""


def expected(
    evaluation: EvalSpec,
    sizes: Mapping[str, int],
    graded: Sequence[Mapping[str, Graded]],
    base: Sequence[Mapping[str, Graded]] = (),
) -> list[dict[str, Any]]:
    """Rows as JSON types, of the design and of n_samples of every problem, for each benchmark.

    sizes: problems of the benchmarks; those of unknown size are left out. graded: by checkpoint and
    benchmark, empty for one that has none. base: of the base models. Nothing for a fixed number of
    draws.
    """
    if evaluation.stopping is None:
        return []
    rows = []
    for name, n_problems in sizes.items():
        of_checkpoint = [
            graded_checkpoint[name] for graded_checkpoint in graded if name in graded_checkpoint
        ]
        others = [base_checkpoint[name] for base_checkpoint in base if name in base_checkpoint]
        without = len(graded) - len(of_checkpoint)
        weighed: list[_Weighed] = [(item.rates, item.tokens, 1.0) for item in of_checkpoint]
        if others and without:
            weighed += [(other.rates, other.tokens, without / len(others)) for other in others]
        elif without:
            weighed.append((beta_rates(*PRIOR), None, without))
        paces = [other.pace for other in (*of_checkpoint, *others) if other.pace is not None]
        for design in (evaluation.stopping, fixed_design(evaluation.n_samples)):
            rows.append(
                {
                    "benchmark": name,
                    "stages": list(design.stages),
                    "enough": design.enough if len(design.stages) > 1 else None,
                    "problems": n_problems,
                    "checkpoints": len(graded),
                    "graded": len(of_checkpoint),
                    "graded_bases": len(others),
                }
                | _of(design, evaluation.ks, n_problems, weighed, paces)
            )
    return rows


def _of(
    design: StagedDesign,
    ks: Sequence[int],
    n_problems: int,
    weighed: Sequence[_Weighed],
    paces: Sequence[Pace],
) -> dict[str, Any]:
    draws, tokens = 0.0, 0.0
    for rates, lengths, weight in weighed:
        expected_of_problem = design.expected_draws(rates)
        draws += weight * n_problems * float(expected_of_problem.mean())
        tokens += (
            weight
            * n_problems
            * float((expected_of_problem * lengths).mean() if lengths is not None else 0)
        )
    known = all(lengths is not None for _, lengths, _ in weighed)
    unit = paces[0].unit if paces else None
    alike = [pace.seconds for pace in paces if pace.unit == unit]
    every = np.concatenate([rates for rates, *_ in weighed])
    weights = np.concatenate(
        [np.full(len(rates), weight / len(rates)) for rates, _, weight in weighed]
    )
    return {
        "draws": round(draws),
        "tokens": round(tokens) if known else None,
        "seconds": round(tokens * median(alike), 1) if known and alike else None,
        "unit": unit if known else None,
        "standard_errors": {
            str(k): float(np.sqrt(mean_variance(design, k, every, weights) / n_problems))
            for k in ks
        },
    }


def words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as lines of two tables for a person; none without rows."""
    if not rows:
        return []
    names = {
        "benchmark": [row["benchmark"] for row in rows],
        "design": [_design(row) for row in rows],
    }
    costs = {
        "draws each": [number(row["draws"] / row["problems"] / row["checkpoints"]) for row in rows],
        "draws": [number(row["draws"]) for row in rows],
        "tokens": [number(row["tokens"]) for row in rows],
        "hours": [_hours(row) for row in rows],
    }
    errors = {
        f"k={k}": [f"{100 * row['standard_errors'][k]:.2f}" for row in rows]
        for k in rows[0]["standard_errors"]
    }
    return [
        *_lines(f"expected draws of {_checkpoints(rows[0])}", names | costs),
        *_lines(
            "standard error of a checkpoint's mean pass@k by draws alone, points", names | errors
        ),
    ]


def _lines(title: str, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """A table of columns by name, those without a value left out; the first two are words."""
    shown = {name: cells for name, cells in columns.items() if set(cells) != {NONE}}
    rows = tuple(zip(*shown.values(), strict=True))
    return plain_table(Table(title=title, header=tuple(shown), rows=rows, n_words=2))


def _design(row: Mapping[str, Any]) -> str:
    """e.g. `64, 128, 256 until 8 are correct`, or `256`."""
    stages = ", ".join(map(str, row["stages"]))
    return stages if row["enough"] is None else f"{stages} until {row['enough']} are correct"


def _hours(row: Mapping[str, Any]) -> str:
    return NONE if row["seconds"] is None else f"{row['seconds'] / 3600:,.3g} ({row['unit']})"


def _checkpoints(row: Mapping[str, Any]) -> str:
    """How many, and which success rates are taken for them."""
    of, n_graded, bases = row["checkpoints"], row["graded"], row["graded_bases"]
    named = f"{of} checkpoint" + ("" if of == 1 else "s")
    if n_graded == of:
        return f"{named}, by success rates of their own graded draws"
    others = (
        f"of the base models' graded draws ({bases} models; after training they differ)"
        if bases
        else f"as of Beta{PRIOR}, since nothing is graded with these settings yet"
    )
    rates = f"success rates {others}"
    return f"{named}, by " + (
        f"their own graded draws where there are some ({n_graded}), else by {rates}"
        if n_graded
        else rates
    )
