"""Whether the stored results behind a report follow from each other: pass@k from the grades, the
frames of the analysis from pass@k, and the judgements from the draws."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import isclose
from statistics import fmean

import polars as pl

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.frames import FACTS, VERSION, AnalysisRecord, digest_of, folder_of
from fgrpo_bench.analysis.other_scores import likelihood_stages
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.analysis.rows import FRAMES
from fgrpo_bench.analysis.scoring import count_stored, score
from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.files.whole import fields_of, read_record
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.likelihood import LikelihoodMarker
from fgrpo_bench.report.differences import different_rows, first_of
from fgrpo_bench.specs import TaskSpec, from_dict
from fgrpo_bench.stages.digests import differing, is_altered, of_digests
from fgrpo_bench.stages.markers import read_marker_of
from fgrpo_bench.stages.tables import DRAWS, GRADES, LIKELIHOODS, PASSK, read_table

SHOWN = 5
"""Most draws of a benchmark that are shown to differ."""


def where(checkpoint: EvaluatedCheckpoint, benchmark: str) -> str:
    """For a person; the step is named where there are several."""
    step = f" at step {checkpoint.step}" if len(checkpoint.of_run) > 1 else ""
    return f"{checkpoint.name}{step}, {benchmark}"


def wrong_scores(checkpoint: EvaluatedCheckpoint, benchmark: str, version: str) -> Iterator[str]:
    """Where pass@k is not what the grades give, which know of no clusters. version: of the
    benchmark's grader, or of one that stands beside it."""
    paths = checkpoint.evaluate.benchmark(benchmark)
    is_beside = version in checkpoint.beside(benchmark).values()
    if not paths.grades(version).exists():
        yield f"{where(checkpoint, benchmark)}: there are no grades of {version}"
        return
    passk = paths.extra_passk(version) if is_beside else paths.passk
    stored = read_table(passk, PASSK).sort("k", "problem_id")
    ks = stored["k"].unique().sort().to_list()
    design = checkpoint.asked().design
    again = score(count_stored(paths.grades(version), design), ks, design).sort("k", "problem_id")
    if not stored.drop("cluster").equals(again.drop("cluster")):
        yield f"{where(checkpoint, benchmark)}: pass@k is not what the stored grades give"


def wrong_verdicts(
    checkpoint: EvaluatedCheckpoint, benchmark: str, version: str, beside: str | None = None
) -> Iterator[str]:
    """Where the grades are not what the grader says now: outcome, answer and reason of every
    distinct response; draws without a grade, and grades without a draw; and problems that are
    stored with another cluster than they have.

    beside: the grader, where it is not the benchmark's own.
    """
    spec = checkpoint.evaluation_spec()
    of, task = spec.benchmark(benchmark), spec.task
    if task is not None or spec.data_folder(benchmark) is None:
        with fields_of(checkpoint.evaluate.spec):
            from_dict(TaskSpec, task)
    grader = beside or of.grader
    at = where(checkpoint, benchmark) + (f", {version}" if beside else "")
    if grader_version(grader) != version:
        yield (
            f"{at}: was graded by {version}, and this is "
            f"{grader_version(grader)}: `fgrpo-bench evaluate grade` grades it again"
        )
        return
    paths = checkpoint.evaluate.benchmark(benchmark)
    draws, grades = read_table(paths.draws, DRAWS), read_table(paths.grades(version), GRADES)
    yield from _unpaired(at, draws, grades)
    loaded = load_problems(of, task, spec.data_folder(benchmark))
    passk = read_table(paths.extra_passk(version) if beside else paths.passk, PASSK)
    yield from _other_clusters(at, passk, loaded)
    problems = {problem.problem_id: problem for problem in loaded}
    judged = ["outcome", "extracted", "reason"]
    different = draws.join(grades, on=["problem_id", "draw"]).unique(
        ["problem_id", "response", *judged], keep="first", maintain_order=True
    )
    message = f"judging {len(different)} distinct responses"
    print(f"{at}: {message}", file=sys.stderr, flush=True)
    grade, wrong = get_grader(grader), 0
    for row in different.iter_rows(named=True):
        problem = problems.get(row["problem_id"])
        stored = Grade(outcome=row["outcome"], extracted=row["extracted"], reason=row["reason"])
        again = None if problem is None else grade(problem, row["response"])
        if again is not None and _same(stored, again):
            continue
        wrong += 1
        if wrong <= SHOWN:
            in_full = again is not None and stored.outcome == again.outcome
            yield (
                f"{at}: draw {row['draw']} of {row['problem_id']} is stored "
                f"as {_words(stored, in_full=in_full)} and judged {_words(again, in_full=in_full)}"
            )
    if wrong > SHOWN:
        yield f"{at}: {wrong - SHOWN} more distinct responses are judged otherwise"


