"""Which draws a staged design asks for: those of a problem's first stage, and those of the next one
where too few of the stages before are correct.

A stage is asked for only after the judgement of all before it, so no draw of a problem is in the
making when the problem stops. Which draws are made follows from the judgements alone, whatever the
order in which they come; a later run finds the same ones missing. Only a staged evaluation comes
here; a fixed number of draws waits for no judgement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

import polars as pl

from evaluators.grading import Grading
from evaluators.records import Draw, SampleRequest
from fgrpo_bench.records import Problem
from fgrpo_bench.stats.staged import StagedDesign


class DrawScheduler:
    """An iterator over what is missing, for a sampler (evaluators.records.Sampler).

    have: the numbers of the draws that are stored, by problem_id. seeds: of a problem's draws up to
    the last stage. grading: whose judgements stop a problem, and which has judged what is stored.
    Its length is the number of draws that were missing so far; later stages add to it.
    """

    def __init__(
        self,
        design: StagedDesign,
        problems: Sequence[Problem],
        seeds: Mapping[str, Sequence[int]],
        have: Mapping[str, Collection[int]],
        grading: Grading,
    ) -> None:
        self._n_asked = 0
        self._design, self._seeds, self._have, self._grading = design, seeds, have, grading
        self._ready: deque[SampleRequest] = deque()
        self._n_in_progress = 0
        self._lacking: dict[str, int] = {}  # draws of its stage that a problem still lacks
        self._stages: dict[str, int] = {}  # that problems are in, those that have stopped left out
        self._problems = {problem.problem_id: problem for problem in problems}
        for problem in problems:
            self._enter(problem, 0)
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

    def count_drawn(self, draws: Sequence[Draw]) -> None:
        """Count draws that were made and given to the grading."""
        self._n_in_progress -= len(draws)
        for draw in draws:
            self._lacking[draw.problem_id] -= 1

    def _enter(self, problem: Problem, stage: int) -> None:
        """Ask for what a stage of a problem lacks."""
        name, start = problem.problem_id, self._design.stages[stage - 1] if stage else 0
        drawn = self._have.get(name, ())
        lacking = [
            SampleRequest(problem=problem, draw=number, seed=self._seeds[name][number])
            for number in range(start, self._design.stages[stage])
            if number not in drawn
        ]
        self._stages[name], self._lacking[name] = stage, len(lacking)
        self._ready += lacking
        self._n_asked += len(lacking)

    def _go_on(self) -> None:
        """Let every problem whose stage is judged stop, or enter the next."""
        stages = self._design.stages
        for name in [name for name, lacking in self._lacking.items() if not lacking]:
            while not self._lacking.get(name, 1):
                stage = self._stages[name]
                if stage < len(stages) - 1:
                    correct = self._grading.correct(name, stages[stage])
                    if correct is None:
                        break
                    if correct < self._design.enough:
                        self._enter(self._problems[name], stage + 1)
                        continue
                del self._stages[name], self._lacking[name]


def asked_for(
    design: StagedDesign, pool: pl.DataFrame, have: pl.DataFrame, grading: Grading
) -> pl.DataFrame:
    """Of draws that exist elsewhere those that a design asks for and `have` lacks (both
    tables.DRAWS): stage by stage, as the judgements of `grading` say, which judges them.

    A problem whose draws end within a stage goes no further here; the rest of them is made.
    """
    lacking = pool.join(have, on=["problem_id", "draw"], how="anti")
    going = pool["problem_id"].unique().to_list()
    taken, start = [], 0
    for end in design.stages:
        in_stage = pl.col("problem_id").is_in(going) & pl.col("draw").is_between(start, end - 1)
        taken.append(lacking.filter(in_stage))
        if end == design.stages[-1]:
            break
        grading.judge(taken[-1])
        correct = {name: grading.correct(name, end) for name in going}
        going = [name for name, n in correct.items() if n is not None and n < design.enough]
        start = end
    return pl.concat(taken)
