"""`check`: is every file of a sweep, or of an unpacked bundle, as it was made?

In: a folder. Out: `examine` reads every file and compares it with its digest; `findings` says what
is damaged, what rests on it and what is to be made again, as JSON types, and `render` in words.
`--repair` moves what is damaged aside, and `run` makes again what is missing then.
Next: sweeps.check.compare, what follows from markers and provenance.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fgrpo_bench import engines
from fgrpo_bench.analysis.results import read_declared
from fgrpo_bench.analysis.rows import FRAMES
from fgrpo_bench.analysis.stored import FACTS, AnalysisRecord
from fgrpo_bench.command.runs import address
from fgrpo_bench.documents.terminal import escaped
from fgrpo_bench.files.paths import RunPaths, StagePaths, is_below
from fgrpo_bench.files.whole import quarantine, readable_record
from fgrpo_bench.report import provenance
from fgrpo_bench.specs import Declaration
from fgrpo_bench.specs.stored import from_stored
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.digests import (
    MANIFEST_FILE,
    Tell,
    added,
    checksum_mismatch,
    differing,
    fault_of,
    from_lines,
    of_digests,
)
from fgrpo_bench.stages.locks import driving, locked
from fgrpo_bench.stages.markers import quarantine_output
from fgrpo_bench.stages.plan import (
    PlanRecord,
    StageRecord,
    SweepRecord,
    declared_digests,
    read_plan,
)
from sweeps.check import compare
from sweeps.check.compare import (
    ANALYSIS,
    DECLARATION,
    MARKER_FILE,
    REPORT,
    SPEC_FILE,
    Damage,
    RecordedFile,
    StoredStage,
    read_stage,
)
from sweeps.freeze import UNSEALED
from sweeps.reporting import finish
from sweeps.text import counted, short_path

RECORDS = ("sweep.json", "plan.json", f"{REPORT}/{provenance.NAME}")
"""Files that are compared by what they say."""
WORKING = (
    *("logs", "state", "states", "shards", "judging.*", "damaged", "code", "slurm"),
    *("owner.json", "progress.json", "submissions.jsonl", FACTS),
    *(engine.name for engine in engines.known()),
)
"""Names of files and folders that stages and drivers work with, and of records that are read above;
beside locks and what is being written."""
PROVENANCE = f"{REPORT}/{provenance.NAME}"
Bar = Callable[[int], Tell]
"""Asked once, with the bytes that are to be read."""


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A sweep as its files are."""

    paths: RunPaths
    stages: tuple[StoredStage, ...]
    """Every stage of the plan, each after what it needs."""
    damage: tuple[Damage, ...]
    unplanned: tuple[str, ...]
    """Folders of stages that the plan does not have."""
    unlisted: tuple[str, ...]
    """Files that no record lists and that nothing is known to work with; paths from the run's
    folder."""
    n_files: int
    """Compared with a digest."""
    n_bytes: int


def examine(paths: RunPaths, bar: Bar) -> Examined:
    """Compare every file with its digest. ValueError where the plan cannot be read."""
    plan = read_plan(paths)
    outside = [record.name for record in plan.stages if not is_below(record.name)]
    stages = list(_stages(paths, [r for r in plan.stages if r.name not in outside]))
    complete = all(stage.standing == "done" for stage in stages)
    files, inputs, faults = _report(paths, plan, complete=complete)
    stages = compare.with_lost_markers(stages, inputs)
    analysed, analysis_faults = _analyses(paths)
    recorded = [*compare.in_provenance(inputs, stages), *files, *analysed]
    recorded += [known for stage in stages for known in compare.promised(stage)]
    known = {item.name: item for item in recorded}
    n_bytes = sum(size_of(paths.folder / name) for name in known)
    damage = [*_sweep_json(paths), *(_outside(DECLARATION, "plan.json", name) for name in outside)]
    damage += [*compare.mislabelled(plan.points, stages), *_edited_plan(plan)]
    damage += [*(fault for stage in stages for fault in stage.faults), *faults]
    damage += [*analysis_faults, *_differing(paths, known.values(), bar(n_bytes))]
    damage += compare.of_other_weights(stages)
    damage += compare.outdated(inputs, known.values(), {fault.name for fault in damage})
    unplanned, unlisted = _beyond(paths, stages, known)
    return Examined(
        paths=paths,
        stages=tuple(stages),
        damage=tuple({fault.name: fault for fault in reversed(damage)}.values())[::-1],
        unplanned=unplanned,
        unlisted=unlisted,
        n_files=len(known),
        n_bytes=n_bytes,
    )


