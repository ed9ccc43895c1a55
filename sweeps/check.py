"""`fgrpo-bench check`: is every file of a sweep as it was made?

In: a run's folder. Out: which files differ from their digests, which are missing, and which no
record lists. Four records list files: a stage's DONE.json, the report's provenance.json, the
analysis.json of stored frames, and the list of digests of frozen code; each of them, and whatever
was declared, has the digest of its own content. `--fix` moves aside what is damaged, and the next
`run` makes it again.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from fgrpo_bench import engines
from fgrpo_bench.analysis.stored import FACTS, AnalysisRecord
from fgrpo_bench.command.runs import address, default_root, run_address
from fgrpo_bench.documents.terminal import escaped
from fgrpo_bench.files.paths import RunPaths, StagePaths, is_below
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.files.whole import quarantine, readable_record
from fgrpo_bench.report import provenance
from fgrpo_bench.report.provenance import Provenance
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.digests import (
    EDITED,
    Manifest,
    checksum_mismatch,
    differing,
    manifest_from_digests,
)
from fgrpo_bench.stages.locks import driving, is_locked, locked
from fgrpo_bench.stages.markers import Marker, is_latest, quarantine_output
from fgrpo_bench.stages.plan import PUT_BACK, PlanRecord, StageRecord, SweepRecord, read_plan
from sweeps.slurm import code, submissions
from sweeps.text import counted, short_path

R = TypeVar("R", bound=Record)
WORKING = (
    *("*.lock", "*.tmp", "logs", "state", "states", "shards", "judging.*", "damaged", "code"),
    *("slurm", "owner.json", "progress.json", "submissions.jsonl", "metrics.jsonl"),
    *("sweep.json", "plan.json", "spec.json", "DONE.json", provenance.NAME, FACTS),
    *(engine.name for engine in engines.all_engines()),
)
"""Names of files and folders that stages and drivers work with, and of records, which list others:
no result."""
SHOWN = 8
"""Most names that are listed."""
NOT_COMPARED = (
    "not compared: logs, locks, notes of progress and saved states; and whether the results follow "
    "from each other, which `fgrpo-bench report --verify <the report's folder>` tells"
)
MISSING, UNREADABLE = "is missing", "cannot be read"
REWRITTEN = "`run` writes it again"
OTHER = "is of another stage, or of other settings"
FOREIGN = "put the folder back where it belongs (were two of them swapped?), or move it away"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A file that differs or is missing."""

    name: str
    """Path from the run's folder."""
    what: str
    """For a person, e.g. `is missing`."""
    stage: str | None = None
    """Name of the stage whose file it is; None of one of the run itself."""
    remedy: str | None = None
    """What its owner has to do; None where it is moved aside and made again."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The files of a folder by a record that can be believed."""

    folder: str
    """Path from the run's folder."""
    files: Manifest
    stage: str | None = None
    """Of faults of these files, likewise below."""
    remedy: str | None = None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A sweep as its files are."""

    paths: RunPaths
    faults: tuple[Fault, ...]
    unlisted: tuple[str, ...]
    """Files that no record lists and that nothing is known to work with; paths from the run's
    folder."""
    undone: tuple[str, ...]
    """Stages that are not done yet: nothing lists their files."""
    begun_again: tuple[str, ...]
    """Stages that somebody has begun again, so that their files may be newer than their records."""
    n_files: int
    """Compared with a digest."""
    n_bytes: int


def check(paths: RunPaths) -> Checked:
    """Compare every file of a run with its digest. Raises as `read_plan`."""
    plan = read_plan(paths)
    stages = [record for record in plan.stages if is_below(record.name)]
    standings = {record.name: _standing(paths, record) for record in stages}
    done = [record for record in stages if standings[record.name] == "done"]
    entries = [*_declaration(paths, plan), *_report(paths, is_complete=len(done) == len(stages))]
    entries += [item for record in done for item in _stage(paths, record)]
    entries += [*_analyses(paths), *_code(paths)]
    listings = [item for item in entries if isinstance(item, Listing)]
    files = [paths.folder / item.folder / name for item in listings for name in item.files]
    n_bytes = sum(map(_size, files))
    print(f"reading {counted(len(files), 'file')}, {n_bytes / 1e6:.1f} MB", file=sys.stderr)
    faults = [item for item in entries if isinstance(item, Fault)]
    faults += [fault for listing in listings for fault in _differing(paths, listing)]
    return Checked(
        paths=paths,
        faults=tuple(faults),
        unlisted=tuple(_unlisted(paths, listings, standings)),
        undone=tuple(name for name in standings if standings[name] == "undone"),
        begun_again=tuple(name for name in standings if standings[name] == "begun again"),
        n_files=len(files),
        n_bytes=n_bytes,
    )


def _standing(paths: RunPaths, record: StageRecord) -> Literal["done", "undone", "begun again"]:
    """Done is a stage, too, whose marker is damaged or lost."""
    stage = StagePaths(paths.folder / record.name)
    at_work = is_locked(stage.lock)
    if not os.path.lexists(stage.done):
        tried = attempts(stage)
        return "done" if tried and tried[-1].outcome == "done" and not at_work else "undone"
    if at_work:
        return "begun again"
    marker = _sealed(stage.done, Marker)
    if isinstance(marker, str) or marker.fingerprint != record.fingerprint:
        return "done"
    try:
        return "done" if is_latest(stage, marker) else "begun again"
    except ValueError:  # an owner.json that cannot be read says nothing
        return "done"


def _sealed(path: Path, kind: type[R]) -> R | str:
    """A record that has the digest of its own content, or why it cannot be believed."""
    if not os.path.lexists(path):
        return MISSING
    record = readable_record(path, kind)
    if record is None:
        return UNREADABLE
    return EDITED if checksum_mismatch(record.as_json()) else record


def _declaration(paths: RunPaths, plan: PlanRecord) -> Iterator[Fault]:
    """What is wrong with sweep.json and plan.json, which only `run` can write."""
    remedies = {MISSING: REWRITTEN, UNREADABLE: f"delete it, and {REWRITTEN}", EDITED: PUT_BACK}
    sweep = _sealed(paths.sweep_json, SweepRecord)
    if isinstance(sweep, str):
        yield Fault(name=paths.sweep_json.name, what=sweep, remedy=remedies[sweep])
    if checksum_mismatch(plan.as_json()):
        yield Fault(name=paths.plan.name, what=EDITED, remedy=REWRITTEN)


def _stage(paths: RunPaths, record: StageRecord) -> Iterator[Fault | Listing]:
    """Of a stage that is done."""
    name = record.name
    stage = StagePaths(paths.folder / name)
    marker, spec = _sealed(stage.done, Marker), _sealed(stage.spec, StageSpec)
    if isinstance(marker, Marker) and marker.fingerprint != record.fingerprint:
        yield Fault(name=f"{name}/{stage.done.name}", what=OTHER, stage=name, remedy=FOREIGN)
        return
    if isinstance(spec, str) or spec.fingerprint != record.fingerprint:
        what = spec if isinstance(spec, str) else OTHER
        yield Fault(name=f"{name}/{stage.spec.name}", what=what, stage=name)
    yield _listing(paths, stage.done, Marker, lambda marker: marker.outputs, stage=name)


def _report(paths: RunPaths, *, is_complete: bool) -> Iterator[Fault | Listing]:
    """is_complete: whether all stages are done, so that there must be a report."""
    path = paths.report / provenance.NAME
    if is_complete or os.path.lexists(path):
        yield _listing(paths, path, Provenance, lambda record: manifest_from_digests(record.files))


def _analyses(paths: RunPaths) -> Iterator[Fault | Listing]:
    """Of every stored analysis; one without its record was being written, and is made anew."""

    def frames(record: AnalysisRecord) -> Manifest:
        return manifest_from_digests(
            {f"{name}.parquet": sha256 for name, sha256 in record.files.items()}
        )

    for path in sorted(paths.analysis.rglob(FACTS)):
        yield _listing(paths, path, AnalysisRecord, frames)


def _listing(
    paths: RunPaths,
    path: Path,
    kind: type[R],
    get_files: Callable[[R], Manifest],
    *,
    stage: str | None = None,
) -> Fault | Listing:
    """The files that a record lists, or what is wrong with it."""
    name, record = path.relative_to(paths.folder).as_posix(), _sealed(path, kind)
    if isinstance(record, str):
        return Fault(name=name, what=record, stage=stage)
    files = get_files(record)
    outside = [file for file in files if not is_below(file)]
    if outside:  # which nobody may read or move
        what = f"lists {outside[0]!r}, which is outside its folder"
        return Fault(name=name, what=what, stage=stage)
    return Listing(folder=str(PurePosixPath(name).parent), files=files, stage=stage)


def _code(paths: RunPaths) -> Iterator[Fault | Listing]:
    """Of the code that jobs on SLURM are sent with. What was added to it is no fault: Python's
    caches are."""
    sent_with = submissions.read(paths.submissions).code
    if sent_with is None:
        return
    remedy = f"`fgrpo-bench sweep retry {address(paths)}` freezes the code as it is now"
    copy = paths.code / Path(sent_with).name
    files = code.read_manifest(copy)
    if files is not None:
        folder = copy.relative_to(paths.folder).as_posix()
        yield Listing(folder=folder, files=files, remedy=remedy)
        return
    for name, what in code.damage(copy).items():
        yield Fault(name=f"{paths.code.name}/{name}", what=what, remedy=remedy)


def _size(path: Path) -> int:
    """Bytes of a file; 0 where there is none that can be read."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return 0


