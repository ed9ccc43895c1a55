"""Finding the draws of evaluations on disk, under sweeps and alone, and what belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluators.fetch import chosen
from fgrpo_bench.benchmarks import load_problems
from fgrpo_bench.kinds.evaluate import EvaluationSpec
from fgrpo_bench.records import Problem
from fgrpo_bench.runs import default_root
from fgrpo_bench.specs import BenchmarkSpec, DatasetSpec
from fgrpo_bench.specs.config import load_benchmark
from fgrpo_bench.stages.paths import BenchmarkPaths, DataPaths, StagePaths
from fgrpo_bench.stages.spec import read_spec_of
from fgrpo_bench.tables import PROBLEMS, read_table


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The draws of one checkpoint on one benchmark."""

    stage: StagePaths
    paths: BenchmarkPaths
    benchmark: BenchmarkSpec
    spec: EvaluationSpec
    """What its stage computes."""

    @property
    def gated(self) -> bool:
        """Whether no text of the benchmark may be shown."""
        dataset = self.benchmark.dataset
        return dataset is not None and dataset.gated

    def problems(self) -> list[Problem]:
        """The problems that were drawn for."""
        return load_problems(
            self.benchmark, self.spec.task, self.spec.data_folder(self.benchmark.name)
        )

    def golds(self) -> dict[str, str]:
        """Gold answers as published, by problem_id."""
        data = self.spec.data_folder(self.benchmark.name)
        if data is None:
            return {problem.problem_id: problem.target for problem in self.problems()}
        table = read_table(DataPaths(data).problems, PROBLEMS)
        return dict(table.select("problem_id", "answer").iter_rows())


def benchmark_spec(name: str, keys: Sequence[str]) -> tuple[BenchmarkSpec, DatasetSpec]:
    """A shipped benchmark and its dataset with keys as they were given to fetch, e.g. path=<file>,
    which may then have another number of problems. ValueError where it has no dataset."""
    spec, dataset = load_benchmark(name), chosen(name, list(keys))
    changed = replace(spec, dataset=dataset, n_problems=None if keys else spec.n_problems)
    return changed, dataset


def find(named: str) -> list[Stored]:
    """Everything drawn under a folder, or under the evaluation of that name.

    FileNotFoundError, which lists the names there are, where there is nothing.
    """
    evals = default_root() / "evals"
    for folder in (Path(named), evals / named):
        evaluations = [
            each for path in sorted(folder.rglob("draws.json")) for each in _stored(path)
        ]
        if evaluations:
            return evaluations
    names = sorted(path.name for path in evals.glob("*/")) if evals.exists() else []
    raise FileNotFoundError(
        f"{named}: no draws there, and no evaluation of that name under {evals}: give the folder "
        f"of an evaluation, or one of these names: {', '.join(names) or 'none yet'}"
    )


def _stored(manifest: Path) -> list[Stored]:
    paths, stage = BenchmarkPaths(manifest.parent), StagePaths(manifest.parents[1])
    if not paths.draws.exists() or not stage.spec.exists():
        return []
    spec, name = read_spec_of(EvaluationSpec, stage), paths.folder.name
    if name not in spec.known:
        return []
    return [Stored(stage=stage, paths=paths, benchmark=spec.benchmark(name), spec=spec)]
