"""`fgrpo-bench report --verify <folder or file>`: does a report still say what the draws say?

In: a report. Out: what differs, by file and line, and what was not looked at. pass@k is scored
again from the stored grades, with `regrade` these are judged again from the stored text, and the
report is built anew from the stored tables into a temporary folder, with what it says of what it
was made from. Whether stored files are as they were made is for `fgrpo-bench check`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results, results_at
from fgrpo_bench.analysis.scoring import count_stored, score
from fgrpo_bench.core.problems import Grade
from fgrpo_bench.files.paths import EVALUATIONS, TOGETHER, RunPaths
from fgrpo_bench.files.whole import reading_fields
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.graders.recorded import is_recorded
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.report.build import FILES, write_files
from fgrpo_bench.report.provenance import NAME, Provenance, drawing_program, graded, read
from fgrpo_bench.stages.digests import EDITED, checksum_mismatch, differing, manifest_from_digests
from fgrpo_bench.stages.tables import CUT_OFF, DRAWS, GRADES, PASSK, read_table

FIGURES = (".svg", ".pdf")
ADDRESS = ("sweep", "experiment", "version")
"""Keys of a provenance that name its run."""
SHOWN = 5
"""Most lines of a file that are shown to differ."""
BEFORE, SHOWN_CHARACTERS = 40, 100
"""Of a line: characters that are shown before the first that differs, and in all."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What came of it."""

    differences: tuple[str, ...]
    """A line each; empty where the report says what the stored draws say."""
    unseen: tuple[str, ...]
    """What was not looked at, and how it would be."""


def verify(path: Path, *, root: Path, regrade: bool) -> Verified:
    """Compare a report, or one file of it, with one that is built anew of the stored results.

    path: a folder with provenance.json, or a run's with such a folder `report`, of which every file
    is compared; or a file with provenance.json beside it. Either in a run's folder or anywhere.
    root: folder of all runs, for what was copied elsewhere. Raises FileNotFoundError and ValueError
    for what is no such thing, and for stored tables that are damaged.
    """
    folder, named = _report_and_file(path)
    stored = read(folder / NAME)
    paths, is_home = _run(folder, stored, root)
    results = results_at(paths)
    unseen, absent = list[str](), set[str]()
    differences = [f"{NAME}: {EDITED}"] if checksum_mismatch(stored.as_json()) else []
    differences += _other_grades(results, absent, regrade=regrade)
    # from the stored tables, never from stored frames
    analysis = analyse(results, stored.select, stored.by)
    with TemporaryDirectory() as temporary:
        anew = Path(temporary)
        formats = [kind for kind, name in FILES.items() if name in stored.files]
        write_files(analysis, anew, formats=formats, compare_paper=stored.compare_paper)
        differences += _other_sources(stored, read(anew / NAME), absent)
        names = {named} if named else {file.name for file in anew.iterdir()}
        if is_home and not named:
            names |= {file.name for file in folder.iterdir()}
        for name in sorted(names - {NAME}):
            differences += _other_file(folder / name, anew / name, stored)
    if absent:
        unseen.append(f"{len(absent)} stored files that are not there, e.g. {min(absent)}")
    if stored.drawn_with != drawing_program():
        unseen.append(
            f"what the figures show, beyond their digests: they were drawn with "
            f"{stored.drawn_with}, and this is {drawing_program()}"
        )
    if not regrade:
        unseen.append("whether the grader still gives these grades (--regrade grades again)")
    unseen.append("whether these weights give these draws, and the training these weights")
    return Verified(differences=tuple(differences), unseen=tuple(unseen))


def _report_and_file(path: Path) -> tuple[Path, str | None]:
    """The report's folder, and which file of it is meant: None for all of them."""
    if path.is_dir():
        folder = path if (path / NAME).exists() else path / "report"
        if not (folder / NAME).exists():
            raise FileNotFoundError(
                f"neither {path} nor {folder} holds a {NAME}: give a report's folder or a file of "
                "it, which `fgrpo-bench report <sweep>` writes"
            )
        return folder, None
    if path.name not in FILES.values() and path.suffix not in FIGURES:
        raise ValueError(
            f"{path} is none of {', '.join(FILES.values())} and no figure: give one of a report's "
            "files, or its folder for all of them"
        )
    provenance_file = path.with_name(NAME)
    if not path.exists() or not provenance_file.exists():
        raise FileNotFoundError(
            f"{path} and {provenance_file} are both needed: build the report with `fgrpo-bench "
            "report <sweep>`, and copy a table together with its provenance"
        )
    return path.parent, path.name