def _stages(paths: RunPaths, records: Iterable[StageRecord]) -> Iterator[StoredStage]:
    """Every stage of the plan; one whose files the disk does not give is damaged, and no end."""
    for record in records:
        name = record.name
        try:
            yield read_stage(paths, record, attempts(StagePaths(paths.folder / name)))
        except OSError as error:
            at = os.path.relpath(error.filename or paths.folder / name, paths.folder)
            fault = Damage(of=name, name=at, fault=f"cannot be read: {error.strerror or error}")
            yield StoredStage(record=record, standing="undone", marker=None, faults=(fault,))


def _sweep_json(paths: RunPaths) -> Iterator[Damage]:
    """What is wrong with sweep.json, which only `run` can write."""
    try:
        fault = UNSEALED if checksum_mismatch(read_declared(paths).as_json()) else None
    except FileNotFoundError:
        fault = "is missing: `run` writes it again"
    except (OSError, ValueError):
        fault = "cannot be read: delete it, and `run` writes it again"
    if fault is not None:
        yield Damage(of=DECLARATION, name=paths.sweep_json.name, fault=fault)


def _edited_plan(plan: PlanRecord) -> Iterator[Damage]:
    if checksum_mismatch(plan.as_json()):
        fault = "was changed after it was frozen, or lost its seal: `run` writes it again"
        yield Damage(of=DECLARATION, name="plan.json", fault=fault)


def _outside(of: str, record: str, name: str) -> Damage:
    """A name in a record (path from the run's folder) that nobody may follow."""
    return Damage(of=of, name=record, fault=f"names {name!r}, which is outside its folder")


def _analyses(paths: RunPaths) -> tuple[list[RecordedFile], list[Damage]]:
    """The frames of every stored analysis, and faults of their records. One without its record was
    being written, and is made anew by whoever reads it."""
    known, faults = [], []
    for at in sorted([*paths.analysis.glob(FACTS), *paths.analysis.glob(f"*/{FACTS}")]):
        record, folder = (item.relative_to(paths.folder).as_posix() for item in (at, at.parent))
        stored = readable_record(at, AnalysisRecord)
        if stored is None or checksum_mismatch(stored.as_json()):
            fault = "cannot be read" if stored is None else "was changed after it was written"
            faults.append(Damage(of=ANALYSIS, name=record, fault=fault))
            continue  # all frames are computed again, whatever they are
        for name, listed in of_digests(stored.files).items():
            if name in FRAMES:
                file = f"{folder}/{name}.parquet"
                known.append(RecordedFile(of=ANALYSIS, name=file, listed=listed))
            else:
                faults.append(Damage(of=ANALYSIS, name=record, fault=f"names no frame: {name!r}"))
    return known, faults


