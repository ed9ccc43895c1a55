"""A benchmark's problems, as stages and readers have them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data import dataset_problems
from fgrpo_bench.files.paths import BenchmarkPaths, DataPaths
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.choice import n_options
from fgrpo_bench.specs import BenchmarkSpec, TaskSpec, from_dict
from fgrpo_bench.stages.tables import PROBLEMS, read_table
from fgrpo_bench.tasks import make_task


def grader_names(benchmark: BenchmarkSpec) -> list[str]:
    """The benchmark's grader, then those beside it."""
    return [benchmark.grader, *benchmark.extra_graders]


def passk_path(paths: BenchmarkPaths, benchmark: BenchmarkSpec, grader: str) -> Path:
    """Where pass@k on the benchmark stands, as the present version of a grader judges."""
    return paths.passk(None if grader == benchmark.grader else grader_version(grader))


def load_problems(
    benchmark: BenchmarkSpec, task: dict[str, Any] | None, data: Path | None
) -> list[Problem]:
    """The first n_problems of the benchmark; ValueError where there are fewer.

    task: of the experiment, for a benchmark of its held-out problems. data: the stage that fetched
    the benchmark's dataset.
    """
    if data is not None:
        assert benchmark.dataset is not None
        problems = dataset_problems(data, benchmark.dataset, n_problems=benchmark.n_problems)
        return [replace(problem, benchmark=benchmark.name) for problem in problems]
    spec = from_dict(TaskSpec, task)
    generator = make_task(spec)
    n_problems = benchmark.n_problems
    assert n_problems is not None
    if n_problems > generator.n_heldout:
        raise ValueError(
            f"benchmark {benchmark.name} asks for n_problems={n_problems}, but the held-out split "
            f"of task {spec.name} holds {generator.n_heldout}: ask for fewer (--limit), or let "
            "the task hold out more"
        )
    return generator.heldout_problems(n_problems)


def n_choices(benchmark: BenchmarkSpec, data: Path | None) -> tuple[int, ...]:
    """How many options the prompt of each problem lists, 0 for none; empty for problems of a task,
    and where the stage that fetched them, data, is gone."""
    if data is None:
        return ()
    try:
        return _n_choices(DataPaths(data).problems, benchmark.n_problems)
    except (OSError, ValueError):
        return ()


@lru_cache(maxsize=32)
def _n_choices(path: Path, n_problems: int | None) -> tuple[int, ...]:
    table = read_table(path, PROBLEMS)
    rows = table.head(n_problems or len(table)).select("prompt", "gold_used").iter_rows()
    return tuple(n_options(prompt, gold) for prompt, gold in rows)
