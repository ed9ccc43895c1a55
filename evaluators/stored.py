"""Finding the draws of evaluations on disk, under sweeps and alone, and what belongs to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluators.fetch import chosen
from fgrpo_bench.config import load_benchmark
from fgrpo_bench.data import dataset_problems
from fgrpo_bench.files import read_json
from fgrpo_bench.graders import grader_version
from fgrpo_bench.paths import BenchmarkPaths, DataPaths, StagePaths, default_root
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import BenchmarkSpec, DatasetSpec, TaskSpec, from_dict
from fgrpo_bench.tables import PROBLEMS, read_table
from fgrpo_bench.tasks import make_task


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The draws of one checkpoint on one benchmark."""

    stage: StagePaths
    paths: BenchmarkPaths
    benchmark: BenchmarkSpec
    spec: dict[str, Any]
    """spec.json of the stage."""

    @property
    def n_samples(self) -> int:
        """Draws a problem that are wanted."""
        return int(self.spec["evaluation"]["n_samples"])

    @property
    def ks(self) -> list[int]:
        """The k of pass@k."""
        return list(self.spec["evaluation"]["ks"])

    @property
    def gated(self) -> bool:
        """Whether no text of the benchmark may be shown."""
        dataset = self.benchmark.dataset
        return dataset is not None and dataset.layout == "gpqa"

    def problems(self) -> list[Problem]:
        """The problems that were drawn for."""
        data = self.spec["data"].get(self.benchmark.name)
        task = self.spec["identity"].get("sampling", {}).get("task")
        folder = None if data is None else (self.stage.folder / data).resolve()
        return load_problems(self.benchmark, task, folder)

    def golds(self) -> dict[str, str]:
        """Gold answers as published, by problem_id."""
        data = self.spec["data"].get(self.benchmark.name)
        if data is None:
            return {problem.problem_id: problem.target for problem in self.problems()}
        table = read_table(DataPaths((self.stage.folder / data).resolve()).problems, PROBLEMS)
        return dict(table.select("problem_id", "answer").iter_rows())


def benchmark_spec(name: str, keys: Sequence[str]) -> tuple[BenchmarkSpec, DatasetSpec]:
    """A shipped benchmark and its dataset with keys as they were given to fetch, e.g. path=<file>,
    which may then have another number of problems. ValueError where it has no dataset."""
    spec, dataset = load_benchmark(name), chosen(name, list(keys))
    changed = replace(spec, dataset=dataset, n_problems=None if keys else spec.n_problems)
    return changed, dataset


def graders_of(benchmark: BenchmarkSpec) -> list[str]:
    """The benchmark's grader, then those beside it."""
    return [benchmark.grader, *benchmark.also]


def versions(benchmarks: Mapping[str, BenchmarkSpec]) -> dict[str, str]:
    """Grader versions as a stage's target has them: by benchmark, and by benchmark/grader for
    those beside."""
    return {
        name if grader == benchmark.grader else f"{name}/{grader}": grader_version(grader)
        for name, benchmark in benchmarks.items()
        for grader in graders_of(benchmark)
    }


def load_problems(
    benchmark: BenchmarkSpec, task: dict[str, Any] | None, data: Path | None
) -> list[Problem]:
    """The first n_problems of the benchmark; ValueError where there are fewer.

    task: of the experiment, for a benchmark of its held-out problems. data: the stage that fetched
    the benchmark's dataset.
    """
    if data is not None:
        assert benchmark.dataset is not None
        found = dataset_problems(data, benchmark.dataset, n_problems=benchmark.n_problems)
        return [replace(problem, benchmark=benchmark.name) for problem in found]
    spec = from_dict(TaskSpec, task)
    made = make_task(spec)
    wanted = benchmark.n_problems
    assert wanted is not None
    if wanted > made.n_heldout:
        raise ValueError(
            f"benchmark {benchmark.name} asks for n_problems={wanted}, but the "
            f"held-out split of task {spec.name} holds {made.n_heldout}: ask for fewer, or raise "
            "the task's heldout_fraction"
        )
    return [made.heldout_problem(i) for i in range(wanted)]


def find(named: str) -> list[Stored]:
    """Everything drawn under a folder, or under the evaluation of that name.

    FileNotFoundError, which lists the names there are, where there is nothing.
    """
    evals = default_root() / "evals"
    for folder in (Path(named), evals / named):
        found = [each for path in sorted(folder.rglob("draws.json")) for each in _stored(path)]
        if found:
            return found
    names = sorted(path.name for path in evals.glob("*/")) if evals.exists() else []
    raise FileNotFoundError(
        f"{named}: no draws there, and no evaluation of that name under {evals}: give the folder "
        f"of an evaluation, or one of these names: {', '.join(names) or 'none yet'}"
    )


def _stored(manifest: Path) -> list[Stored]:
    paths, stage = BenchmarkPaths(manifest.parent), StagePaths(manifest.parents[1])
    if not paths.draws.exists() or not stage.spec.exists():
        return []
    spec = read_json(stage.spec)
    benchmark = spec["evaluation"]["benchmarks"].get(paths.folder.name)
    if benchmark is None:  # it was evaluated on this one before
        benchmark = spec.get("former", {}).get(paths.folder.name)
    if benchmark is None:
        return []
    return [
        Stored(stage=stage, paths=paths, benchmark=from_dict(BenchmarkSpec, benchmark), spec=spec)
    ]
