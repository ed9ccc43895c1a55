"""Reading a sweep for `check`: every stage, the report, and the digest of every file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fgrpo_bench.report import provenance
from fgrpo_bench.runs import has_checkpoints
from fgrpo_bench.stages.attempts import Attempts
from fgrpo_bench.stages.digests import SEAL, is_altered, sha256_file
from fgrpo_bench.stages.files import read_json, readable_json
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.paths import RunPaths, SharedPaths
from fgrpo_bench.stages.shapes import MANIFEST, PLAN, SHARED, SWEEP
from sweeps.check import compare
from sweeps.check.stored import (
    DECLARATION,
    REPORT,
    SHARED_DRAWS,
    Damage,
    RecordedFile,
    StoredStage,
    read_stage,
)

PROVENANCE = f"{REPORT}/{provenance.NAME}"
Tell = Callable[[int], None]
"""Told of bytes that were read."""
Bar = Callable[[int], Tell]
"""Asked once, with the bytes that are to be read."""


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A sweep as its files are."""

    paths: RunPaths
    stages: tuple[StoredStage, ...]
    """Every stage of the plan, each after what it needs."""
    damage: tuple[Damage, ...]
    unrecorded: tuple[str, ...]
    """Files that no record has a digest of; paths from the run's folder."""
    n_files: int
    """Compared with a digest."""
    n_bytes: int


def examine(paths: RunPaths, bar: Bar) -> Examined:
    """Compare every file with its digest. ValueError where the plan cannot be read."""
    tried = Attempts(paths)
    plan = read_json(paths.plan, PLAN)
    stages = [read_stage(paths, record, tried.of(record["name"])) for record in plan["stages"]]
    files, inputs, faults = _report(
        paths, complete=all(stage.standing == "done" for stage in stages)
    )
    stages = compare.with_lost_markers(stages, inputs)
    shared, shared_faults = _shared(paths, stages)
    recorded = [*compare.in_provenance(inputs, stages), *files, *shared]
    recorded += [
        known for stage in stages for known in (*stage.of_before, *compare.promised(stage))
    ]
    known = {each.name: each for each in recorded}
    sizes = {name: _size(paths, name) for name in known}
    damage = [*_declaration(paths), *compare.mislabelled(plan["points"], stages)]
    damage += [*(fault for stage in stages for fault in stage.faults), *faults]
    damage += shared_faults
    damage += [*_differing(paths, known, sizes, bar), *compare.of_other_weights(stages)]
    damage += compare.outdated(inputs, known.values(), {each.name for each in damage})
    return Examined(
        paths=paths,
        stages=tuple(stages),
        damage=tuple({each.name: each for each in reversed(damage)}.values())[::-1],
        unrecorded=tuple(
            name
            for stage in stages
            if stage.is_silent
            for name in stage.stored
            if name not in known
        ),
        n_files=len(known),
        n_bytes=sum(size for size in sizes.values() if size is not None),
    )


def _declaration(paths: RunPaths) -> Iterator[Damage]:
    """What is wrong with sweep.json, which only `run` can write."""
    if not paths.sweep_json.exists():
        fault = "is missing: `run` writes it again"
    else:
        try:
            read_json(paths.sweep_json, SWEEP)
        except ValueError:
            fault = "cannot be read: delete it, and `run` writes it again"
        else:
            return
    yield Damage(of=DECLARATION, name=paths.sweep_json.name, fault=fault)


def _report(
    paths: RunPaths, *, complete: bool
) -> tuple[list[RecordedFile], Mapping[str, str], list[Damage]]:
    """The report's files, the digests of what it was made from, and what is wrong with the record.

    complete: whether all stages are done, so that there must be a report.
    """
    at = paths.report / provenance.NAME
    if not at.exists():
        missing = complete and has_checkpoints(paths)  # other reports have no provenance
        return [], {}, [Damage(of=REPORT, name=PROVENANCE, fault="is missing")] if missing else []
    try:
        known = provenance.read(at)
    except ValueError:
        return [], {}, [Damage(of=REPORT, name=PROVENANCE, fault="cannot be read as a provenance")]
    altered = SEAL in known and is_altered(known)
    fault = Damage(of=REPORT, name=PROVENANCE, fault="was changed after it was written")
    files = [
        RecordedFile(of=REPORT, name=f"{REPORT}/{name}", sha256=digest)
        for name, digest in known["files"].items()
    ]
    return files, known["inputs"], [fault] if altered else []


def _shared(
    paths: RunPaths, stages: Iterable[StoredStage]
) -> tuple[list[RecordedFile], list[Damage]]:
    """The files of the entries that draws of the sweep belong to, and faults of their records; an
    entry that is gone, or that somebody adds to now, has neither."""
    digests = {
        manifest["shared"]["digest"]
        for stage in stages
        for path in (paths.folder / stage.name).glob("*/draws.json")
        if "shared" in (manifest := readable_json(path, MANIFEST) or {})
    }
    known, faults = [], []
    for digest in sorted(digests):
        entry = SharedPaths(paths.draws / digest)
        if not entry.facts.exists() or is_locked(entry.lock):
            continue
        facts = readable_json(entry.facts, SHARED)
        if facts is None or is_altered(facts):
            fault = "cannot be read" if facts is None else "was changed after it was written"
            name = os.path.relpath(entry.facts, paths.folder)
            faults.append(Damage(of=SHARED_DRAWS, name=name, fault=fault))
            continue
        name = os.path.relpath(entry.draws(facts["sha256"]), paths.folder)
        sha256, size = facts["sha256"], facts["bytes"]
        known.append(RecordedFile(of=SHARED_DRAWS, name=name, sha256=sha256, bytes=size))
    return known, faults


def _differing(
    paths: RunPaths, known: Mapping[str, RecordedFile], sizes: Mapping[str, int | None], bar: Bar
) -> Iterator[Damage]:
    """Files that are not as they were recorded; those of another size are not read."""
    alike = {name for name, each in known.items() if each.bytes in (None, sizes[name])}
    tell = bar(sum(sizes[name] or 0 for name in alike))
    for name, each in known.items():
        try:
            if sizes[name] is None:
                fault = "is missing"
            elif name not in alike:
                fault = f"has {sizes[name]} bytes instead of {each.bytes}"
            elif sha256_file(paths.folder / name, tell) != each.sha256:
                fault = "has other content than was recorded"
            else:
                continue
        except OSError as error:
            fault = f"cannot be read: {error.strerror or error}"
        yield Damage(of=each.of, name=name, fault=fault)


def _size(paths: RunPaths, name: str) -> int | None:
    try:
        return (paths.folder / name).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


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
