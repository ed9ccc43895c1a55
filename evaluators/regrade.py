"""Grading stored draws again: another layer of grades beside the old ones, and pass@k anew."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from evaluators.grade_worker import GradeWorkers
from evaluators.grading import Grading, grade_workers
from evaluators.stored import Stored
from fgrpo_bench.benchmarks import graders_of
from fgrpo_bench.kinds.evaluate import versions
from fgrpo_bench.records import Problem
from fgrpo_bench.scoring import count, score
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import read_marker, rewritten
from fgrpo_bench.tables import DRAWS, GRADES, PASSK, read_table, write_table


def regrade(stored: Stored, grader: str | None) -> str:
    """Grade every draw with the present version of each of the benchmark's graders, or with the
    named one; returns what came of it, for a person.

    BlockingIOError where the evaluation is being run.
    """
    with locked(stored.stage.lock, wait=False, what=f"stage {stored.stage.folder.name}"):
        graders = graders_of(stored.benchmark) if grader is None else [grader]
        problems = stored.problems()
        with GradeWorkers(problems, workers=grade_workers()) as workers:
            layers = [Grading(stored.paths, problems, g, workers=workers) for g in graders]
            reports = [
                _regrade(stored, problems, grader=grader, grading=grading)
                for grader, grading in zip(graders, layers, strict=True)
            ]
        return "\n".join(reports)


def _regrade(stored: Stored, problems: list[Problem], *, grader: str, grading: Grading) -> str:
    draws = read_table(stored.paths.draws, DRAWS)
    table = grading.finish(draws)
    own = grader == stored.benchmark.grader
    at = stored.paths.passk if own else stored.paths.also_passk(grading.version)
    counts = count(table, stored.spec.stopping)
    ks, stopping = list(stored.spec.asked.ks), stored.spec.stopping
    write_table(at, score(counts, ks, stopping, problems=problems), PASSK)
    lacking = counts["n_samples"].null_count()
    _mark(stored, grader, [stored.paths.grades(grading.version), at], lacking=lacking if own else 0)
    report = f"{stored.benchmark.name}, {grading.version}: "
    if lacking:
        report += (
            f"{lacking} of {len(counts)} problems would not have stopped where they did and have "
            f"no value; {'the command that drew makes the rest' if own else 'none is drawn'}; "
        )
    tally = grading.tally
    if not tally.graded:
        report += f"all {len(draws):,} draws had been graded; "
    else:
        report += f"{tally.graded:,} draws graded with {tally.judgements:,} judgements; "
    former = former_layer(stored, grading.version)
    if former is None:
        return report + "no other grades to compare with"
    old = read_table(stored.paths.grades(former), GRADES)
    return report + changes(old, table, former)


def former_layer(stored: Stored, version: str) -> str | None:
    """The grades to compare with: the version before of the same grader, else the benchmark's
    own; None without any."""
    names = [path.name for path in stored.paths.folder.glob("grades.*.parquet")]
    layers = {name.removeprefix("grades.").removesuffix(".parquet") for name in names} - {version}
    grader, number = _split(version)
    older = [each for each in layers if _split(each)[0] == grader and _split(each)[1] < number]
    own = [each for each in layers if _split(each)[0] == stored.benchmark.grader]
    return max(older or own, key=lambda each: _split(each)[1], default=None)


def _split(version: str) -> tuple[str, int]:
    spelled = re.fullmatch(r"([^+]+)-(\d+)(?:\+.*)?", version)
    return (spelled[1], int(spelled[2])) if spelled else (version, 0)


def changes(old: pl.DataFrame, new: pl.DataFrame, former: str) -> str:
    """How many verdicts differ, and from what to what."""
    both = old.join(new, on=["problem_id", "draw"], suffix="_new")
    moved = (
        both.filter(pl.col("outcome") != pl.col("outcome_new"))
        .group_by("outcome", "outcome_new")
        .len()
        .sort("outcome", "outcome_new")
    )
    total = int(moved["len"].sum())
    kinds = ", ".join(f"{n:,} {a} -> {b}" for a, b, n in moved.iter_rows())
    return f"{total:,} of {len(both):,} verdicts differ from {former}" + (
        f" ({kinds})" if kinds else ""
    )


def _mark(stored: Stored, grader: str, written: list[Path], *, lacking: int) -> None:
    """Let the completion marker list the files, and say whose pass@k stands there, and of how many
    problems the design asks for more draws; then it covers no target, so that they are made."""
    if not stored.stage.done.exists():
        return
    target = read_marker(stored.stage).target
    if grader in graders_of(stored.benchmark):
        name = stored.benchmark.name
        key = name if grader == stored.benchmark.grader else f"{name}/{grader}"
        target["graders"][key] = versions({name: stored.benchmark})[key]
        if target.get("design") and key == name:
            others = {n: of for n, of in target["design"].pop("lacking", {}).items() if n != name}
            if lacks := others | ({name: lacking} if lacking else {}):
                target["design"]["lacking"] = lacks
    rewritten(stored.stage, written, target=target)
