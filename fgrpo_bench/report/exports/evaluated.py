"""What is exported: one checkpoint on one benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.analysis.checkpoints import CheckpointEstimate, checkpoint_estimates
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.files.whole import write_whole
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.evaluate import EvaluationMarker
from fgrpo_bench.specs import BenchmarkSpec
from fgrpo_bench.specs.dataset import withheld
from fgrpo_bench.stages.tables import DRAWS, GRADES, N_DRAWN, reading, scan_table

PROGRAM = "fgrpo-bench"
BATCH = 64
"""Problems whose draws are held in memory at once."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """One checkpoint on one benchmark, complete, with all that formats ask for."""

    checkpoint: EvaluatedCheckpoint
    """That which stands for its run."""
    name: str
    """Of the checkpoint, e.g. `groupsize-countdown-v1-grpo-n8-g0.5-s11-step-300`; that of an
    evaluation without a sweep."""
    base_model: str | None
    """Name of the model that was trained; None without a sweep, where nobody told."""
    label: str
    """The setting, for a person: `F-GRPO N=8 gamma=0.5`."""
    benchmark: str
    organisation: str
    """Whose models these are: what stands before the slash of a model's name."""

    @property
    def paths(self) -> BenchmarkPaths:
        """Its stored files."""
        return self.checkpoint.evaluate.benchmark(self.benchmark)

    @property
    def model(self) -> str:
        """The name behind its organisation, e.g. `local/base-1b`."""
        return f"{self.organisation}/{self.name}"

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """The benchmark, as it was evaluated."""
        return self.checkpoint.evaluation_spec().benchmark(self.benchmark)

    @property
    def settings(self) -> dict[str, Any]:
        """How draws were made (fgrpo_bench.specs.EvalSpec as JSON)."""
        return self.checkpoint.evaluation_spec().evaluation

    @property
    def sampling(self) -> dict[str, float]:
        """temperature, top_p and top_k; without what is off, and what nobody told of draws that
        were imported."""
        named = {name: self.settings.get(name) for name in ("temperature", "top_p", "top_k")}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def stop(self) -> list[str]:
        """Texts that ended a response."""
        return list(self.settings.get("stop") or ())

    @property
    def prefix(self) -> str | None:
        """What every response began with, not drawn; None is nothing."""
        return self.settings.get("prefix")

    @property
    def n_few_shot(self) -> int:
        """Solved examples before every problem. Their texts may be of a benchmark: no export has
        them."""
        return len(self.settings.get("few_shot") or ())

    @property
    def prompting(self) -> dict[str, Any]:
        """stop, prefix and few_shot (how many) where they are set, for a format that has no field
        of its own for one."""
        named = {"stop": self.stop, "prefix": self.prefix, "few_shot": self.n_few_shot}
        return {name: value for name, value in named.items() if value}

    @cached_property
    def marker(self) -> EvaluationMarker:
        """The evaluation's completion marker."""
        return self.checkpoint.evaluated()

    @property
    def grader(self) -> str:
        """Name and version of what judged the draws."""
        return self.marker.evaluation_target.graders[self.benchmark]

    @property
    def engine(self) -> dict[str, Any]:
        """What drew last; empty where it was not recorded."""
        return next(reversed(self.checkpoint.engines(self.benchmark)), {})

    @property
    def sampler(self) -> str:
        """Name of what drew."""
        return str(self.engine.get("engine") or self.settings["sampler"])

    @property
    def finished(self) -> datetime:
        """When the evaluation was complete."""
        return datetime.fromisoformat(self.marker.finished)

    @property
    def is_withheld(self) -> bool:
        """Whether no text of the benchmark, nor of a response, may be shown to others."""
        return withheld(self.checkpoint.evaluation_spec().all_benchmarks.get(self.benchmark))

    @cached_property
    def estimates(self) -> list[CheckpointEstimate]:
        """Mean pass@k by k, with its interval over problems."""
        return checkpoint_estimates(self.checkpoint, self.benchmark)

    @cached_property
    def counts(self) -> pl.DataFrame:
        """problem_id, n_drawn (null where judgements ask for draws that are missing), n_scored and
        n_correct, a row a problem."""
        passk = self.checkpoint.passk(self.benchmark).with_columns(n_drawn=N_DRAWN)
        columns = ["problem_id", "n_drawn", "n_scored", "n_correct"]
        return passk.select(columns).unique("problem_id").sort("problem_id")

    @property
    def unscored(self) -> int:
        """Draws that the grader could not judge."""
        return int((self.counts["n_drawn"] - self.counts["n_scored"]).sum())

    def problems(self) -> list[Problem]:
        """Of the benchmark; ValueError where its text must not be passed on."""
        if self.is_withheld:
            raise ValueError(
                f"{self.benchmark} is a gated benchmark, whose publisher asks that none of its "
                "text is shown to others: export its counts without --draws"
            )
        spec = self.checkpoint.evaluation_spec()
        return load_problems(self.spec, spec.task, spec.data_folder(self.benchmark))

    def draws(self) -> Iterator[tuple[Problem, list[dict[str, Any]]]]:
        """Every problem with its draws up to where it stopped, in their order: keys draw, response,
        n_tokens, finish_reason, outcome, extracted, reason."""
        asked = dict(self.counts.select("problem_id", "n_drawn").iter_rows())
        problems = [problem for problem in self.problems() if asked.get(problem.problem_id)]
        for start in range(0, len(problems), BATCH):
            part = problems[start : start + BATCH]
            rows = self._rows([item.problem_id for item in part])
            for problem in part:
                yield problem, rows[problem.problem_id][: asked[problem.problem_id]]

    def _rows(self, names: list[str]) -> dict[str, list[dict[str, Any]]]:
        with reading(self.paths.draws):
            draws = scan_table(self.paths.draws, DRAWS).filter(pl.col("problem_id").is_in(names))
            grades = scan_table(self.paths.grades(self.grader), GRADES)
            joined = draws.join(grades, on=["problem_id", "draw"]).sort("problem_id", "draw")
            rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
            for row in joined.collect().iter_rows(named=True):
                rows[row["problem_id"]].append(row)
        return rows


def check_fixed(evaluated: Evaluated, why: str) -> None:
    """ValueError for draws that stop, for a format that has no place for them; why: it has none."""
    design = evaluated.checkpoint.stopping()
    if not design.is_fixed:
        raise ValueError(
            f"{evaluated.label} on {evaluated.benchmark} made {design.text}, and {why}: "
            "the usual formula is biased on such draws; take --to every-eval-ever or "
            "hf-eval-results, or draw a fixed number (design=null)"
        )


def write_json_lines(path: Path, rows: Iterable[Any]) -> int:
    """One JSON object a line, whole or not at all; returns how many."""
    n = 0

    def write(aside: Path) -> None:
        nonlocal n
        with aside.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, allow_nan=False) + "\n")
                n += 1

    write_whole(path, write)
    return n


Writer = Callable[..., list[Path]]
"""(evaluated, folder, *, draws) -> files written. draws: whether every single one is, with its
text. ValueError for what the format cannot hold."""