def _report(
    paths: RunPaths, plan: PlanRecord, *, complete: bool
) -> tuple[list[RecordedFile], Mapping[str, str], list[Damage]]:
    """The report's files, the digests of what it was made from, and what is wrong with the record.

    complete: whether all stages are done, so that there must be a report.
    """
    at = paths.report / provenance.NAME
    if not at.exists():
        return [], {}, [Damage(of=REPORT, name=PROVENANCE, fault="is missing")] if complete else []
    try:
        known = provenance.read(at)
    except (OSError, ValueError):
        return [], {}, [Damage(of=REPORT, name=PROVENANCE, fault="cannot be read as a provenance")]
    faults = []
    sweep_json = readable_record(paths.sweep_json, SweepRecord)
    altered = any(
        checksum_mismatch(said.as_json()) for said in (sweep_json, plan) if said is not None
    )
    if checksum_mismatch(known.as_json()):
        fault = "was changed after it was written"
        faults.append(Damage(of=REPORT, name=PROVENANCE, fault=fault))
    elif complete and sweep_json is not None and not altered:
        now = declared_digests(sweep_json, plan)
        if known.declared != now:
            fault = "was made from another sweep.json or plan.json"
            faults.append(Damage(of=REPORT, name=PROVENANCE, fault=fault))
    outside = [name for name in (*known.files, *known.inputs) if not is_below(name)]
    faults += [_outside(REPORT, PROVENANCE, name) for name in outside]
    files = [
        RecordedFile(of=REPORT, name=f"{REPORT}/{name}", listed=listed)
        for name, listed in of_digests(known.files).items()
        if name not in outside
    ]
    inputs = {name: known.inputs[name] for name in known.inputs if name not in outside}
    return files, inputs, faults


def _differing(paths: RunPaths, known: Iterable[RecordedFile], tell: Tell) -> Iterator[Damage]:
    """Files that are not as they were recorded."""
    for recorded in known:
        fault = fault_of(paths.folder / recorded.name, recorded.listed, tell)
        if fault is not None:
            yield Damage(of=recorded.of, name=recorded.name, fault=fault)


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where there is none that can be read."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return 0


