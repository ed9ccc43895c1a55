"""Drawing what is missing: draws are appended to a shard as they are made, and complete shards
become one table.

In: problems, a design that says how many draws each makes, and a sampler (`backends`). Out: the
table of all draws (tables.DRAWS). `grading` judges them meanwhile.

A kill costs the draws in flight. A rerun draws only what no shard holds, and a larger number of
draws only adds some; every draw follows from its own recorded seed. Draws are asked for stage by
stage (`DrawScheduler`, the second half of this file), each only after the judgement of all before
it: a fixed number of draws is one stage and waits for no judgement.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.files.journal import append_lines, numbered_lines
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.files.whole import quarantine
from fgrpo_bench.stages.tables import DRAWS, read_table, write_table
from fgrpo_bench.stats.staged import StagedDesign

from .grading import Grading
from .records import Draw, Sampler, SampleRequest, Seeds

SYNC_SECONDS = 1.0
"""A draw is handed to the operating system at once, and forced to the disk so often: a killed
process loses no draw that was made, a machine that goes down those of one second."""


LINE_TYPES = tuple([str, int, int, str, int, str, end] for end in (int, type(None)))
"""Of a shard's line, with an end token and without one."""


class Shard:
    """An append-only file of draws, a JSON array a line in the order of tables.DRAWS; each attempt
    has its own."""

    def __init__(self, paths: BenchmarkPaths) -> None:
        # never an old one: a line that a kill cut short would run into the first new one
        self.path = paths.shard(len(list(paths.shards.glob("*.jsonl"))))
        self._synced, self._dirty = time.monotonic(), False

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, *_: object) -> None:
        if self._dirty:
            append_lines(self.path, [], sync=True)

    def append(self, draws: Sequence[Draw]) -> None:
        """Write draws with one call; OSError names the file where the disk takes no more."""
        now = time.monotonic()
        due = now - self._synced >= SYNC_SECONDS
        append_lines(self.path, draws, sync=due)
        self._synced, self._dirty = (now, False) if due else (self._synced, True)


def read_shards(paths: BenchmarkPaths, seeds: Seeds) -> tuple[pl.DataFrame, dict[Path, list[int]]]:
    """Draws (tables.DRAWS) of all shards, each once; and by shard the numbers of lines that are no
    draws that this evaluation asks for, a last one that a crash cut short left out."""
    rows: list[Any] = []
    refused: dict[Path, list[int]] = {}
    for shard in sorted(paths.shards.glob("*.jsonl")):
        lines = list(numbered_lines(shard))
        if lines and lines[-1][1] is None:  # cut short by a crash, and no sign of damage
            lines.pop()
        for number, line in lines:
            if _is_expected(line, seeds):
                rows.append(line)
            else:
                refused.setdefault(shard, []).append(number)
    table = pl.DataFrame(rows, schema=DRAWS, orient="row")
    return table.unique(["problem_id", "draw"], keep="first", maintain_order=True), refused


def expected_seeds(problems: Sequence[Problem], *, n_samples: int, seed: int) -> Seeds:
    """Those of draws 0 .. n_samples - 1 of every problem."""
    names = [problem.problem_id for problem in problems]
    return dict(zip(names, draw_seeds(seed, names, np.arange(n_samples)).tolist(), strict=True))


def _is_expected(line: Any, seeds: Seeds) -> bool:
    """Whether a line is a draw that is asked for, with its own seed."""
    if not isinstance(line, list) or [type(value) for value in line] not in LINE_TYPES:
        return False
    problem_id, draw, stored_seed, _, n_tokens, finish_reason, end = line
    expected = seeds.get(problem_id, [])
    return (
        0 <= draw < len(expected)
        and expected[draw] == stored_seed
        and 0 <= n_tokens < 2**31
        and finish_reason in ("stop", "length")
        and (end is None or (0 <= end < 2**31 and finish_reason == "stop"))
    )


def stored_draws(paths: BenchmarkPaths, seeds: Seeds) -> tuple[pl.DataFrame, dict[Path, list[int]]]:
    """Draws (tables.DRAWS) so far, complete or not, each once; and as `read_shards`."""
    have = read_table(paths.draws, DRAWS) if paths.draws.exists() else DRAWS.to_frame()
    if not paths.shards.exists():
        return have, {}
    fresh, refused = read_shards(paths, seeds)
    have = pl.concat([have, fresh])
    return have.unique(["problem_id", "draw"], keep="first", maintain_order=True), refused


