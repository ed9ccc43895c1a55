"""Reading a sweep for `check`: every stage, the report, and the digest of every file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fgrpo_bench.report import provenance
from fgrpo_bench.simulation.plan import is_simulation
from fgrpo_bench.stages.attempts import Attempts
from fgrpo_bench.stages.files import SEAL, is_altered, read_json, sha256_file
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.stages.shapes import PLAN, SWEEP
from sweeps.check import judge
from sweeps.check.held import DECLARATION, REPORT, Damage, Held, Known, Seen
from sweeps.check.hold import hold

PROVENANCE = f"{REPORT}/{provenance.NAME}"
Tell = Callable[[int], None]
"""Told of bytes that were read."""
Bar = Callable[[int], Tell]
"""Asked once, with the bytes that are to be read."""


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A sweep as its files are."""

    paths: RunPaths
    held: tuple[Held, ...]
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
    held = [hold(paths, record, tried.of(record["name"])) for record in plan["stages"]]
    files, inputs, faults = _report(paths, complete=all(one.standing == "done" for one in held))
    held = judge.with_lost_markers(held, inputs)
    recorded = [*judge.in_provenance(inputs, held), *files]
    recorded += [known for one in held for known in (*one.of_before, *judge.promised(one))]
    known = {each.name: each for each in recorded}
    seen = _see(paths, known.values(), bar)
    damage = [*_declaration(paths), *judge.mislabelled(plan["points"], held)]
    damage += [*(fault for one in held for fault in one.faults), *faults]
    damage += [*judge.compare(known.values(), seen), *judge.of_other_weights(held)]
    damage += judge.outdated(inputs, known.values(), {each.name for each in damage})
    return Examined(
        paths=paths,
        held=tuple(held),
        damage=tuple({each.name: each for each in reversed(damage)}.values())[::-1],
        unrecorded=tuple(
            name for one in held if one.is_silent for name in one.stored if name not in known
        ),
        n_files=len(seen),
        n_bytes=sum(each.bytes for each in seen.values() if each is not None),
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
) -> tuple[list[Known], Mapping[str, str], list[Damage]]:
    """The report's files, the digests of what it was made from, and what is wrong with the record.

    complete: whether all stages are done, so that there must be a report.
    """
    at = paths.report / provenance.NAME
    if not at.exists():
        missing = complete and not is_simulation(paths)  # whose report has no provenance
        return [], {}, [Damage(of=REPORT, name=PROVENANCE, fault="is missing")] if missing else []
    try:
        known = provenance.read(at)
    except ValueError:
        return [], {}, [Damage(of=REPORT, name=PROVENANCE, fault="cannot be read as a provenance")]
    altered = SEAL in known and is_altered(known)
    fault = Damage(of=REPORT, name=PROVENANCE, fault="was changed after it was written")
    files = [
        Known(of=REPORT, name=f"{REPORT}/{name}", sha256=digest)
        for name, digest in known["files"].items()
    ]
    return files, known["inputs"], [fault] if altered else []


def _see(paths: RunPaths, known: Iterable[Known], bar: Bar) -> dict[str, Seen | None]:
    """Every file as it is; those of another size are not read."""
    wanted = {each.name: each.bytes for each in known}
    sizes = {name: _size(paths, name) for name in wanted}
    there = {name: size for name, size in sizes.items() if size is not None}
    tell = bar(sum(size for name, size in there.items() if wanted[name] in (None, size)))
    seen: dict[str, Seen | None] = dict.fromkeys(wanted)
    for name, size in there.items():
        try:
            same = wanted[name] in (None, size)
            digest = sha256_file(paths.folder / name, tell) if same else None
            seen[name] = Seen(bytes=size, sha256=digest)
        except OSError as error:
            seen[name] = Seen(bytes=size, sha256=None, fault=error.strerror or str(error))
    return seen


def _size(paths: RunPaths, name: str) -> int | None:
    try:
        return (paths.folder / name).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