def _differing(paths: RunPaths, listing: Listing) -> Iterator[Fault]:
    folder = paths.folder / listing.folder
    for name, what in differing(folder, listing.files).items():
        remedy, at = listing.remedy, Path(os.path.realpath(folder / name)).parent
        if not at.is_relative_to(os.path.realpath(folder)):
            remedy = f"it stands in {at}, which is not the sweep's: restore it there"
        name = f"{listing.folder}/{name}"
        yield Fault(name=name, what=what, stage=listing.stage, remedy=remedy)


def _unlisted(
    paths: RunPaths, listings: Collection[Listing], stages: Collection[str]
) -> Iterator[str]:
    """Files that no record lists, but for those of stages that are not compared, and of a report or
    an analysis whose record is damaged."""
    listed = {f"{item.folder}/{name}" for item in listings for name in item.files}
    compared = {item.folder for item in listings}
    owners = {*stages, paths.report.name, paths.analysis.name}
    for folder, below, names in os.walk(paths.folder):
        at = PurePosixPath(Path(folder).relative_to(paths.folder).as_posix())
        owner = next((str(p) for p in (at, *at.parents) if str(p) in owners), None)
        below[:] = sorted(name for name in below if not _is_working(name))
        if owner is None or owner in compared:
            files = (str(at / name) for name in sorted(names) if not _is_working(name))
            yield from (file for file in files if file not in listed)