def _same(stored: Grade, again: Grade) -> bool:
    """Why a grader could not tell, and what it had then, may differ from machine to machine."""
    if again.outcome == "unscored":
        return stored.outcome == again.outcome
    return stored == again


def _words(grade: Grade | None, *, in_full: bool) -> str:
    """in_full: not the outcome alone. None is a draw of no problem of the benchmark."""
    if grade is None:
        return "nothing: there is no such problem"
    return f"{grade.outcome} ({grade.extracted!r}: {grade.reason})" if in_full else grade.outcome


def _other_clusters(named: str, passk: pl.DataFrame, problems: Sequence[Problem]) -> Iterator[str]:
    clusters = {problem.problem_id: problem.cluster for problem in problems}
    pairs = passk.select("problem_id", "cluster").unique(maintain_order=True).rows()
    other = [(name, stored) for name, stored in pairs if stored != clusters.get(name)]
    for name, stored in other[:1]:
        yield (
            f"{named}: {len(other)} problems are stored with another cluster than they have, e.g. "
            f"{name} with {stored!r:.60} in place of {clusters.get(name)!r:.60}"
        )


def _unpaired(named: str, draws: pl.DataFrame, grades: pl.DataFrame) -> Iterator[str]:
    key = ["problem_id", "draw"]
    for fault, rows in (
        ("have a grade and no stored text", grades.join(draws, on=key, how="anti")),
        ("have a stored text and no grade", draws.join(grades, on=key, how="anti")),
    ):
        for problem, draw in rows.select(key).rows()[:1]:
            yield f"{named}: {len(rows)} draws {fault}, e.g. {draw} of {problem}"


def wrong_likelihoods(sweep: SweepResults) -> Iterator[str]:
    """Mean rises of likelihoods that are not those of their answers."""
    for point_id, step, stage in likelihood_stages(sweep):
        stored = read_marker_of(LikelihoodMarker, stage).delta_nll
        rises = read_table(stage.likelihoods, LIKELIHOODS)["delta_nll"].to_list()
        mean = fmean(rises) if rises else None
        same = (
            stored is mean
            if stored is None or mean is None
            else isclose(stored, mean, rel_tol=1e-9)
        )
        if not same:
            yield f"{point_id}, step {step}: delta NLL is {stored}, and {mean} over its answers"


def wrong_frames(analysis: Analysis, unseen: list[str]) -> Iterator[str]:
    """Where the stored frames are not what was computed again; nothing where none are stored.

    unseen: is told of frames that nobody reads, as they are of other results or another version.
    """
    sweep = analysis.results.of_sweep()
    paths = sweep.paths
    folder = folder_of(paths, analysis.rule)
    named = (folder / FACTS).relative_to(paths.folder).as_posix()
    if not (folder / FACTS).exists():
        return
    try:
        record = read_record(folder / FACTS, AnalysisRecord)
    except (OSError, ValueError) as error:
        yield f"{named}: cannot be read, and is made anew with the report ({error})"
        return
    if is_altered(record.as_json()):
        yield f"{named}: was changed after the analysis was stored"
    elif record.version != VERSION or record.inputs != digest_of(sweep):
        unseen.append("the stored analysis, of other results or by another version: it is not used")
        return
    if record.family != analysis.family:
        yield f"{named}: family is {record.family!r}, computed again {analysis.family!r}"
    digests = {f"{name}.parquet": record.files.get(name, "") for name in FRAMES}
    faults = differing(folder, of_digests(digests))
    for name, frame in zip(digests, FRAMES, strict=True):
        file = (folder / name).relative_to(paths.folder).as_posix()
        if name in faults:
            yield f"{file}: {faults[name]} since the analysis was stored"
        try:
            then = pl.read_parquet(folder / name, glob=False)
        except (OSError, pl.exceptions.PolarsError):
            continue  # which is named above
        yield from first_of(file, different_rows(file, then, getattr(analysis, frame)))