def complete_draws(
    paths: BenchmarkPaths,
    problems: list[Problem],
    *,
    design: StagedDesign,
    grading: Grading,
    seed: int,
    sampler: Callable[[], Sampler],
    on_draws: Callable[[int, int, Sequence[Draw]], None],
) -> tuple[pl.DataFrame, int]:
    """All draws of a benchmark (tables.DRAWS), and how many of them were made just now.

    Of every problem these are as many as `design` asks for by the judgements of `grading`, and
    what was stored beyond that before.

    sampler: gives the back end; called only if a draw is missing. on_draws(done, of, draws): called
    whenever draws are stored, with these, and gives them to `grading`, and while none is finished,
    with none; it may raise to stop there.
    """
    seeds = expected_seeds(problems, n_samples=design.stages[-1], seed=seed)
    have, refused = stored_draws(paths, seeds)
    for path, lines in refused.items():
        print(
            f"{path}: what stands in {len(lines)} of its lines, the first of them line {lines[0]}, "
            "is no draw of this evaluation: it was damaged or changed by hand; what is missing is "
            "drawn again",
            flush=True,
        )
    missing = DrawScheduler(design, problems, seeds, have, grading)
    if not len(missing) and not paths.shards.exists():
        return have, 0
    new_draws: list[Draw] = []
    if len(missing):
        with Shard(paths) as shard:
            for draws in sampler()(missing):
                if draws:
                    shard.append(draws)  # before they are reported, so that a stop loses none
                new_draws += draws
                on_draws(len(have) + len(new_draws), len(have) + len(missing), draws)
                missing.count_draws(draws)
    if len(new_draws) < len(missing):
        raise RuntimeError(f"the sampler made {len(new_draws)} of {len(missing)} draws and ended")
    table = pl.concat([have, pl.DataFrame(new_draws, schema=DRAWS, orient="row")])
    table = table.sort("problem_id", "draw")
    write_table(paths.draws, table, DRAWS)
    # shards go after the table is there: a kill between the two leaves draws twice, never nowhere
    if refused:
        print(f"kept as {quarantine(paths.shards, paths.damaged)}", flush=True)
    elif paths.shards.exists():
        shutil.rmtree(paths.shards)
    return table, len(new_draws)


# A stage is asked for only after the judgement of all before it, so no draw of a problem is in the
# making when the problem stops. Which draws are made follows from the judgements alone, whatever
# the order in which they come; a later run finds the same ones missing.


class DrawScheduler:
    """An iterator over what is missing, for a sampler (evaluators.records.Sampler): of each stage
    problem by problem, in the order of the draws' numbers.

    have: the draws that are stored (tables.DRAWS). seeds: of a problem's draws up to the last
    stage. grading: whose judgements stop a problem; with one stage it is not asked. Its length is
    the number of draws that were missing so far; later stages add to it.
    """

    def __init__(
        self,
        design: StagedDesign,
        problems: Sequence[Problem],
        seeds: Mapping[str, Sequence[int]],
        have: pl.DataFrame,
        grading: Grading,
    ) -> None:
        self._n_asked = 0
        self._design, self._seeds, self._grading = design, seeds, grading
        numbers = have.group_by("problem_id").agg("draw").iter_rows()
        self._have = {problem_id: set(draws) for problem_id, draws in numbers}
        self._ready: deque[SampleRequest] = deque()
        self._n_in_progress = 0
        # Of problems that may go on after their stage: which it is, and what they still lack of it.
        self._stages: dict[str, int] = {}
        self._n_missing: dict[str, int] = {}
        self._problems = {problem.problem_id: problem for problem in problems}
        for problem in problems:
            self._enter(problem, 0)
        if self._stages:
            grading.judge(have)
        self._go_on()

    def __iter__(self) -> DrawScheduler:
        return self

    def __len__(self) -> int:
        return self._n_asked

    def __next__(self) -> SampleRequest | None:
        if not self._ready:
            self._go_on()
        if not self._ready and not self._n_in_progress and self._stages:
            self._grading.wait()
            self._go_on()
            if not self._ready and self._stages:
                raise RuntimeError(f"draws of {next(iter(self._stages))} were never judged")
        if self._ready:
            self._n_in_progress += 1
            return self._ready.popleft()
        if self._stages:
            return None
        raise StopIteration

    def count_draws(self, draws: Sequence[Draw]) -> None:
        """Count draws that were made and given to the grading."""
        self._n_in_progress -= len(draws)
        for draw in draws:
            if draw.problem_id in self._n_missing:
                self._n_missing[draw.problem_id] -= 1

    def _enter(self, problem: Problem, stage: int) -> None:
        """Ask for what a stage of a problem lacks."""
        name, start = problem.problem_id, self._design.stages[stage - 1] if stage else 0
        drawn = self._have.get(name, ())
        missing = [
            SampleRequest(problem=problem, draw=number, seed=self._seeds[name][number])
            for number in range(start, self._design.stages[stage])
            if number not in drawn
        ]
        if stage < len(self._design.stages) - 1:
            self._stages[name], self._n_missing[name] = stage, len(missing)
        self._ready += missing
        self._n_asked += len(missing)

    def _go_on(self) -> None:
        """Let every problem whose stage is judged stop, or enter the next."""
        for name in [name for name, n_missing in self._n_missing.items() if not n_missing]:
            while not self._n_missing.get(name, 1):
                stage = self._stages[name]
                correct = self._grading.correct(name, self._design.stages[stage])
                if correct is None:
                    break
                del self._stages[name], self._n_missing[name]
                if correct < self._design.enough:
                    self._enter(self._problems[name], stage + 1)