def _is_working(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in WORKING)


def fix(checked: Checked, say: Callable[[str], None]) -> None:
    """Move what is damaged into a folder `damaged`, of the stage or of the run, so that it is made
    again. What its owner has to restore is left alone, and so is what is missing.

    Raises BlockingIOError where the sweep or one of the stages is being run.
    """
    paths = checked.paths
    with driving(paths):
        for fault in checked.faults:
            path = paths.folder / fault.name
            if fault.remedy is not None or not os.path.lexists(path):
                continue
            if fault.stage is None:
                aside = quarantine(path, (paths.damaged / fault.name).parent)
            else:
                stage = StagePaths(paths.folder / fault.stage)
                with locked(stage.lock, wait=False, what=f"stage {fault.stage}"):
                    aside = quarantine_output(stage, fault.name.removeprefix(f"{fault.stage}/"))
            say(f"moved aside {fault.name} -> {short_path(aside)}")


def findings(checked: Checked) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words."""
    paths = checked.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "run_root": str(paths.root),
        "folder": str(paths.folder),
        "files": checked.n_files,
        "bytes": checked.n_bytes,
        "damaged": [
            {"stage": item.stage, "file": item.name, "fault": item.what, "remedy": item.remedy}
            for item in checked.faults
        ],
        "in_no_record": list(checked.unlisted),
        "undone": list(checked.undone),
        "begun_again": list(checked.begun_again),
    }


def render(checked: Checked) -> str:
    """What is damaged, what was not compared, and what to do."""
    paths = checked.paths
    lines = [
        f"{paths.sweep}  experiment={paths.experiment}  version={paths.version}",
        str(paths.folder),
        "",
        f"{counted(checked.n_files, 'file')} compared with their digests, "
        f"{checked.n_bytes / 1e6:.1f} MB",
    ]
    for heading, names in (
        ("not done yet", checked.undone),
        ("begun again and not compared", checked.begun_again),
        ("no record lists", checked.unlisted),
    ):
        if names:
            lines.append(f"{heading}: {_shown(names)}")
    if not checked.faults:
        lines.append("nothing is damaged")
    else:
        lines += ["", "damaged:", *map(_line, checked.faults), "", *_remedies(checked)]
    return "\n".join(escaped(line) for line in [*lines, NOT_COMPARED])


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _line(fault: Fault) -> str:
    return f"  {fault.name}: {fault.what}" + (f": {fault.remedy}" if fault.remedy else "")


def _remedies(checked: Checked) -> Iterator[str]:
    """What makes again what has no remedy of its own."""
    paths = checked.paths
    run = address(paths, full=True)
    rewritable = [fault for fault in checked.faults if fault.remedy is None]
    if any(fault.what != MISSING for fault in rewritable):
        yield f"`fgrpo-bench check {run} --fix` moves what is damaged aside"
    if any(fault.stage is not None for fault in rewritable):
        yield (
            f"`fgrpo-bench sweep run {run}`, with the settings that it was run with, makes again "
            "what is missing"
        )
    elif rewritable:
        is_default = paths.root == default_root().absolute()
        root = "" if is_default else f" --root {shlex.quote(str(paths.root))}"
        yield f"`fgrpo-bench report {run_address(paths)}{root}` writes again what is missing"
