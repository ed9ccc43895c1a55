"""Stored evaluations, under sweeps and alone: found on disk, shown in a table, graded again.

In: a folder, or a name under evals/. Out: what was drawn there (`find`), its closing table, and
another layer of grades beside the old ones with pass@k anew (`regrade`). `audit` looks closer at
the grades.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.analysis.by_value import Partition, named_partitions, notes_on_values
from fgrpo_bench.analysis.checkpoints import CheckpointEstimate, table_estimates
from fgrpo_bench.analysis.results import with_digest
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.command.runs import default_root
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data import problem_columns
from fgrpo_bench.data.rows import row_counter
from fgrpo_bench.documents.table import (
    NONE,
    UNFINISHED,
    Table,
    percent,
    unfinished_shares,
    with_interval,
)
from fgrpo_bench.documents.terminal import plain, plain_table
from fgrpo_bench.files.paths import BenchmarkPaths, DataPaths, StagePaths
from fgrpo_bench.files.spec import read_spec_as
from fgrpo_bench.graders import CHOICE, STRICT, grader_version, split_version
from fgrpo_bench.graders.choice import guessing_floor
from fgrpo_bench.graders.ifeval import COUNTS
from fgrpo_bench.graders.recorded import is_recorded
from fgrpo_bench.kinds.benchmarks import grader_names, load_problems, n_choices, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationSpec, versions
from fgrpo_bench.specs import BenchmarkSpec, DatasetSpec
from fgrpo_bench.specs.config import load_benchmark
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import read_marker, rewritten
from fgrpo_bench.stages.tables import (
    DRAWS,
    GRADES,
    PASSK,
    PROBLEMS,
    read_table,
    reading,
    scan_table,
    write_table,
)

from .fetch import chosen
from .grading import Grading
from .grading_processes import GradeWorkers, grade_workers

SHOWN_CHARACTERS = 160
"""Of the end of a response that is shown as an example."""


@dataclass(frozen=True, kw_only=True)
class StoredDraws:
    """The draws of one checkpoint on one benchmark."""

    stage: StagePaths
    paths: BenchmarkPaths
    benchmark: BenchmarkSpec
    spec: EvaluationSpec
    """What its stage computes."""

    @property
    def gated(self) -> bool:
        """Whether no text of the benchmark may be shown."""
        dataset = self.benchmark.dataset
        return dataset is not None and dataset.gated

    def problems(self) -> list[Problem]:
        """The problems that were drawn for."""
        return load_problems(
            self.benchmark, self.spec.task, self.spec.data_folder(self.benchmark.name)
        )

    def problems_with_draws(self) -> list[str]:
        """problem_ids with a draw, of which an import may lack some."""
        with reading(self.paths.draws):
            names = scan_table(self.paths.draws, DRAWS).select(pl.col("problem_id").unique())
            return names.collect()["problem_id"].sort().to_list()

    def golds(self) -> dict[str, str]:
        """Gold answers as published, by problem_id."""
        data = self.spec.data_folder(self.benchmark.name)
        if data is None:
            return {problem.problem_id: problem.target for problem in self.problems()}
        table = read_table(DataPaths(data).problems, PROBLEMS)
        return dict(table.select("problem_id", "answer").iter_rows())


def benchmark_spec(name: str, keys: Sequence[str]) -> tuple[BenchmarkSpec, DatasetSpec]:
    """A shipped benchmark and its dataset with keys as they were given to `data`, e.g. path=<file>,
    which may then have another number of problems. ValueError where it has no dataset."""
    spec, dataset = load_benchmark(name), chosen(name, list(keys))
    changed = replace(spec, dataset=dataset, n_problems=None if keys else spec.n_problems)
    return changed, dataset


def find(named: str) -> list[StoredDraws]:
    """Everything drawn under a folder, or under the evaluation of that name.

    FileNotFoundError, which lists the names there are, where there is nothing.
    """
    evals = default_root() / "evals"
    for folder in folders(named, evals):
        evaluations = [
            evaluation
            for path in sorted(folder.rglob("draws.json"))
            for evaluation in _stored(path)
        ]
        if evaluations:
            return evaluations
    names = sorted(path.name for path in evals.glob("*/")) if evals.exists() else []
    raise FileNotFoundError(
        f"{named}: no draws there, and no evaluation of that name under {evals}: give the folder "
        f"of an evaluation, or one of these names: {', '.join(names) or 'none yet'}"
    )


def folders(named: str, evals: Path) -> list[Path]:
    """Where something of that name may be: a folder, an evaluation, or the only one that it is the
    name of without the digest."""
    whole = with_digest(named, (path.name for path in evals.glob("*/")))
    return [Path(named), *(evals / name for name in (named, *whole))]


def _stored(manifest: Path) -> list[StoredDraws]:
    paths, stage = BenchmarkPaths(manifest.parent), StagePaths(manifest.parents[1])
    if not paths.draws.exists() or not stage.spec.exists():
        return []
    spec, name = read_spec_as(EvaluationSpec, stage), paths.folder.name
    if name not in spec.all_benchmarks:
        return []
    return [StoredDraws(stage=stage, paths=paths, benchmark=spec.benchmark(name), spec=spec)]


# The closing table: pass@k by benchmark with bounds and the share unscored; and IFEval's four
# scores, strict and loose, by prompt and by instruction, over stored grades.


def closing_table(
    stored: Sequence[StoredDraws], more: Sequence[str] = (), by: str | None = None
) -> str:
    """Lines for a terminal: a row a benchmark, grader and k, likewise by the values of a column of
    the problems, then where the files are. more: graders whose stored grades are shown beside those
    of each benchmark. by: the column; ValueError as of `named_value_partitions`."""
    rows = [row for evaluation in stored for row in _scores(evaluation, more, None)]
    table = Table(
        title="pass@k in percent [95% interval over problems]",
        header=(*("benchmark", "grader"), *SCORED),
        rows=tuple((row.benchmark, row.grader, *row.cells) for row in rows),
        n_labels=2,
    )
    lines = plain_table(_without_empty(table))
    parts = {} if by is None else named_value_partitions(by, stored)
    lacking = [of.benchmark.name for of in stored if parts and of.benchmark.name not in parts]
    for evaluation in stored:
        if (part := parts.get(evaluation.benchmark.name)) is not None:
            rows += (of_value := list(_scores(evaluation, more, part)))
            sizes = {value: len(problems) for value, problems in part.problems.items()}
            table = Table(
                title=f"{part.benchmark}: pass@k in percent by {part.by}",
                header=(*("grader", part.by), *SCORED),
                rows=tuple((row.grader, str(row.value), *row.cells) for row in of_value),
                n_labels=2,
                notes=notes_on_values(
                    part.by, sizes, len(evaluation.problems_with_draws()), lacking
                ),
            )
            lines += ["", *plain_table(_without_empty(table))]
    if any(row.has_bounds for row in rows):
        lines += ["", "Bounds: were all draws that the grader could not judge wrong, or all right."]
    for evaluation in stored:
        path = evaluation.paths.grades(grader_version(evaluation.benchmark.grader))
        judged = evaluation.benchmark.grader == "ifeval" and path.exists()
        if shares := levels(read_table(path, GRADES)) if judged else {}:
            lines += ["", level_line(evaluation.benchmark.name, shares)]
    folders = dict.fromkeys(str(evaluation.stage.folder) for evaluation in stored)
    return "\n".join(["", *lines, "", *(f"files: {folder}" for folder in folders), ""])


def scores(
    stored: Sequence[StoredDraws], more: Sequence[str] = (), by: str | None = None
) -> list[dict[str, Any]]:
    """The numbers of the closing table, a row a row of it; arguments as of `closing_table`."""
    parts = {} if by is None else named_value_partitions(by, stored)
    rows: list[Score] = []
    for evaluation in stored:
        rows += _scores(evaluation, more, None)
        part = parts.get(evaluation.benchmark.name)
        if part is not None:
            rows += _scores(evaluation, more, part)
    return [row.as_json() for row in rows]


def named_value_partitions(by: str, stored: Sequence[StoredDraws]) -> dict[str, Partition]:
    """By benchmark, the problems that were drawn for by the values of a column; raises as
    fgrpo_bench.analysis.by_value.named_partitions."""
    columns, problems = dict[str, pl.DataFrame | None](), dict[str, list[str]]()
    for evaluation in stored:
        name = evaluation.benchmark.name
        folder = evaluation.spec.data_folder(name)
        columns[name] = None if folder is None else problem_columns(folder)
        problems[name] = evaluation.problems_with_draws()
    return {part.benchmark: part for part in named_partitions(by, columns, problems)}


def examples(stored: Sequence[StoredDraws]) -> str:
    """Lines for a terminal: shares cut off and unscored, and the end of a correct, an incorrect and
    a cut-off response of each benchmark; no text of a gated one."""
    lines: list[str] = []
    for evaluation in stored:
        grades = evaluation.paths.grades(grader_version(evaluation.benchmark.grader))
        if not grades.exists():
            continue
        both = read_table(evaluation.paths.draws, DRAWS).join(
            read_table(grades, GRADES), on=["problem_id", "draw"], maintain_order="left"
        )
        kinds = {
            "correct": pl.col("outcome") == "correct",
            "incorrect": pl.col("outcome") == "incorrect",
            "unscored": pl.col("outcome") == "unscored",
            "cut off": pl.col("finish_reason") == "length",
        }
        shares = (f"{both.select(rule.mean()).item():.1%} {kind}" for kind, rule in kinds.items())
        lines.append(f"{evaluation.benchmark.name}, {len(both):,} draws: {', '.join(shares)}")
        for kind in () if evaluation.gated else ("correct", "incorrect", "cut off"):
            # those that ended by themselves first, which tell more than half a response
            ended_first = both.filter(kinds[kind]).sort("finish_reason", descending=True)
            lines += [_example(kind, row) for row in ended_first.head(1).to_dicts()]
    return "\n".join([*lines, ""])


def _example(kind: str, row: dict[str, Any]) -> str:
    text = plain(row["response"])
    end = text if len(text) <= SHOWN_CHARACTERS else f"... {text[-SHOWN_CHARACTERS:]}"
    answer = "" if row["extracted"] is None else f", read as {plain(row['extracted'])!r}"
    return f"  {kind}: {row['problem_id']}, draw {row['draw']}{answer}: {end}"


SCORED = (
    *("problems", "n", "k", "pass@k", "bounds", "unscored", "by guessing"),
    *UNFINISHED,
)
"""The columns of `Score.cells`."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """pass@k of one benchmark by one grader, of all problems or of those of a value."""

    benchmark: str
    grader: str
    value: str | None
    """Of the column that pass@k is told by; None: over all problems."""
    n_problems: int
    n_samples: int
    """Draws a problem."""
    by_guessing: float | None
    """pass@k of guessing among the choices; None where there are none."""
    estimate: CheckpointEstimate

    @property
    def has_bounds(self) -> bool:
        """Whether draws that the grader could not judge leave pass@k open."""
        estimate = self.estimate
        return (
            bool(estimate.shares.unscored)
            and estimate.all_wrong is not None
            and estimate.all_right is not None
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """In a table of SCORED."""
        estimate, floor = self.estimate, self.by_guessing
        return (
            str(self.n_problems),
            f"{self.n_samples:,}",
            str(estimate.k),
            with_interval(estimate.mean, estimate.low, estimate.high),
            f"[{percent(estimate.all_wrong)}, {percent(estimate.all_right)}]"
            if self.has_bounds
            else NONE,
            f"{estimate.shares.unscored:.2%}",
            NONE if floor is None else percent(floor),
            *unfinished_shares(estimate.shares.unfinished),
        )

    def as_json(self) -> dict[str, Any]:
        """Every number, unrounded; shares and pass@k are fractions."""
        estimate = self.estimate
        named = {
            "k": estimate.k,
            "pass_at_k": estimate.mean,
            "ci_low": estimate.low,
            "ci_high": estimate.high,
        }
        bounds = {"all_wrong": estimate.all_wrong, "all_right": estimate.all_right}
        before = {name: part for name, part in vars(self).items() if name != "estimate"}
        return before | named | bounds | vars(estimate.shares)


def _scores(stored: StoredDraws, more: Sequence[str], part: Partition | None) -> Iterator[Score]:
    """A row a grader and k of all problems; part: of those of each value."""
    name, data = stored.benchmark.name, stored.spec.data_folder(stored.benchmark.name)
    for grader in dict.fromkeys((*grader_names(stored.benchmark), *more)):
        path = passk_path(stored.paths, stored.benchmark, grader)
        if not path.exists():
            continue
        table = read_table(path, PASSK)
        n = _count_draws(stored.paths.draws) // max(table["problem_id"].n_unique(), 1)
        tables: dict[str | None, pl.DataFrame] = {None: table}
        options = n_choices(stored.benchmark, data) if grader in CHOICE else ()
        if part is not None:
            options = ()  # a floor is of all problems
            tables = {
                value: table.filter(pl.col("problem_id").is_in(problems))
                for value, problems in part.problems.items()
            }
        for value, of_value in tables.items():
            for estimate in table_estimates(of_value):
                yield Score(
                    benchmark=name,
                    grader=grader,
                    value=value,
                    n_problems=of_value["problem_id"].n_unique(),
                    n_samples=n,
                    by_guessing=guessing_floor(estimate.k, options),
                    estimate=estimate,
                )


def _count_draws(path: Path) -> int:
    """Number of stored draws, from the table's own header."""
    with reading(path):
        return int(scan_table(path, DRAWS).select(pl.len()).collect().item())


