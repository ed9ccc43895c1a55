"""Drawing what is missing: blocks of draws become shards, and complete shards one table.

A kill costs the block in hand. A rerun draws only what no shard holds, and a larger n_samples only
adds draws; every draw follows from its own recorded seed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from evaluators.records import Drawn, Sampler
from fgrpo_bench.paths import BenchmarkPaths
from fgrpo_bench.records import Problem
from fgrpo_bench.seeds import draw_seeds
from fgrpo_bench.tables import DRAWS, read_table, write_table

DRAWS_A_BLOCK = 512
"""Draws of a problem that are made together."""
ROWS_A_BLOCK = 4096
"""Draws of a block over all its problems: what a kill can cost."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Draws first_draw .. end_draw - 1 of problems first_problem .. end_problem - 1."""

    first_draw: int
    end_draw: int
    first_problem: int
    end_problem: int

    @property
    def size(self) -> int:
        """Number of draws."""
        return (self.end_draw - self.first_draw) * (self.end_problem - self.first_problem)


def blocks(*, n_problems: int, first_draw: int, n_samples: int) -> Iterator[Block]:
    """Every draw from first_draw to n_samples - 1 of every problem, each in one block."""
    for draw in range(first_draw, n_samples, DRAWS_A_BLOCK):
        end = min(draw + DRAWS_A_BLOCK, n_samples)
        problems = max(1, ROWS_A_BLOCK // (end - draw))
        for problem in range(0, n_problems, problems):
            yield Block(
                first_draw=draw,
                end_draw=end,
                first_problem=problem,
                end_problem=min(problem + problems, n_problems),
            )


def complete_draws(
    paths: BenchmarkPaths,
    problems: list[Problem],
    *,
    n_samples: int,
    seed: int,
    sampler: Callable[[], Sampler],
    tell: Callable[[int, int], None],
) -> tuple[pl.DataFrame, int]:
    """All draws of a benchmark (tables.DRAWS), and how many of them were made just now.

    sampler: gives the back end; called only if a draw is missing. tell(done, of): called after
    every block, when all draws so far are on disk; it may raise to stop there.
    """
    have = read_table(paths.draws, DRAWS) if paths.draws.exists() else DRAWS.to_frame()
    first = len(have) // len(problems)
    if first >= n_samples:
        return have, 0
    wanted = list(blocks(n_problems=len(problems), first_draw=first, n_samples=n_samples))
    parts, made, draw = [have], 0, None
    for block in wanted:
        shard = paths.shard(block.first_draw, block.first_problem)
        if shard.exists():
            rows = read_table(shard, DRAWS)
            if len(rows) == block.size:
                parts.append(rows)
                continue
        draw = draw or sampler()
        rows = _draw_block(problems, block, seed, draw)
        write_table(shard, rows, DRAWS)
        parts.append(rows)
        made += len(rows)
        tell(sum(len(part) for part in parts), n_samples * len(problems))
    table = pl.concat(parts).sort("problem_id", "draw")
    write_table(paths.draws, table, DRAWS)
    shutil.rmtree(paths.shards)
    return table, made


def _draw_block(problems: list[Problem], block: Block, seed: int, draw: Sampler) -> pl.DataFrame:
    chosen = problems[block.first_problem : block.end_problem]
    names = [problem.problem_id for problem in chosen]
    numbers = np.arange(block.first_draw, block.end_draw)
    seeds = draw_seeds(seed, names, numbers)
    return as_table(names, numbers, seeds, draw(chosen, seeds))


def as_table(
    problem_ids: list[str],
    numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
    seeds: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    drawn: Drawn,
) -> pl.DataFrame:
    """Draws as tables.DRAWS, one row each."""
    return pl.DataFrame(
        {
            "problem_id": np.repeat(problem_ids, len(numbers)),
            "draw": np.tile(numbers, len(problem_ids)),
            "seed": seeds.reshape(-1),
            "response": drawn.responses,
            "n_tokens": drawn.n_tokens,
            "finish_reason": np.where(drawn.finished, "stop", "length"),
        },
        schema=DRAWS,
    )
