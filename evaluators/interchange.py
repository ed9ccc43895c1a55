"""Draws of other programs: imported, graded and scored like our own.

In: files of draws (dumps), and what problems they are of (problems). Out: an evaluation under
evals/ whose draws are stored, graded (`stored.regrade`) and scored, with the program's own verdicts
as a layer of grades beside (verdicts), and marked done only then.

Whatever is wrong with a file is a ValueError that names file and line; what is left out is counted
and said.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.rows import row_counter
from fgrpo_bench.files.paths import StagePaths, check_inside
from fgrpo_bench.files.whole import now, write_json
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.recorded import layer_name
from fgrpo_bench.kinds.benchmarks import grader_names, load_problems, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationSpec, versions
from fgrpo_bench.specs import BenchmarkSpec, DatasetSpec, check_name, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.markers import Marker, described, write_marker
from fgrpo_bench.stages.tables import DRAWS, write_table

from .dumps import DumpedDraw, NamedColumns, open_dump, short
from .problems import KnownProblems, OwnProblems
from .request import with_strict
from .standalone import data_folder
from .stored import StoredDraws, regrade
from .verdicts import are_usable, disagreements, write_verdicts

CHUNK = 8_192
"""Draws that are held as Python's objects at once."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """Files of draws of the same problems by one model, and how they are taken."""

    files: tuple[Path, ...]
    spec: BenchmarkSpec | None
    """What the draws are of; None: the problems and golds in the files."""
    named: NamedColumns = field(default_factory=NamedColumns)
    grader: str = "math"
    """Of problems from the files."""
    theirs: bool = False
    """Whether the verdicts in the files count alone, and nothing is graded."""
    threshold: float | None = None
    """The least score of a correct draw; None: 1, where no score lies between."""
    step: int | None = None
    """Only draws of this step are taken; None: all, which are of one step."""
    strict: bool = False
    """Whether the strict form of the grader judges too."""
    subset: bool = False
    """Whether problems may be missing, and others be among the draws."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the draws and the benchmark follow from, wherever the files are; which graders judge
        beside changes neither."""
        spec = self.spec and to_dict(replace(self.spec, extra_graders=()))
        counted = {"threshold": self.threshold} if self.theirs else {"grader": self.grader}
        return {
            "import": [sha256_file(file) for file in self.files],
            "benchmark": spec,
            "named": asdict(self.named),
            "step": self.step,
            **counted,
        }

    @property
    def mark(self) -> str:
        """Of everything that is stored."""
        extra = [self.strict, self.threshold, self.spec and self.spec.extra_graders]
        return fingerprint([self.identity, extra])


def import_and_grade(request: Import, *, name: str, root: Path) -> tuple[StoredDraws, str]:
    """Import files, grade and score them, and mark them as done; what was stored, and what there is
    to say.

    ValueError for a name that is none, for files of several formats or steps, for unknown problems
    and doubled draws, and for what only --data, --subset, --step or --threshold makes clear.
    """
    check_name("--name", name)
    notices: list[str] = []
    dump = open_dump(request.files[0], request.named)
    theirs = layer_name(dump.format.program, request.threshold)
    folder = root / "evals" / name
    check_inside(folder / "eval", root / "evals")
    if request.spec is None:
        grader = theirs if request.theirs else request.grader
        of_files = OwnProblems(request.files, grader)
        rows = read_draws(request, of_files.place, notices)
        spec = of_files.benchmark(folder, root, notices)
        data = data_folder(root, spec.name, problems_dataset(spec))
        problems = load_problems(spec, None, data)
    else:
        spec = request.spec
        data = data_folder(root, spec.name, problems_dataset(spec))
        problems = load_problems(spec, None, data)
        rows = read_draws(request, KnownProblems(problems, subset=request.subset).place, notices)
    draws = checked(request, rows, problems, notices)
    del rows  # as large as the files
    has_verdicts = are_usable(draws["score"], request.threshold, notices, alone=request.theirs)
    if request.theirs:
        judged = replace(problems_dataset(spec), grader=theirs)
        spec = replace(spec, grader=theirs, extra_graders=(), dataset=judged)
    else:
        spec = with_strict(spec) if request.strict else spec
        extra = (*spec.extra_graders, theirs) if has_verdicts else spec.extra_graders
        spec = replace(spec, extra_graders=extra)
    stored = _stored(request, spec, draws, problems, folder, data)
    if has_verdicts:
        write_verdicts(stored, theirs, draws, request.threshold)
    notices.append(regrade(stored, None))
    _conclude(stored)
    if has_verdicts and not request.theirs:
        notices.append(disagreements(stored, theirs))
    return stored, "\n".join(notices)


