"""`fgrpo-bench report --verify <folder or file>`: does a report still say what the draws say?

In: a report. Out: what differs, by name, and what was not looked at. Seals and digests first: of
what was declared, of the report's files, and of all stored files that its numbers rest on. Then
every number is computed again: pass@k from the grades of the stored draws, the frames of the
analysis from pass@k (the second half of this file), and the file, or every file of the folder, is
written again in memory; with `regrade` the stored responses are graded again too.
Next: report.differences, which names what differs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from statistics import fmean

import polars as pl

from fgrpo_bench.analysis import Analysis, analyse
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.other_scores import likelihood_stages
from fgrpo_bench.analysis.question import asked
from fgrpo_bench.analysis.results import Results, SweepResults, results_at
from fgrpo_bench.analysis.rows import FRAMES
from fgrpo_bench.analysis.scoring import count_stored, score
from fgrpo_bench.analysis.stored import FACTS, VERSION, AnalysisRecord, digest_of, folder_of
from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.files.paths import EVALUATIONS, TOGETHER, RunPaths
from fgrpo_bench.files.whole import fields_of, read_record
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.likelihood import LikelihoodMarker
from fgrpo_bench.report.build import FILES, draw, render
from fgrpo_bench.report.differences import different_lines, different_rows, first_of
from fgrpo_bench.report.provenance import (
    NAME,
    Input,
    Provenance,
    drawing_program,
    evaluated,
    graded,
    inputs,
    read,
)
from fgrpo_bench.specs import TaskSpec, from_dict
from fgrpo_bench.stages.digests import (
    MANIFEST_FILE,
    SEAL,
    checksum_mismatch,
    differing,
    from_lines,
    of_digests,
    weights_sha256,
)
from fgrpo_bench.stages.markers import read_marker, read_marker_of
from fgrpo_bench.stages.plan import declared_digests, read_plan
from fgrpo_bench.stages.tables import CUT_OFF, DRAWS, GRADES, LIKELIHOODS, PASSK, read_table

KINDS = {name: kind for kind, name in FILES.items()}
"""How each file of a report is rendered."""
FIGURES = (".svg", ".pdf")
SINCE = "since the report was built"
AGAIN = "`fgrpo-bench check <sweep> --repair` makes it again"
"""What to do about a file that is damaged."""
WHOLE = "--verify of the folder writes every file again"
"""What to do about files that were only hashed."""
ADDRESS = ("sweep", "experiment", "version")
"""Keys of a provenance that name its run."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What came of it."""

    differences: tuple[str, ...]
    """A line each; empty where the file says what the stored draws say."""
    unseen: tuple[str, ...]
    """What was not looked at, and how it would be."""


def verify(path: Path, *, root: Path, regrade: bool) -> Verified:
    """Compare a report, or one file of it (of FILES, or a figure), with the stored results.

    path: a folder with provenance.json, or a run's with such a folder `report`, of which every file
    is written again; or a file with provenance.json beside it. Either in a run's folder or
    anywhere. root: folder of all runs, for what was copied elsewhere. Raises FileNotFoundError and
    ValueError for what is no such thing, and for stored tables that are damaged.
    """
    folder, named = _asked(path)
    known = read(folder / NAME)
    paths, at_home = _run(folder, known, root)
    results = results_at(paths)
    unseen: list[str] = []
    names = [named] if named else sorted(known.files)
    differences = [*_foreign(known, paths, folder), *_declared(known, results.sweep)]
    differences += _files(folder, named, known, unseen, at_home=at_home)
    lacking, left_out = list[Input](), _left_out(paths, inputs(results))
    differences += _inputs(known, results, lacking, left_out)
    differences += _markers(results, unseen)
    if left_out:
        first = min(left_out).relative_to(results.folder)
        unseen.append(f"what the bundle was packed without: {len(left_out)} files, e.g. {first}")
    if lacking:  # nothing can be computed from tables that cannot be read
        regrade = False
        unseen.append("what needs files that are damaged")
        if any(os.path.lexists(item.path) and not item.is_large for item in lacking):
            return Verified(differences=tuple(differences), unseen=tuple(unseen))
    # from the stored tables, never from stored frames, which are compared with this below
    analysis = analyse(results, known.select)
    results = analysis.results
    differences += _other_family(results.sweep, analysis)
    unread = left_out | {item.path for item in lacking}
    for point, benchmark, version in graded(results):
        of, others = point.evaluate.benchmark(benchmark), point.beside(benchmark)
        for version_of_grader in (version, *others.values()):
            if of.grades(version_of_grader) not in left_out:
                draws = None if of.draws in unread else of.draws
                differences += wrong_scores(point, benchmark, version_of_grader, draws=draws)
        if regrade and of.draws not in left_out:
            differences += wrong_verdicts(point, benchmark, version)
            for grader, version_of_grader in others.items():
                differences += wrong_verdicts(point, benchmark, version_of_grader, grader)
    if results.sweep is not None:
        differences += wrong_likelihoods(results.sweep)
        differences += wrong_frames(results.sweep, analysis, unseen)
    for name in names:
        if name in KINDS and (folder / name).is_file():
            differences += _text(folder / name, known, analysis)
    differences += _drawings(folder, named, known, analysis, unseen)
    if named is not None:
        unseen += _hashed(folder, named, known)
    if not regrade:
        unseen.append("whether the grader still gives these grades (--regrade grades again)")
    unseen.append("whether these weights give these draws, and the training these weights")
    return Verified(differences=tuple(differences), unseen=tuple(unseen))


