"""Drawing what is missing: draws are appended to a shard as they are made, and complete shards
become one table.

A kill costs the draws in flight. A rerun draws only what no shard holds, and a larger n_samples
only adds draws; every draw follows from its own recorded seed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from types import TracebackType

import numpy as np
import polars as pl

from evaluators.records import Draw, Sampler, Wanted
from fgrpo_bench.files import append_lines, read_lines
from fgrpo_bench.markers import put_aside
from fgrpo_bench.paths import BenchmarkPaths, StagePaths
from fgrpo_bench.records import Problem
from fgrpo_bench.seeds import draw_seeds
from fgrpo_bench.tables import DRAWS, read_table, write_table

SYNC_SECONDS = 1.0
"""A draw is handed to the operating system at once, and forced to the disk so often."""


class Shard:
    """An append-only file of draws, a JSON array a line in the order of tables.DRAWS; each attempt
    has its own."""

    def __init__(self, paths: BenchmarkPaths) -> None:
        self.path = paths.shard(len(list(paths.shards.glob("*.jsonl"))))
        self._synced, self._dirty = time.monotonic(), False

    def __enter__(self) -> Shard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._dirty:
            append_lines(self.path, [], sync=True)

    def append(self, draws: Sequence[Draw]) -> None:
        """Write draws with one call; OSError names the file where the disk takes no more."""
        now = time.monotonic()
        due = now - self._synced >= SYNC_SECONDS
        append_lines(self.path, [astuple(draw) for draw in draws], sync=due)
        self._synced, self._dirty = (now, False) if due else (self._synced, True)


def read_shards(paths: BenchmarkPaths) -> pl.DataFrame:
    """Draws (tables.DRAWS) of all shards, each once; a line that a crash cut short is passed
    over."""
    rows = [
        row
        for shard in sorted(paths.shards.glob("*.jsonl"))
        for row in read_lines(shard)
        if isinstance(row, list) and len(row) == len(DRAWS)
    ]
    table = pl.DataFrame(rows, schema=DRAWS, orient="row")
    return table.unique(["problem_id", "draw"], keep="first", maintain_order=True)


def stored_draws(paths: BenchmarkPaths) -> pl.DataFrame:
    """Draws (tables.DRAWS) so far, complete or not, each once."""
    have = read_table(paths.draws, DRAWS) if paths.draws.exists() else DRAWS.to_frame()
    if not paths.shards.exists():
        return have
    have = pl.concat([have, read_shards(paths)])
    return have.unique(["problem_id", "draw"], keep="first", maintain_order=True)


def clear_orphans(stage: StagePaths, paths: BenchmarkPaths) -> None:
    """Put judgements aside where no draw is stored: they are of draws that are gone, and would be
    taken for those of new draws of the same numbers."""
    if paths.draws.exists() or paths.shards.exists():
        return
    for pattern in ("grades.*.parquet", "judging.*"):
        for path in sorted(paths.folder.glob(pattern)):
            aside = put_aside(stage, path.relative_to(stage.folder).as_posix())
            print(f"{path} is of draws that are gone: kept as {aside}", flush=True)


def missing(
    have: pl.DataFrame, problems: list[Problem], *, n_samples: int, seed: int
) -> Iterator[Wanted]:
    """Draws 0 .. n_samples - 1 of every problem that are not there yet, problem by problem."""
    known = {
        problem_id: set(draws)
        for problem_id, draws in have.group_by("problem_id").agg("draw").iter_rows()
    }
    numbers = np.arange(n_samples)
    seeds = draw_seeds(seed, [problem.problem_id for problem in problems], numbers)
    for problem, own in zip(problems, seeds.tolist(), strict=True):
        there = known.get(problem.problem_id, set())
        for number, its in enumerate(own):
            if number not in there:
                yield Wanted(problem=problem, draw=number, seed=its)


def complete_draws(
    paths: BenchmarkPaths,
    problems: list[Problem],
    *,
    n_samples: int,
    seed: int,
    sampler: Callable[[], Sampler],
    tell: Callable[[int, int, Sequence[Draw]], None],
) -> tuple[pl.DataFrame, int]:
    """All draws of a benchmark (tables.DRAWS), and how many of them were made just now.

    sampler: gives the back end; called only if a draw is missing. tell(done, of, draws): called
    whenever draws are stored, with these; it may raise to stop there.
    """
    have = stored_draws(paths)
    wanted = list(missing(have, problems, n_samples=n_samples, seed=seed))
    if not wanted and not paths.shards.exists():
        return have, 0
    made = 0
    if wanted:
        with Shard(paths) as shard:
            for draws in sampler()(wanted):
                shard.append(draws)
                made += len(draws)
                tell(len(have) + made, len(have) + len(wanted), draws)
        fresh = read_shards(paths)
        have = pl.concat([have, fresh]).unique(["problem_id", "draw"], keep="first")
    if made < len(wanted):
        raise RuntimeError(f"the sampler made {made} of {len(wanted)} draws and ended")
    table = have.sort("problem_id", "draw")
    write_table(paths.draws, table, DRAWS)
    shutil.rmtree(paths.shards)
    return table, made