def _run(report: Path, stored: Provenance, root: Path) -> tuple[RunPaths, bool]:
    """The run that the report stands in, else that of its provenance; and which of them it is."""
    folder = report.resolve().parent
    is_run = (folder / "plan.json").exists()
    if not is_run and (folder.parents[1].name, folder.name) != (EVALUATIONS, TOGETHER):
        return RunPaths(root=root, **{key: getattr(stored, key) for key in ADDRESS}), False
    names = zip(ADDRESS, (folder.parents[1].name, folder.parent.name, folder.name), strict=True)
    return RunPaths(root=folder.parents[2], **dict(names)), True


def _other_sources(stored: Provenance, anew: Provenance, absent: set[str]) -> Iterator[str]:
    """Where the report was made from something else than stands there now. absent: is told of
    stored files that are not there."""
    then, now = stored.inputs, anew.inputs
    absent |= then.keys() - now.keys()
    for name in sorted(now):
        if then.get(name) != now[name]:
            what = "was changed" if name in then else "is new"
            yield f"{name}: {what} since the report was built"
    if stored.declared != anew.declared:
        yield f"{NAME}: sweep.json and plan.json do not say what the report was built of"
    for key in ADDRESS:
        if getattr(stored, key) != getattr(anew, key):
            yield f"{NAME}: is of {key} {getattr(stored, key)}, and stands in {getattr(anew, key)}"


def _other_file(file: Path, anew: Path, stored: Provenance) -> Iterator[str]:
    """A file of the report against the same built anew; a figure that another program drew, with
    its digest, as that may draw other bytes of the same numbers."""
    name, is_drawn_alike = file.name, stored.drawn_with == drawing_program()
    if not anew.exists():
        yield f"{name}: is no file of this report"
        return
    if file.suffix in FIGURES and not is_drawn_alike:
        faults = differing(file.parent, manifest_from_digests({name: stored.files.get(name, "")}))
        yield from (f"{name}: {fault} since the report was built" for fault in faults.values())
        return
    if not file.is_file():
        yield f"{name}: is {'no file' if os.path.lexists(file) else 'missing'}"
        return
    then, now = (at.read_bytes() for at in (file, anew))
    if file.suffix == ".pdf":
        if then != now:
            yield f"{name}: differs from what is drawn anew"
        return
    texts = [content.decode(errors="backslashreplace") for content in (then, now)]
    if file.suffix == ".html" and not is_drawn_alike:
        texts = [re.sub(r"<svg\b.*?</svg>", "<svg/>", text, flags=re.S) for text in texts]
    yield from _other_lines(name, *texts)


def _other_lines(name: str, then: str, anew: str) -> Iterator[str]:
    """The first lines in which two texts differ, their ends included."""
    pairs = enumerate(zip_longest(then.split("\n"), anew.split("\n")), start=1)
    other = [(number, old, new) for number, (old, new) in pairs if old != new]
    for number, old, new in other[:SHOWN]:
        yield f"{name}, line {number}: has {_part(old, new)}, built anew {_part(new, old)}"
    if len(other) > SHOWN:
        yield f"{name}: {len(other) - SHOWN} more lines differ"