def _beyond(
    paths: RunPaths, stages: Iterable[StoredStage], known: Mapping[str, RecordedFile]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders of stages that the plan does not have, and files that no record lists. Of stages that
    are not done, and of what stages work with, nothing is named."""
    by_name = {stage.name: stage for stage in stages}
    unplanned, unlisted = set(), []
    for folder, below, files in os.walk(paths.folder):
        at = Path(folder).relative_to(paths.folder)
        below[:] = [name for name in below if not _is_working(at / name)]
        of = next((str(parent) for parent in (at, *at.parents) if _is_stage(paths, parent)), None)
        for name in files:
            file = (at / name).as_posix()
            if file in known or file in RECORDS or _is_working(at / name):
                continue
            if of is not None and of not in by_name:
                unplanned.add(of)
            elif of is None or _should_list(by_name[of], at / name):
                unlisted.append(file)
    return tuple(sorted(unplanned)), tuple(sorted(unlisted))


def _is_stage(paths: RunPaths, folder: Path) -> bool:
    return any((paths.folder / folder / name).exists() for name in (MARKER_FILE, SPEC_FILE))


def _should_list(stage: StoredStage, file: Path) -> bool:
    """Whether the marker of a stage would list a file, if it were a result."""
    is_record = file.name in (MARKER_FILE, SPEC_FILE) and str(file.parent) == stage.name
    return not is_record and stage.standing == "done" and stage.marker is not None


def _is_working(path: Path) -> bool:
    """Whether stages or drivers work with it, so that it says nothing of a result."""
    return path.suffix in (".lock", ".tmp") or any(fnmatch(path.name, item) for item in WORKING)


@contextmanager
def reading(out: TextIO) -> Iterator[Bar]:
    """A bar of the bytes that are read, on a terminal; nothing elsewhere. Gives what is told once
    how many there are, and then of every part."""
    console = Console(file=out)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not out.isatty()) as progress:

        def begin(total: int) -> Tell:
            task = progress.add_task("reading", total=total)
            return lambda part: progress.advance(task, part)

        yield begin


SHOWN = 8
"""Most names that are listed."""
BEYOND = {
    "of_no_stage_of_the_plan": "not compared, of no stage of the plan",
    "in_no_record": "not compared, in no record",
}
"""What is said of files that are not the plan's."""
NOT_COMPARED = (
    "not compared: logs, locks, notes of progress and saved states; and whether the results follow "
    "from each other, which `fgrpo-bench report --verify <the report's folder>` computes"
)


def findings(examined: Examined) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words."""
    records = [stage.record for stage in examined.stages]
    damaged = {fault.of for fault in examined.damage if not fault.name.endswith(f"/{SPEC_FILE}")}
    again = [
        {"stage": stage.name, "kind": stage.record.kind}
        for stage in examined.stages
        if stage.name in damaged
    ]
    return {
        "sweep": examined.paths.sweep,
        "experiment": examined.paths.experiment,
        "version": examined.paths.version,
        "run_root": str(examined.paths.root),
        "folder": str(examined.paths.folder),
        "files": examined.n_files,
        "bytes": examined.n_bytes,
        "damaged": [{"of": d.of, "file": d.name, "fault": d.fault} for d in examined.damage],
        "rests_on_it": compare.resting(examined.damage, records),
        "to_make_again": again,
        "report_to_make_again": bool(examined.damage),
        "of_no_stage_of_the_plan": list(examined.unplanned),
        "in_no_record": list(examined.unlisted),
        "undone": [stage.name for stage in examined.stages if stage.standing == "undone"],
        "begun_again": [stage.name for stage in examined.stages if stage.standing == "begun again"],
    }


def render(answer: Mapping[str, Any]) -> str:
    """What is damaged, what rests on it, and what to do."""
    lines = [
        f"{answer['sweep']}  experiment={answer['experiment']}  version={answer['version']}",
        answer["folder"],
        "",
        f"{counted(answer['files'], 'file')} compared with their digests, "
        f"{answer['bytes'] / 1e6:.1f} MB",
    ]
    undone = [name for name in answer["undone"] if name not in _damaged(answer)]
    if undone:
        lines.append(f"not done yet: {_listed(undone)}")
    if answer["begun_again"]:
        lines.append(f"begun again and not compared: {_listed(answer['begun_again'])}")
    for key, words in BEYOND.items():
        if answer[key]:
            lines.append(f"{words}: {_listed(answer[key])}")
    if not answer["damaged"]:
        return _joined([*lines, "nothing is damaged", NOT_COMPARED])
    lines += ["", "damaged:", *(f"  {item['file']}: {item['fault']}" for item in answer["damaged"])]
    for name, above in answer["rests_on_it"].items():
        lines.append(f"  on {name} rest {_listed(above)}")
    return _joined([*lines, "", *_remedy(answer), NOT_COMPARED])


def _joined(lines: list[str]) -> str:
    return "\n".join(map(escaped, lines))


def _remedy(answer: Mapping[str, Any]) -> list[str]:
    again = answer["to_make_again"]
    parts = [f"{item['kind']} {item['stage']}" for item in again]
    stages = f"{counted(len(again), 'stage')} ({_listed(parts)}) and " if again else ""
    named = {key: answer[key] for key in ("sweep", "experiment", "version")}
    of_run = address(RunPaths(root=Path(answer["run_root"]), **named), full=True)
    if DECLARATION in _damaged(answer):
        return [f"first `fgrpo-bench sweep run {of_run}`, with the settings that it was run with"]
    return [
        f"to be made again: {stages}the report",
        f"`fgrpo-bench check {of_run} --repair` moves what is damaged aside and runs the "
        "sweep as it was declared, which makes again what is missing",
    ]


def _damaged(answer: Mapping[str, Any]) -> set[str]:
    return {item["of"] for item in answer["damaged"]}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def examine_folder(folder: Path, bar: Bar) -> dict[str, Any]:
    """What is damaged, missing or added, as JSON types. FileNotFoundError where the folder has no
    manifest, ValueError where it is none."""
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: give the name of a sweep, or the folder that an archive of "
            "`fgrpo-bench bundle` was unpacked into"
        )
    content = path.read_bytes()
    try:
        manifest = from_lines(content.decode())
    except ValueError as error:
        raise ValueError(f"{path} holds no list of digests: {error}") from error
    size = sum(size_of(folder / name) for name in manifest if is_below(name))
    faults = differing(folder, manifest, bar(size))
    faults |= dict.fromkeys(added(folder, manifest), "is not of this bundle")
    return {
        "folder": str(folder),
        "files": len(manifest),
        "damaged": [{"file": name, "fault": fault} for name, fault in faults.items()],
        "manifest_sha256": hashlib.sha256(content).hexdigest(),
    }


def render_unpacked(answer: dict[str, Any]) -> str:
    """The same in words."""
    damaged = [f"  {item['file']}: {item['fault']}" for item in answer["damaged"]]
    lines = [
        answer["folder"],
        f"{counted(answer['files'], 'file')} compared with {MANIFEST_FILE}, whose own sha256 the "
        f"publisher has to tell: {answer['manifest_sha256']}",
        *(["damaged:", *damaged] if damaged else ["nothing is damaged"]),
        "not compared: whether the numbers follow from the grades, which `fgrpo-bench "
        "report --verify <the report's folder>` computes",
    ]
    return "\n".join(map(escaped, lines))


Say = Callable[[str], None]


def repair(examined: Examined, *, say: Say, run: Callable[[Declaration], int]) -> int:
    """Move every damaged file into a folder `damaged`, and have made again what is missing then;
    exit code as of `run`, which is given what the sweep was run with.

    Where stages lack nothing, report and MLflow are written here. Raises ValueError, before
    anything is moved, where making a file again would not mend it; BlockingIOError where it is
    being run.
    """
    paths, of = examined.paths, {fault.of for fault in examined.damage}
    _check_places(examined)
    _quarantine_outputs(examined, say)
    if of <= {REPORT, ANALYSIS}:
        finish(paths, say)
        return 0
    declared = read_declared(paths).declaration | {"run_root": str(paths.root)}
    return run(from_stored(Declaration, declared, paths.sweep_json))


def _check_places(examined: Examined) -> None:
    """ValueError for what cannot be mended by making it again."""
    folder = examined.paths.folder
    foreign = {stage.name for stage in examined.stages if stage.is_foreign}
    for fault in examined.damage:
        at = Path(os.path.realpath(folder / fault.name))  # of a loop of links, too
        if fault.of == DECLARATION:
            raise ValueError(f"{folder / fault.name} {fault.fault}; nothing was moved")
        if fault.of in foreign:
            raise ValueError(
                f"{folder / fault.of} holds another stage, or one of other settings (were two "
                "folders swapped?): put it back where it belongs, or move it away; nothing was "
                "moved"
            )
        if not at.is_relative_to((folder / fault.of).resolve()):
            raise ValueError(
                f"{folder / fault.name} stands in {at.parent}, which is not the sweep's: restore "
                "it there; nothing was moved"
            )


def _quarantine_outputs(examined: Examined, say: Say) -> None:
    """Under the locks of driver and stages; BlockingIOError where one is held."""
    paths, stages = examined.paths, {stage.name for stage in examined.stages}
    with driving(paths):
        for fault in examined.damage:
            path = paths.folder / fault.name
            if not os.path.lexists(path):
                continue
            if fault.of in stages:
                stage = StagePaths(paths.folder / fault.of)
                with locked(stage.lock, wait=False, what=f"stage {fault.of}"):
                    aside = quarantine_output(stage, fault.name.removeprefix(f"{fault.of}/"))
            else:  # of the report or the analysis
                aside = quarantine(path, (paths.damaged / fault.name).parent)
            say(f"moved aside {fault.name} -> {short_path(aside)}")
