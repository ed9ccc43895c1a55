"""What an evaluation finds damaged before it begins is moved aside, so that it alone is made again.

The order is that of making: draws rest on what draws.json says of them, grades on draws. A file
that is moved aside keeps its content under a name that nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.files import read_json, set_aside
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


def _clear_table(path: Path, schema: pl.Schema, into: Path) -> None:
    if path.exists():
        try:
            read_table(path, schema)
        except ValueError as error:
            _set_aside(path, into, str(error))


def _set_aside(path: Path, into: Path, why: str) -> None:
    print(f"{path}: {why}\nkept as {set_aside(path, into)}, and made again", flush=True)
