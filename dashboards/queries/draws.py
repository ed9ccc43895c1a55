"""The draws of one problem at one point with their grades, and which answers they gave."""

from __future__ import annotations

import polars as pl

from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results
from fgrpo_bench.specs import withheld
from fgrpo_bench.tables import DRAWS, GRADES, reading, scan_table

JUDGED = ("outcome", "extracted", "reason", "grader_version")
OUTCOMES = ("correct", "incorrect", "unscored")


def grades_version(checkpoint: EvaluatedCheckpoint, benchmark: str) -> str | None:
    """The version of the grader behind a point's pass@k, where its grades are there."""
    if checkpoint.results_on(benchmark) is None:
        return None
    version = checkpoint.evaluated().asked.graders.get(benchmark)
    return version if version in layers(checkpoint, benchmark) else None


def layers(checkpoint: EvaluatedCheckpoint, benchmark: str) -> list[str]:
    """Versions of graders whose grades are stored."""
    folder = checkpoint.evaluate.benchmark(benchmark).folder
    paths = sorted(folder.glob("grades.*.parquet")) if folder.is_dir() else []
    return [path.name.removeprefix("grades.").removesuffix(".parquet") for path in paths]


def draws(checkpoint: EvaluatedCheckpoint, benchmark: str, problem: str) -> pl.DataFrame:
    """Draws of a problem (tables.DRAWS) with outcome, extracted, reason and grader_version, sorted
    by draw; no rows where they are not complete, nulls where they are not graded."""
    paths = checkpoint.evaluate.benchmark(benchmark)
    empty = pl.LazyFrame(schema=dict(DRAWS) | {name: GRADES[name] for name in JUDGED})
    if not paths.draws.exists():
        return empty.collect()
    own = pl.col("problem_id") == problem
    problem_draws = scan_table(paths.draws, DRAWS).filter(own)
    version = grades_version(checkpoint, benchmark)
    grades, files = empty.select("draw", *JUDGED), [paths.draws]
    if version is not None:
        files.append(paths.grades(version))
        grades = scan_table(files[-1], GRADES).filter(own).select("draw", *JUDGED)
    with reading(*files):
        return problem_draws.join(grades, on="draw", how="left").sort("draw").collect()


def other_judgements(checkpoint: EvaluatedCheckpoint, benchmark: str, problem: str) -> pl.DataFrame:
    """What graders beside that of `draws` said of a problem's draws: draw, outcome, reason and
    grader_version."""
    own = grades_version(checkpoint, benchmark)
    columns = ("draw", "outcome", "reason", "grader_version")
    paths = checkpoint.evaluate.benchmark(benchmark)
    files = [paths.grades(each) for each in layers(checkpoint, benchmark) if each != own]
    frames = [scan_table(path, GRADES).filter(problem_id=problem) for path in files]
    with reading(*files):
        return pl.concat([pl.LazyFrame(schema=GRADES), *frames]).select(columns).collect()


def answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Distinct extracted answers with their outcome and count, the right ones first, each
    group by frequency."""
    return (
        frame.lazy()
        .group_by("extracted", "outcome")
        .agg(count=pl.len().cast(pl.Int64), tokens=pl.col("n_tokens").mean())
        .sort(
            pl.col("outcome") == "correct",
            "count",
            "extracted",
            "outcome",
            descending=[True, True, False, False],
            nulls_last=True,
        )
        .collect()
    )


def is_gated(results: Results, checkpoint: EvaluatedCheckpoint, benchmark: str) -> bool:
    """Whether the benchmark's publisher asks that none of it is shown to others, by the evaluation
    and by the sweep; so too where neither says."""
    declared = [results.evaluation["benchmarks"].get(benchmark)]
    try:
        declared.append(checkpoint.evaluation_spec().asked.benchmarks.get(benchmark))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return True  # what it said is not known
    return any(withheld(each) for each in declared)