def _asked(path: Path) -> tuple[Path, str | None]:
    """The report's folder, and which file of it is meant: None for all of them."""
    if path.is_dir():
        folder = path if (path / NAME).exists() else path / "report"
        if not (folder / NAME).exists():
            raise FileNotFoundError(
                f"neither {path} nor {folder} holds a {NAME}: give a report's folder or a file of "
                "it, which `fgrpo-bench report <sweep>` writes"
            )
        return folder, None
    if path.name not in KINDS and path.suffix not in FIGURES:
        raise ValueError(
            f"{path} is none of {', '.join(KINDS)} and no figure: give one of a report's files, "
            "or its folder for all of them"
        )
    provenance_file = path.with_name(NAME)
    if not path.exists() or not provenance_file.exists():
        raise FileNotFoundError(
            f"{path} and {provenance_file} are both needed: build the report with `fgrpo-bench "
            "report <sweep>`, and copy a table together with its provenance"
        )
    return path.parent, path.name


def _run(report: Path, known: Provenance, root: Path) -> tuple[RunPaths, bool]:
    """The run that the report stands in, else that of its provenance; and which of them it is."""
    folder = report.resolve().parent
    is_run = (folder / "plan.json").exists()
    if not is_run and (folder.parents[1].name, folder.name) != (EVALUATIONS, TOGETHER):
        return _named(known, root), False
    names = zip(ADDRESS, (folder.parents[1].name, folder.parent.name, folder.name), strict=True)
    return RunPaths(root=folder.parents[2], **dict(names)), True


def _named(known: Provenance, root: Path) -> RunPaths:
    return RunPaths(root=root, **{key: getattr(known, key) for key in ADDRESS})


def _foreign(known: Provenance, paths: RunPaths, folder: Path) -> Iterator[str]:
    """What does not belong into this provenance."""
    for key in sorted(known.further.keys() - {SEAL}):
        yield f"{NAME}: {key!r} is nothing that a report writes there"
    if checksum_mismatch(known.as_json()):
        yield f"{NAME}: was changed after the report was built"
    for name in sorted(known.files.keys() - _files_of(known)):
        yield f"{NAME}: names {name!r}, which is no file of a report"
    if _named(known, paths.root) != paths:
        yield f"{NAME}: is of {_named(known, paths.root).folder}, and stands in {folder}"


def _files_of(known: Provenance) -> set[str]:
    """The files that a provenance names, without paths, which nobody may follow."""
    return {
        name
        for name in known.files
        if name in KINDS or (Path(name).suffix in FIGURES and Path(name).name == name)
    }


def _declared(known: Provenance, results: SweepResults | None) -> Iterator[str]:
    """sweep.json and plan.json against their seals, and against what the report was built of;
    evaluations without a sweep declare nothing."""
    if results is None:
        return
    paths, plan = results.paths, read_plan(results.paths)
    for file, content in ((paths.sweep_json, results.record), (paths.plan, plan)):
        if checksum_mismatch(content.as_json()):
            yield f"{file.name}: was changed after it was frozen, or lost its seal"
    if known.declared != declared_digests(results.record, plan):
        yield f"{NAME}: sweep.json and plan.json do not say what the report was built of"


def _other_family(sweep: SweepResults | None, analysis: Analysis) -> Iterator[str]:
    """Where the family that was recorded last is not that of the settings beside it."""
    if sweep is not None and (record := sweep.record).families:
        cells, last = tuple(analysis.by_cell.values()), record.families[-1]
        _, family = asked(record.declaration, cells)
        if family.sha256 != last.sha256:
            yield (
                f"sweep.json: records the family {last.family!r}, and its settings give "
                f"{family.name!r}"
            )


