"""What stands where an evaluation begins: draws of another origin are refused, and what is damaged
is moved aside, so that it alone is made again.

The order is that of making: draws rest on what draws.json says of them, grades on draws. A file
that is moved aside keeps its content under a name that nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.records import Problem
from fgrpo_bench.specs import EvalSpec, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.files import now, read_json, set_aside, write_json
from fgrpo_bench.stages.paths import BenchmarkPaths
from fgrpo_bench.stages.shapes import MANIFEST
from fgrpo_bench.tables import DRAWS, GRADES, read_table

Recorded = Callable[[Path], str | None]
"""sha256 of a file by the marker that stood before; None where it lists none."""
UNKNOWN = "without draws.json nobody knows what these draws were made with"


def clear_draws(paths: BenchmarkPaths, recorded: Recorded) -> None:
    """Move aside a draws.json that cannot be read, and draws that nothing says the origin of: those
    without draws.json that are not what the marker recorded."""
    if paths.manifest.exists():
        try:
            read_json(paths.manifest, MANIFEST)
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
) -> dict[str, Any]:
    """What the draws belong to; written before the first draw, compared before every later one.

    Raises ValueError where draws of other weights, prompts or settings stand at this address.
    """
    wanted = {
        "fingerprint": mark,
        "weights_sha256": sha256,
        "prompts_sha256": fingerprint([[p.problem_id, p.prompt] for p in problems]),
    }
    if not paths.manifest.exists():
        write_json(paths.manifest, wanted)
        return wanted
    manifest: dict[str, Any] = read_json(paths.manifest, MANIFEST)
    for field, value in wanted.items():
        if manifest.get(field) != value:
            raise ValueError(
                f"{paths.folder} holds draws with {field} {manifest.get(field)}, but this "
                f"evaluation has {value}: draws of different origin are never mixed; move that "
                "folder away, or bump `version`"
            )
    return manifest


def with_former(
    paths: BenchmarkPaths, manifest: dict[str, Any], former: dict[str, Any], name: str
) -> dict[str, Any]:
    """What the draws belong to, with what an earlier marker of the evaluation knows of the engine
    that made them, where it lacks that."""
    known = {"engine": former.get("engine"), "canaries": former.get("canaries", {}).get(name)}
    lacking = {field: each for field, each in known.items() if each and field not in manifest}
    if lacking:
        manifest = manifest | lacking
        write_json(paths.manifest, manifest)
    return manifest


def with_design(
    paths: BenchmarkPaths, manifest: dict[str, Any], evaluation: EvalSpec
) -> dict[str, Any]:
    """What the draws belong to, with the design at the end of its list of designs, which has none
    as long as all draws were made: pass@k is exact for one that was chosen before any grade was
    seen."""
    design, designs = evaluation.design and to_dict(evaluation.design), manifest.get("designs", [])
    if not designs and paths.draws.exists():
        designs = [{"since": None, "n_samples": None, "design": None}]
    if design == (designs[-1]["design"] if designs else None):
        return manifest
    since = now() if designs else None
    own = {"since": since, "n_samples": evaluation.n_samples, "design": design}
    manifest = manifest | {"designs": [*designs, own]}
    write_json(paths.manifest, manifest)
    return manifest


def _clear_table(path: Path, schema: pl.Schema, into: Path) -> None:
    if path.exists():
        try:
            read_table(path, schema)
        except ValueError as error:
            _set_aside(path, into, str(error))


def _set_aside(path: Path, into: Path, why: str) -> None:
    print(f"{path}: {why}\nkept as {set_aside(path, into)}, and made again", flush=True)