def _without_empty(table: Table) -> Table:
    """Without the columns in which nothing stands."""
    kept = [i for i in range(len(table.header)) if any(row[i] != NONE for row in table.rows)]
    return replace(
        table,
        header=tuple(table.header[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
    )


def levels(grades: pl.DataFrame) -> dict[str, float]:
    """Shares of the draws that were judged, or of their instructions; empty for other graders.

    grades: tables.GRADES.
    """
    counts = []
    for reason, draws in grades.group_by("reason").len().drop_nulls().iter_rows():
        match = COUNTS.fullmatch(reason)
        if match is not None:
            counts.append((draws, *map(int, match.groups())))
    if not counts:
        return {}
    judged = sum(draws for draws, *_ in counts)
    n_instructions = sum(draws * total for draws, _, total, _ in counts)
    return {
        "prompt strict": sum(n for n, strict, total, _ in counts if strict == total) / judged,
        "prompt loose": sum(n for n, _, total, loose in counts if loose == total) / judged,
        "instruction strict": sum(n * strict for n, strict, _, _ in counts) / n_instructions,
        "instruction loose": sum(n * loose for n, _, _, loose in counts) / n_instructions,
    }


def level_line(name: str, scores: dict[str, float]) -> str:
    """e.g. `ifeval: prompt strict 77.22%, prompt loose 79.81%, ...`."""
    shares = ", ".join(f"{kind} {share:.2%}" for kind, share in scores.items())
    return f"{name}, over all judged draws: {shares}"


# Grading stored draws again.


def layer(benchmark: BenchmarkSpec, grader: str | None, *, strict: bool) -> str:
    """The grader of a layer that somebody asks for: the named one, the strict form of the
    benchmark's, or the benchmark's own. ValueError where it has no strict form, or both are named.
    """
    if not strict:
        return grader or benchmark.grader
    if grader is not None:
        raise ValueError(f"--strict and --grader {grader} name two graders: leave out one")
    if benchmark.grader not in STRICT:
        raise ValueError(
            f"{benchmark.grader}, the grader of {benchmark.name}, has no strict form; "
            f"{', '.join(STRICT)} have: leave out --strict"
        )
    return STRICT[benchmark.grader]


def regrade(stored: StoredDraws, grader: str | None) -> str:
    """Grade every draw with the present version of each of the benchmark's graders, or with the
    named one; returns what came of it, for a person.

    ValueError for verdicts of another program that are not there; BlockingIOError where the
    evaluation is being run.
    """
    with locked(stored.stage.lock, wait=False, what=f"stage {stored.stage.folder.name}"):
        graders = grader_names(stored.benchmark) if grader is None else [grader]
        for named in filter(is_recorded, graders):
            if not stored.paths.grades(grader_version(named)).exists():
                raise ValueError(
                    f"--grader {named}: verdicts of another program stand in its file alone, and "
                    f"none are stored in {stored.paths.folder}: import the file"
                )
        problems = stored.problems()
        with GradeWorkers(problems, workers=grade_workers()) as workers:
            layers = [Grading(stored.paths, problems, g, workers=workers) for g in graders]
            reports = [
                _regrade(stored, problems, grader=grader, grading=grading)
                for grader, grading in zip(graders, layers, strict=True)
            ]
        return "\n".join(reports)


def _regrade(stored: StoredDraws, problems: list[Problem], *, grader: str, grading: Grading) -> str:
    draws = read_table(stored.paths.draws, DRAWS)
    what = f"of {len(draws):,} draws graded by {grader}"
    with row_counter(stored.benchmark.name, what) as done:
        table = grading.finish(draws, done)
    is_main = grader == stored.benchmark.grader
    at = passk_path(stored.paths, stored.benchmark, grader)
    ks, stopping = list(stored.spec.stored_evaluation.ks), stored.spec.stopping
    counts = count(table, stopping, draws=draws)
    write_table(at, score(counts, ks, stopping, problems=problems), PASSK)
    n_missing = counts["n_samples"].null_count()
    _mark(
        stored,
        grader,
        [stored.paths.grades(grading.version), at],
        # Draws are made for the main grader alone; another one takes what there is.
        n_missing=n_missing if is_main else 0,
    )
    report = f"{stored.benchmark.name}, {grading.version}: "
    if n_missing:
        report += (
            f"{n_missing} of {len(counts)} problems would not have stopped where they did and have "
            f"no value; {'the command that drew makes the rest' if is_main else 'none is drawn'}; "
        )
    n_graded = grading.tally.graded
    report += f"{n_graded:,} draws graded" if n_graded else f"all {len(draws):,} draws were graded"
    former = _former_layer(stored, grading.version)
    if former is None:
        return report
    old = read_table(stored.paths.grades(former), GRADES)
    return f"{report}; {_changes(old, table, former)}"


def _former_layer(stored: StoredDraws, version: str) -> str | None:
    """The grades to compare with: the version before of the same grader, else the benchmark's
    own; None without any."""
    names = [path.name for path in stored.paths.folder.glob("grades.*.parquet")]
    layers = {name.removeprefix("grades.").removesuffix(".parquet") for name in names} - {version}
    grader, number = split_version(version)
    older = [
        layer
        for layer in layers
        if split_version(layer)[0] == grader and split_version(layer)[1] < number
    ]
    of_main = [layer for layer in layers if split_version(layer)[0] == stored.benchmark.grader]
    return max(older or of_main, key=lambda layer: split_version(layer)[1], default=None)


def _changes(old: pl.DataFrame, new: pl.DataFrame, former: str) -> str:
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


def _mark(stored: StoredDraws, grader: str, written: list[Path], *, n_missing: int) -> None:
    """Let the completion marker list the files, and say whose pass@k stands there, and of how many
    problems the design asks for more draws; then it covers no target, so that they are made."""
    if not stored.stage.done.exists():
        return
    target = read_marker(stored.stage).target
    if grader in grader_names(stored.benchmark):
        name = stored.benchmark.name
        key = name if grader == stored.benchmark.grader else f"{name}/{grader}"
        target["graders"][key] = versions({name: stored.benchmark})[key]
        if target.get("design") and key == name:
            others = {n: of for n, of in target["design"].pop("lacking", {}).items() if n != name}
            if lacks := others | ({name: n_missing} if n_missing else {}):
                target["design"]["lacking"] = lacks
    rewritten(stored.stage, written, target=target)