def _files(
    folder: Path,
    named: str | None,
    known: Provenance,
    unseen: list[str],
    *,
    at_home: bool,
) -> Iterator[str]:
    """The file that is meant (None: all) and those beside it against their digests; a copy may
    stand without these, and among others."""
    figures = [name for name in known.files if Path(name).suffix in FIGURES]
    if not figures and named is not None and named not in KINDS:
        raise ValueError(f"{folder / NAME} names no figure: build the report again")
    others = {file.name for file in folder.iterdir()} - {NAME} if at_home and not named else set()
    files = _files_of(known)
    for name in sorted({*others, *([named] if named else [])} - files):
        yield f"{name}: is not of this report, but of one that was built before"
    faults = differing(folder, of_digests({name: known.files[name] for name in sorted(files)}))
    absent = [] if at_home else [name for name in faults if not (folder / name).exists()]
    if absent:
        unseen.append(f"files of the report that are not beside it: {', '.join(absent)}")
    if not figures:
        unseen.append(f"the figures ({NAME} names none: build the report again)")
    yield from (_since(name, faults[name]) for name in faults if name not in absent)


def _since(name: str, fault: str) -> str:
    """What is said of a file that is not as the report has it."""
    is_plain = fault in ("is missing", "was changed")
    return f"{name}: {fault} " + (SINCE if is_plain else f"({AGAIN})")


def _left_out(paths: RunPaths, behind: Mapping[str, Input]) -> set[Path]:
    """Of an unpacked bundle, the files that it was packed without; ValueError where its manifest is
    none."""
    at = paths.root.parent / MANIFEST_FILE
    if not at.is_file():
        return set()
    packed, run = from_lines(at.read_text(encoding="utf-8")), paths.folder.relative_to(at.parent)
    absent = (source for source in behind.values() if not os.path.lexists(source.path))
    return {source.path for source in absent if (run / source.name).as_posix() not in packed}


def _inputs(
    known: Provenance,
    results: Results,
    lacking: list[Input],
    left_out: Collection[Path],
) -> Iterator[str]:
    """The stored files behind the report, those left out apart, against the digests of provenance
    and markers. lacking: is told of those that are gone or cannot be read."""
    behind, recorded = inputs(results), known.inputs
    present = {source.name: source.path for source in behind.values() if source.path.is_file()}
    size = sum(path.stat().st_size for path in present.values())
    print(f"reading {len(present)} files, {size / 1e6:.1f} MB", file=sys.stderr, flush=True)
    digests = {name: recorded.get(name, source.recorded) for name, source in behind.items()}
    expected = {name: digest for name, digest in digests.items() if digest is not None}
    faults = differing(results.folder, of_digests(expected))
    for name in sorted(recorded.keys() | behind.keys()):
        if name not in behind:
            yield f"{name}: is gone {SINCE}, or was never behind it; {AGAIN}"
        elif behind[name].path in left_out:
            continue
        elif name in faults:
            yield _since(name, faults[name])
            if faults[name] != "was changed":
                lacking.append(behind[name])
        elif name not in recorded:
            if behind[name].is_listed:
                yield f"{name}: is new {SINCE}"
        elif behind[name].recorded not in (None, recorded[name]):
            yield f"{name}: is not what the marker of its stage has: one of them was changed"


def _markers(results: Results, unseen: list[str]) -> Iterator[str]:
    """Markers against the digests of themselves; weights whose stage has lost its marker against
    the digest that the evaluation took."""
    stages = {item.evaluate.folder: item.evaluate for item in results.every if item.is_evaluated}
    silent = set()
    for point in evaluated(results.sweep):
        stages[point.train.folder] = point.train
        if not point.train.done.exists():
            recorded = read_marker(point.evaluate).weights_sha256
            folder = point.train.checkpoint(point.step)
            if recorded is not None and folder.exists() and weights_sha256(folder) != recorded:
                yield f"{point.point_id}: the weights in {folder} are not those that were judged"
    for stage in stages.values():
        name = stage.done.relative_to(results.folder).as_posix()
        if not stage.done.exists():
            silent.add(name)
        elif checksum_mismatch(read_marker(stage).as_json()):
            yield f"{name}: was changed after its stage was done"
    if silent:
        unseen.append(
            f"draws and training metrics of {len(silent)} stages whose markers are missing, e.g. "
            f"{min(silent)}"
        )


def _text(path: Path, known: Provenance, analysis: Analysis) -> Iterator[str]:
    """The file against itself written again; drawings in it only where the same program drew."""
    again = render(analysis, KINDS[path.name], compare_paper=known.compare_paper)
    then = path.read_bytes().decode(errors="backslashreplace")
    if path.suffix == ".html" and known.drawn_with != drawing_program():
        then, again = (re.sub(r"<svg\b.*?</svg>", "<svg/>", t, flags=re.S) for t in (then, again))
    return first_of(path.name, different_lines(path.name, then, again))


