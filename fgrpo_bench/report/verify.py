"""`python -m fgrpo_bench.report --verify <file>`: does a report still say what the draws say?

Digests first: of the report's files, and of all stored files that its numbers rest on. Then every
number is computed again, from the grades of the stored draws up, and the file is written again in
memory; with `regrade` the stored responses are judged again too. What differs is named, and what
was not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgrpo_bench.analysis import Analysis, analyse
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.report.build import FILES, draw, render
from fgrpo_bench.report.differences import different_lines, first_of
from fgrpo_bench.report.provenance import (
    NAME,
    SHAPE,
    drawing_program,
    evaluated,
    graded,
    inputs,
    read,
)
from fgrpo_bench.report.recomputed import (
    wrong_frames,
    wrong_likelihoods,
    wrong_scores,
    wrong_verdicts,
)
from fgrpo_bench.results import SweepResults, load_results
from fgrpo_bench.stages.digests import is_altered, sha256_file, weights_sha256
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.paths import RunPaths, StagePaths

KINDS = {name: kind for kind, name in FILES.items()}
"""How each file of a report is rendered."""
FIGURES = (".svg", ".pdf")
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
    """Compare a file of a report, one of FILES or a figure, with the stored results.

    path: with its provenance.json beside it, in a run's folder or anywhere. root: folder of all
    runs, for a file that was copied elsewhere. Raises FileNotFoundError and ValueError for what is
    no such file, and for stored files that cannot be read.
    """
    if path.name not in KINDS and path.suffix not in FIGURES:
        raise ValueError(
            f"{path} is none of {', '.join(KINDS)} and no figure: give one of a report's files"
        )
    beside = path.with_name(NAME)
    if not path.exists() or not beside.exists():
        raise FileNotFoundError(
            f"{path} and {beside} are both needed: build the report with `python -m "
            "fgrpo_bench.report <sweep>`, and copy a table together with its provenance"
        )
    known = read(beside)
    paths, at_home = _run(path, known, root)
    analysis = analyse(load_results(paths), known.get("select", LAST))
    results = analysis.results
    unseen: list[str] = []
    differences = [*_foreign(known, paths, path)]
    differences += _files(path, known, unseen, at_home=at_home)
    differences += _inputs(known, results)
    differences += _markers(results, unseen)
    for point, benchmark, version in graded(results):
        others = point.beside(benchmark)
        for each in (version, *others.values()):
            differences += wrong_scores(point, benchmark, each)
        if regrade:
            differences += wrong_verdicts(point, benchmark, version)
            for grader, each in others.items():
                differences += wrong_verdicts(point, benchmark, each, grader)
    differences += wrong_likelihoods(results)
    differences += wrong_frames(analysis, unseen)
    if path.name in KINDS:
        differences += _text(path, known, analysis)
    differences += _drawings(path, known, analysis, unseen)
    if not regrade:
        unseen.append("whether the stored responses are judged rightly (--regrade judges again)")
    unseen.append("whether these weights give these draws, and the training these weights")
    return Verified(differences=tuple(differences), unseen=tuple(unseen))


def _run(path: Path, known: Mapping[str, Any], root: Path) -> tuple[RunPaths, bool]:
    """The run that the file stands in, else the one that the provenance names, and which it is."""
    folder = path.resolve().parent.parent
    if not (folder / "plan.json").exists():
        return _named(known, root), False
    names = zip(ADDRESS, (folder.parents[1].name, folder.parent.name, folder.name), strict=True)
    return RunPaths(root=folder.parents[2], **dict(names)), True


def _named(known: Mapping[str, Any], root: Path) -> RunPaths:
    return RunPaths(root=root, **{key: known[key] for key in ADDRESS})


def _foreign(known: Mapping[str, Any], paths: RunPaths, path: Path) -> Iterator[str]:
    """What does not belong into this provenance."""
    for key in sorted(known.keys() - {key.removesuffix("?") for key in SHAPE}):
        yield f"{NAME}: {key!r} is nothing that a report writes there"
    if "content_sha256" in known and is_altered(dict(known)):
        yield f"{NAME}: was changed after the report was built"
    for name in sorted(known["files"]):
        if name not in KINDS and Path(name).suffix not in FIGURES:
            yield f"{NAME}: names {name!r}, which is no file of a report"
    if _named(known, paths.root) != paths:
        yield f"{NAME}: is of {_named(known, paths.root).folder}, and stands in {path.parent}"


def _files(
    path: Path, known: Mapping[str, Any], unseen: list[str], *, at_home: bool
) -> Iterator[str]:
    """The file and those beside it against their digests; a copy may stand without these."""
    figures = [name for name in known["files"] if Path(name).suffix in FIGURES]
    if not figures and path.name not in KINDS:
        raise ValueError(f"{path.with_name(NAME)} names no figure: build the report again")
    absent = []
    for name in dict.fromkeys([path.name, *sorted(known["files"])]):
        file = path.with_name(name)
        if name not in known["files"]:
            yield f"{name}: is not of this report, but of one that was built before"
        elif not file.exists() and not at_home:
            absent.append(name)
        elif not file.exists():
            yield f"{name}: is gone since the report was built"
        elif sha256_file(file) != known["files"][name]:
            yield f"{name}: was changed after the report was built"
    if absent:
        unseen.append(f"files of the report that are not beside it: {', '.join(absent)}")
    if not figures:
        unseen.append(f"the figures ({NAME} of before has no digests of them; build it again)")


def _inputs(known: Mapping[str, Any], results: SweepResults) -> Iterator[str]:
    """The stored files behind the report against the digests of provenance and markers."""
    behind, recorded = inputs(results), known["inputs"]
    present = {each.name: each.path for each in behind.values() if each.path.exists()}
    size = sum(path.stat().st_size for path in present.values())
    print(f"reading {len(present)} files, {size / 1e6:.1f} MB", file=sys.stderr, flush=True)
    expected = {each.name for each in behind.values() if each.is_listed}
    if "drawn_with" not in known:  # of a version that recorded grades, pass@k and likelihoods alone
        expected = {
            n for n in expected if not (behind[n].is_large or n.endswith("metrics.parquet"))
        }
    for name in sorted(recorded.keys() | behind.keys()):
        digest = sha256_file(present[name]) if name in present else None
        if name not in behind:
            yield f"{name}: is gone since the report was built, or was never behind it"
        elif digest is None:
            yield f"{name}: is gone since the report was built"
        elif name not in recorded and name in expected:
            yield f"{name}: is new since the report was built"
        elif name in recorded and digest != recorded[name]:
            yield f"{name}: changed since the report was built"
        elif behind[name].recorded not in (None, digest):
            yield f"{name}: is not what the marker of its stage has: one of them was changed"


def _markers(results: SweepResults, unseen: list[str]) -> Iterator[str]:
    """Markers against the digests of themselves; weights whose stage lists no files against the
    digest that the evaluation took."""
    stages: dict[Path, StagePaths] = {}
    silent = set()
    for point in evaluated(results):
        stages |= {stage.folder: stage for stage in (point.train, point.evaluate)}
        if not _lists(point.train):
            recorded = read_marker(point.evaluate).get("weights_sha256")
            folder = point.train.checkpoint(point.step)
            if recorded is not None and folder.exists() and weights_sha256(folder) != recorded:
                yield f"{point.point_id}: the weights in {folder} are not those that were judged"
    for stage in stages.values():
        marker = read_marker(stage) if stage.done.exists() else {}
        name = stage.done.relative_to(results.paths.folder).as_posix()
        if not _lists(stage):
            silent.add(name)
        elif is_altered(marker):
            yield f"{name}: was changed after its stage was done"
    if silent:
        unseen.append(
            f"draws and training metrics of {len(silent)} stages whose markers list no digests "
            f"(made by a version of before), e.g. {min(silent)}"
        )


def _lists(stage: StagePaths) -> bool:
    return stage.done.exists() and "outputs" in read_marker(stage)


def _text(path: Path, known: Mapping[str, Any], analysis: Analysis) -> Iterator[str]:
    """The file against itself written again; drawings in it only where the same program drew."""
    again = render(analysis, KINDS[path.name], compare_paper=known["compare_paper"])
    then = path.read_bytes().decode(errors="backslashreplace")
    if path.suffix == ".html" and known.get("drawn_with") != drawing_program():
        then, again = (re.sub(r"<svg\b.*?</svg>", "<svg/>", t, flags=re.S) for t in (then, again))
    return first_of(path.name, different_lines(path.name, then, again))


def _drawings(
    path: Path, known: Mapping[str, Any], analysis: Analysis, unseen: list[str]
) -> Iterator[str]:
    """Figures against themselves drawn again, where they belong to the file."""
    figures = [name for name in known["files"] if Path(name).suffix in FIGURES]
    if path.suffix in (".tex", ".csv"):
        unseen.append("what the figures show, beyond their digests (--verify report.md draws them)")
        return
    program = known.get("drawn_with")
    if program != drawing_program():
        unseen.append(
            f"what the figures show, beyond their digests: they were drawn with {program}, and "
            f"this is {drawing_program()}"
        )
        return
    if path.suffix in FIGURES:
        figures = [name for name in figures if Path(name).stem == path.stem]
    again = draw(analysis, path.stem if path.suffix in FIGURES else None)
    for name in sorted({*figures, *again}):
        file = path.with_name(name)
        if name not in again:
            yield f"{name}: is no figure of this report"
        elif name not in figures:
            yield f"{name}: is a figure of this report that {NAME} does not name"
        elif file.exists() and file.read_bytes() != again[name]:
            yield f"{name}: drawn again it differs"
            if file.suffix == ".svg":
                then = file.read_bytes().decode(errors="backslashreplace")
                yield from first_of(name, different_lines(name, then, again[name].decode()))