def problems_dataset(spec: BenchmarkSpec) -> DatasetSpec:
    """ValueError where a benchmark has none."""
    if spec.dataset is None:
        raise ValueError(f"{spec.name} has no dataset, whose problems a file could be of")
    return spec.dataset


def _stored(
    request: Import,
    spec: BenchmarkSpec,
    draws: pl.DataFrame,
    problems: Sequence[Problem],
    folder: Path,
    data: Path,
) -> StoredDraws:
    """The draws under evals/<name>, to be graded and then marked as done."""
    identity = request.identity
    mark = fingerprint(identity)
    stage = StagePaths(folder / "eval" / f"imported-{mark[:8]}" / "step-00000")
    n_samples = int(draws["draw"].max()) + 1  # type: ignore[arg-type]
    target = {
        "n_samples": n_samples,
        "ks": [2**i for i in range(n_samples.bit_length())],
        "graders": versions({spec.name: spec}),
    }
    stored = StoredDraws(
        stage=stage,
        paths=stage.benchmark(spec.name),
        benchmark=spec,
        spec=EvaluationSpec(
            stage=stage,
            kind="import",
            fingerprint=mark,
            target=target,
            identity=identity,
            evaluation={
                "name": "imported",
                "sampler": "imported",
                "benchmarks": {spec.name: to_dict(spec)},
                "n_samples": n_samples,
                "ks": target["ks"],
            },
            data={spec.name: str(data.absolute())},
        ),
    )
    write_json(stage.spec, stored.spec.as_json())
    write_table(stored.paths.draws, draws.select(DRAWS.names()), DRAWS)
    engine = {
        "engine": "imported",
        "file": ", ".join(file.name for file in request.files),
        "sha256": ", ".join(identity["import"]),
    }
    prompts = fingerprint([[p.problem_id, p.prompt] for p in problems])
    manifest = DrawsRecord(
        fingerprint=mark, weights_sha256=None, prompts_sha256=prompts, engines=(engine,)
    )
    write_json(stored.paths.manifest, manifest.as_json())
    return stored


def _conclude(stored: StoredDraws) -> None:
    """Mark imported draws as done, once they are graded and scored."""
    paths, benchmark = stored.paths, stored.benchmark
    files = [paths.draws, paths.manifest]
    for grader in grader_names(benchmark):
        files += [paths.grades(grader_version(grader)), passk_path(paths, benchmark, grader)]
    marker = Marker(
        fingerprint=stored.spec.fingerprint,
        target=stored.spec.target,
        finished=now(),
        finished_ms=int(time.time() * 1000),
        outputs=described(stored.stage, files),
    )
    write_marker(stored.stage, marker)


# Draws of the files, each at its problem.

DRAWS_WITH_ORIGIN = pl.Schema(
    [*DRAWS.items(), ("score", pl.Float64), ("line", pl.Int64), ("file", pl.Int64)]
)
"""DRAWS with the file's own score and where it stands; the response of a draw that failed is
null."""
Place = Callable[[DumpedDraw, str], str | None]
"""The problem_id of a draw at some file and line; None where it is to be left out."""


def read_draws(request: Import, place: Place, notices: list[str]) -> pl.DataFrame:
    """The draws of all files (DRAWN), in their order. said: gets what is read and left out."""
    frames: list[pl.DataFrame] = []
    rows: list[tuple[Any, ...]] = []
    numbers: defaultdict[str, int] = defaultdict(int)  # of the next draw of a problem
    formats: dict[str, Path] = {}
    steps: dict[int | None, str] = {}
    n_other_steps, unplaced, failed = 0, list[str](), list[str]()
    for i, file in enumerate(request.files):
        dump = open_dump(file, request.named)
        formats.setdefault(dump.format.name, file)
        if len(formats) > 1:
            listed = ", ".join(f"{of} is {name}" for name, of in formats.items())
            raise ValueError(f"{listed}: import files of each format by a --name of their own")
        notices += [f"read: {file}, {dump.described}", *dump.rewards]
        before = dict(numbers)
        with row_counter(file.name) as count_rows:
            for draw in dump.draws:
                where = f"{file}, line {draw.line}"
                if request.step is not None and draw.step not in (None, request.step):
                    n_other_steps += 1
                    continue
                steps.setdefault(draw.step, where)
                _check_fixed(draw, where)
                if (problem_id := place(draw, where)) is None:
                    unplaced.append(where)
                    continue
                number = numbers[problem_id]
                if draw.draw is not None:
                    number = before.get(problem_id, 0) + draw.draw
                numbers[problem_id] = max(numbers[problem_id], number + 1)
                if draw.response is None:
                    failed.append(where if draw.fault is None else f"{where}: {draw.fault}")
                is_scored = draw.response is None and draw.score is not None
                response = "" if is_scored else draw.response
                rows.append(
                    (
                        *(problem_id, number, draw.seed, response),
                        *(draw.n_tokens, draw.finish_reason, None),
                        *(draw.score, draw.line, i),
                    )
                )
                if len(rows) == CHUNK:
                    frames.append(pl.DataFrame(rows, DRAWS_WITH_ORIGIN, orient="row"))
                    rows.clear()
                    count_rows(draw.line)
        notices += dump.notices
    frames.append(pl.DataFrame(rows, DRAWS_WITH_ORIGIN, orient="row"))
    draws = pl.concat(frames)
    _check_read(request, draws, steps)
    if n_other_steps:
        notices.append(f"left out: {n_other_steps:,} draws of other steps than {request.step}")
    if unplaced:
        notices.append(
            f"left out: {len(unplaced):,} draws of other problems, the first at {unplaced[0]}"
        )
    if failed:
        missing = draws["response"].null_count()
        notices.append(
            f"no response: {len(failed):,} draws, of which {missing:,} count as missing and "
            f"{len(failed) - missing:,} are scored by {next(iter(formats))}; the first at "
            f"{failed[0]}"
        )
    return draws


