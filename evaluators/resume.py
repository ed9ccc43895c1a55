"""What stands where an evaluation begins: draws of another origin are refused, and what is damaged
is moved aside, so that it alone is made again.

The order is that of making: draws rest on what draws.json says of them, grades on draws. A file
that is moved aside keeps its content under a name that nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from fgrpo_bench.kinds.evaluate import EvaluationMarker
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import EvalSpec, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import Design, DesignedSince, DrawsRecord
from fgrpo_bench.stages.files import now, read_record, set_aside, write_json
from fgrpo_bench.stages.paths import BenchmarkPaths
from fgrpo_bench.tables import DRAWS, GRADES, read_table

Recorded = Callable[[Path], str | None]
"""sha256 of a file by the marker that stood before; None where it lists none."""
UNKNOWN = "without draws.json nobody knows what these draws were made with"


def clear_draws(paths: BenchmarkPaths, recorded: Recorded) -> None:
    """Move aside a draws.json that cannot be read, and draws that nothing says the origin of: those
    without draws.json that are not what the marker recorded."""
    if paths.manifest.exists():
        try:
            read_record(paths.manifest, DrawsRecord)
        except ValueError as error:
            _set_aside(paths.manifest, paths.damaged, str(error))
    if paths.manifest.exists():
        return
    if paths.draws.exists() and recorded(paths.draws) != sha256_file(paths.draws):
        _set_aside(paths.draws, paths.damaged, UNKNOWN)
    if paths.shards.exists():
        _set_aside(paths.shards, paths.damaged, UNKNOWN)


def clear_tables(paths: BenchmarkPaths) -> None:
    """Move aside stored draws that cannot be read, grades that cannot, and the judgements of draws
    that are gone."""
    _clear_table(paths.draws, DRAWS, paths.damaged)
    if not paths.folder.exists():
        return
    judged = [*paths.folder.glob("grades.*.parquet"), *paths.folder.glob("passk*.parquet")]
    if not paths.shards.exists():
        judged += paths.folder.glob("judging.*")
    for path in sorted(judged):
        if not paths.draws.exists():
            _set_aside(path, paths.damaged, "the draws that it judges are gone")
        elif path.name.startswith("grades."):
            _clear_table(path, GRADES, paths.damaged)


def check_manifest(
    paths: BenchmarkPaths, problems: list[Problem], sha256: str, mark: str
) -> DrawsRecord:
    """What the draws belong to; written before the first draw, compared before every later one.

    Raises ValueError where draws of other weights, prompts or settings stand at this address.
    """
    wanted = DrawsRecord(
        fingerprint=mark,
        weights_sha256=sha256,
        prompts_sha256=fingerprint([[p.problem_id, p.prompt] for p in problems]),
    )
    if not paths.manifest.exists():
        write_json(paths.manifest, wanted.as_json())
        return wanted
    manifest = read_record(paths.manifest, DrawsRecord)
    stored = manifest.as_json()
    for field, value in wanted.as_json().items():
        if stored[field] != value:
            raise ValueError(
                f"{paths.folder} holds draws with {field} {stored[field]}, but this "
                f"evaluation has {value}: draws of different origin are never mixed; move that "
                "folder away, or bump `version`"
            )
    return manifest


def with_former(
    paths: BenchmarkPaths, manifest: DrawsRecord, former: EvaluationMarker | None, name: str
) -> DrawsRecord:
    """What the draws belong to, with what an earlier marker of the evaluation knows of the engine
    that made them, where it lacks that."""
    if former is None:
        return manifest
    whole = replace(
        manifest,
        engine=manifest.engine or former.engine or None,
        canaries=manifest.canaries or former.canaries_on(name),
    )
    if whole != manifest:
        write_json(paths.manifest, whole.as_json())
    return whole


def with_design(paths: BenchmarkPaths, manifest: DrawsRecord, evaluation: EvalSpec) -> DrawsRecord:
    """What the draws belong to, with the design at the end of its list of designs, which has none
    as long as all draws were made: pass@k is exact for one that was chosen before any grade was
    seen."""
    asked, designs = evaluation.design, manifest.designs
    design = None if asked is None else Design.parsed(to_dict(asked))
    if not designs and paths.draws.exists():
        designs = (DesignedSince(since=None, n_samples=None, design=None),)
    if design == (designs[-1].design if designs else None):
        return manifest
    since = now() if designs else None
    own = DesignedSince(since=since, n_samples=evaluation.n_samples, design=design)
    manifest = replace(manifest, designs=(*designs, own))
    write_json(paths.manifest, manifest.as_json())
    return manifest


def _clear_table(path: Path, schema: pl.Schema, into: Path) -> None:
    if path.exists():
        try:
            read_table(path, schema)
        except ValueError as error:
            _set_aside(path, into, str(error))


def _set_aside(path: Path, into: Path, why: str) -> None:
    print(f"{path}: {why}\nkept as {set_aside(path, into)}, and made again", flush=True)