def _part(line: str | None, other: str | None) -> str:
    """Of a line, what stands where it first differs from the other one; None: it is not there."""
    if line is None:
        return "no such line"
    pairs = enumerate(zip(line, other or "", strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(len(line), len(other or "")))
    start = max(0, first - BEFORE)
    return repr(line[start : start + SHOWN_CHARACTERS])


def _other_grades(results: Results, absent: set[str], *, regrade: bool) -> Iterator[str]:
    """Where pass@k is not what the grades give, and with `regrade` these not what the graders say
    now. absent: is told of tables that are not there."""

    def name(path: Path) -> str:
        return path.relative_to(results.folder).as_posix()

    for checkpoint, benchmark, main_version in graded(results):
        paths = checkpoint.evaluate.benchmark(benchmark)
        extra = {
            version: grader
            for grader, version in checkpoint.extra_grader_versions(benchmark).items()
        }
        for version in (main_version, *extra):
            passk = paths.passk(version if version in extra else None)
            grades = paths.grades(version)
            absent |= {name(table) for table in (grades, paths.draws) if not table.exists()}
            if grades.exists() and not scores_agree(checkpoint, grades, paths.draws, passk):
                yield f"{name(passk)}: is not what the stored grades give"
            if regrade and grades.exists() and paths.draws.exists():
                fault = _other_verdicts(checkpoint, benchmark, version, extra.get(version))
                yield from [] if fault is None else [f"{name(grades)}: {fault}"]


def scores_agree(checkpoint: EvaluatedCheckpoint, grades: Path, draws: Path, passk: Path) -> bool:
    """Whether grades give the stored pass@k; where there are no draws nothing tells how many were
    cut off, and grades know of no clusters."""
    stored, design = read_table(passk, PASSK).sort("k", "problem_id"), checkpoint.stopping()
    counts = count_stored(grades, design, draws=draws if draws.exists() else None)
    again = score(counts, stored["k"].unique().sort().to_list(), design).sort("k", "problem_id")
    not_computed = ["cluster", *(() if draws.exists() else CUT_OFF)]
    return stored.drop(not_computed).equals(again.drop(not_computed))


def _other_verdicts(
    checkpoint: EvaluatedCheckpoint, benchmark: str, version: str, extra_grader: str | None
) -> str | None:
    """Where grades are not what the grader says now: outcome, answer and reason of every distinct
    response, draws without a grade, grades without a draw; None where they are.

    extra_grader: None is the benchmark's own.
    """
    spec, paths = checkpoint.evaluation_spec(), checkpoint.evaluate.benchmark(benchmark)
    declared = spec.benchmark(benchmark)
    grader = extra_grader or declared.grader
    if is_recorded(grader):
        return None  # another program has judged, in whose file alone its verdicts stand
    if grader_version(grader) != version:
        return (
            f"was graded by {version}, and this is {grader_version(grader)}: `fgrpo-bench evaluate "
            "grade` grades it again"
        )
    with reading_fields(checkpoint.evaluate.spec):
        loaded = load_problems(declared, spec.task, spec.data_folder(benchmark))
    problems = {problem.problem_id: problem for problem in loaded}
    draws, grades = read_table(paths.draws, DRAWS), read_table(paths.grades(version), GRADES)
    judged = draws.join(grades, on=["problem_id", "draw"], how="full", coalesce=True)
    kinds = ["problem_id", "response", "outcome", "extracted", "reason"]
    different = judged.unique(kinds, keep="first", maintain_order=True).sort("problem_id", "draw")
    print(f"{paths.folder}: judging {len(different)} responses", file=sys.stderr, flush=True)
    grade, wrong = get_grader(grader), []
    for row in different.iter_rows(named=True):
        problem, response = problems.get(row["problem_id"]), row["response"]
        again = None if problem is None or response is None else grade(problem, response)
        if not _is_judged_so(row, again):
            wrong.append(
                f"draw {row['draw']} of {row['problem_id']} is stored as {row['outcome']} "
                f"({row['reason']}) and judged "
                + ("nothing" if again is None else f"{again.outcome} ({again.reason})")
            )
    return f"{len(wrong)} responses are judged otherwise: {wrong[0]}" if wrong else None


def _is_judged_so(row: dict[str, Any], again: Grade | None) -> bool:
    """again: None where there is no such problem or no stored text."""
    if again is None:
        return False
    if again.outcome == "unscored":  # why it could not tell may differ from machine to machine
        return bool(row["outcome"] == "unscored")
    judged = (again.outcome, again.extracted, again.stored_reason)
    return judged == (row["outcome"], row["extracted"], row["reason"])