def _check_read(request: Import, draws: pl.DataFrame, steps: Mapping[int | None, str]) -> None:
    """ValueError for draws of several steps, and for none."""
    named = ", ".join(map(str, request.files))
    if len(steps) > 1:
        listed = "; ".join(f"{step} at {where}" for step, where in steps.items())
        raise ValueError(
            f"{named}: draws of several steps ({listed[:400]}), which are of several models: take "
            "one step with --step, or import a file of each"
        )
    if not steps:
        raise ValueError(f"{named}: no draws of step {request.step}: name a step that is there")
    if draws.is_empty():
        raise ValueError(
            f"{named}: none of the draws is of a problem of the data: name the problems that they "
            "are of with --data, or leave it out where the answers stand in the file"
        )


def _check_fixed(draw: DumpedDraw, where: str) -> None:
    """ValueError for draws of a design that stops, which their metadata name."""
    metadata = draw.row.get("metadata")
    design = draw.row.get("design") or (isinstance(metadata, dict) and metadata.get("design"))
    if design:
        raise ValueError(
            f"{where}: design is {short(design)}, by which draws stop, and an import is scored as "
            "a fixed number of draws, so that its pass@k would be too high; draw under that design "
            "here (`fgrpo-bench evaluate run checkpoint=... design=...`), or import draws of a "
            "fixed number"
        )


def checked(
    request: Import, draws: pl.DataFrame, problems: Sequence[Problem], notices: list[str]
) -> pl.DataFrame:
    """The draws that are scored (DRAWN, sorted), as many of every problem, numbered 0, 1, 2, ...:
    the first of each, as many as the problem with the fewest has.

    ValueError for a number that two draws of a problem have, for one that is left out, and, unless
    a subset is meant, for missing problems. draws: DRAWN.
    """
    ordered = draws.sort("problem_id", "draw", maintain_order=True)
    # Numbers have to be 0, 1, 2, ...: a gap may be a draw that somebody left out for its grade.
    place = pl.int_range(pl.len()).over("problem_id")
    if len(wrong := ordered.filter(pl.col("draw") != place)):
        row = wrong.sort("file", "line").row(0, named=True)
        raise ValueError(
            f"{request.files[row['file']]}, line {row['line']}: draw {row['draw']} of problem "
            f"{row['problem_id']} came before, or one before it is not there: number the draws of "
            "a problem 0, 1, 2, ... without gaps, or leave `draw` out"
        )
    there = ordered.drop_nulls("response").with_columns(draw=place)
    counts = there.group_by("problem_id").len().sort("len", "problem_id")
    n_missing = len(problems) - len(counts)
    if n_missing and not request.subset:
        raise ValueError(
            f"{', '.join(map(str, request.files))}: {len(counts)} of the benchmark's "
            f"{len(problems)} problems have draws: add the others, or score these alone with "
            "--subset"
        )
    if n_missing:
        notices.append(
            f"left out: {n_missing:,} of {len(problems):,} problems, which have no draws"
        )
    # Paired comparisons need as many draws of every problem.
    fewest, n = counts.row(0)
    kept = there.filter(pl.col("draw") < n)
    if len(kept) < len(there):
        notices.append(
            f"left out: {len(there) - len(kept):,} of {len(there):,} draws: problem {fewest} has "
            f"{n}, and the first {n} of every problem are scored. Where a problem was drawn until "
            "it was solved, pass@k is too high"
        )
    return kept