def _drawings(
    folder: Path,
    named: str | None,
    known: Provenance,
    analysis: Analysis,
    unseen: list[str],
) -> Iterator[str]:
    """Figures against themselves drawn again, where they belong to the file that is meant."""
    figures = [name for name in _files_of(known) if Path(name).suffix in FIGURES]
    suffix = None if named is None else Path(named).suffix
    if suffix in (".tex", ".csv"):
        unseen.append(f"what the figures show, beyond their digests ({WHOLE})")
        return
    # another matplotlib draws other bytes of the same numbers
    program = known.drawn_with
    if program != drawing_program():
        unseen.append(
            f"what the figures show, beyond their digests: they were drawn with {program}, and "
            f"this is {drawing_program()}"
        )
        return
    stem = Path(named).stem if named is not None and suffix in FIGURES else None
    if stem is not None:
        figures = [name for name in figures if Path(name).stem == stem]
    again = draw(analysis, stem)
    for name in sorted({*figures, *again}):
        file = folder / name
        if name not in again:
            yield f"{name}: is no figure of this report"
        elif name not in figures:
            yield f"{name}: is a figure of this report that {NAME} does not name"
        elif file.is_file() and file.read_bytes() != again[name]:
            yield f"{name}: drawn again it differs"
            if file.suffix == ".svg":
                then = file.read_bytes().decode(errors="backslashreplace")
                yield from first_of(name, different_lines(name, then, again[name].decode()))


def _hashed(folder: Path, named: str, known: Provenance) -> Iterator[str]:
    """The files beside the one that is meant, of which nothing but digests was compared; what
    figures show is told of above."""
    others = [n for n in KINDS if n in known.files and n != named and (folder / n).exists()]
    if Path(named).suffix in FIGURES:
        others.append("other figures")
    if others:
        yield f"{', '.join(others)}, beyond their digests ({WHOLE})"


SHOWN = 5
"""Most draws of a benchmark that are shown to differ."""


def where(checkpoint: EvaluatedCheckpoint, benchmark: str) -> str:
    """For a person; the step is named where there are several."""
    step = f" at step {checkpoint.step}" if len(checkpoint.of_run) > 1 else ""
    return f"{checkpoint.name}{step}, {benchmark}"


def wrong_scores(
    checkpoint: EvaluatedCheckpoint, benchmark: str, version: str, *, draws: Path | None
) -> Iterator[str]:
    """Where pass@k is not what the grades give, which know of no clusters. version: of the
    benchmark's grader, or of one that stands beside it. draws: that were graded; None where they
    cannot be read, so that nothing is said of how many were cut off."""
    paths = checkpoint.evaluate.benchmark(benchmark)
    is_beside = version in checkpoint.beside(benchmark).values()
    if not paths.grades(version).exists():
        yield f"{where(checkpoint, benchmark)}: there are no grades of {version}"
        return
    passk = paths.extra_passk(version) if is_beside else paths.passk
    stored = read_table(passk, PASSK).sort("k", "problem_id")
    ks = stored["k"].unique().sort().to_list()
    design = checkpoint.asked().design
    counts = count_stored(paths.grades(version), design, draws=draws)
    again = score(counts, ks, design).sort("k", "problem_id")
    # clusters are no business of a grade: `wrong_verdicts` compares them with the problems
    not_computed = ["cluster", *(() if draws else CUT_OFF)]
    if not stored.drop(not_computed).equals(again.drop(not_computed)):
        yield f"{where(checkpoint, benchmark)}: pass@k is not what the stored grades give"


def wrong_verdicts(
    checkpoint: EvaluatedCheckpoint, benchmark: str, version: str, extra_grader: str | None = None
) -> Iterator[str]:
    """Where the grades are not what the grader says now: outcome, answer and reason of every
    distinct response; draws without a grade, and grades without a draw; and problems that are
    stored with another cluster than they have.

    extra_grader: None is the benchmark's own.
    """
    spec = checkpoint.evaluation_spec()
    of, task = spec.benchmark(benchmark), spec.task
    if task is not None or spec.data_folder(benchmark) is None:
        with fields_of(checkpoint.evaluate.spec):
            from_dict(TaskSpec, task)
    grader = extra_grader or of.grader
    at = where(checkpoint, benchmark) + (f", {version}" if extra_grader else "")
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
    passk = read_table(paths.extra_passk(version) if extra_grader else paths.passk, PASSK)
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
        for problem, index in rows.select(key).rows()[:1]:
            yield f"{named}: {len(rows)} draws {fault}, e.g. {index} of {problem}"


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


def wrong_frames(sweep: SweepResults, analysis: Analysis, unseen: list[str]) -> Iterator[str]:
    """Where the stored frames are not what was computed again; nothing where none are stored.

    unseen: is told of frames that nobody reads, as they are of other results or another version.
    """
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
    if checksum_mismatch(record.as_json()):
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
