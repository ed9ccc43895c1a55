"""Draws and time of staged evaluations against 1,024 draws of every problem, same models.

The models are those that `make sweep-groupsize` evaluated in this run root (FGRPO_RUN_ROOT), else a
base model alone. Each is sampled twice by the embedded engine and graded meanwhile: CPU seconds of
both, and the standard error of mean pass@k over the draws, at the success rates that 1,024 draws
show. `factor at equal error`: the fixed number of draws whose pass@256 has the same standard error,
over the mean draws of the staged design. The last line is the mean error of a problem's pass@k
against 65,536 draws of the same problems.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluators.backends import make_engine
from evaluators.grade_worker import GradeWorkers
from evaluators.grading import Grading
from evaluators.records import AskedCheckpoint, Sampler
from evaluators.sample import complete_draws
from fgrpo_bench.benchmarks import load_problems
from fgrpo_bench.kinds.evaluate import sampling_identity
from fgrpo_bench.records import Problem
from fgrpo_bench.results import load_results
from fgrpo_bench.scoring import count, score
from fgrpo_bench.specs import config
from fgrpo_bench.stages.checkpoints import weights_sha256
from fgrpo_bench.stages.paths import BenchmarkPaths, default_root, find_runs
from fgrpo_bench.stats.designs import fewest_draws, fixed_design
from fgrpo_bench.stats.staged import StagedDesign
from tests.bench.model import warmed_up

Floats = NDArray[np.float64]
DECLARATION = config.load("groupsize", ["evaluation@experiment.evaluation=staged"])
EVALUATION = DECLARATION.experiment.evaluation
N_SAMPLES, KS = 1_024, (1, 16, 256)
REFERENCE, N_REFERENCE = 65_536, 8
"""Draws of so many problems of the first model that pass@k is compared with."""


class Model(NamedTuple):
    """A checkpoint, and the row that it belongs to."""

    cell: str
    folder: Path


class Sampled(NamedTuple):
    """What an evaluation made."""

    values: Floats
    """[problems, KS], pass@k."""
    n_correct: NDArray[np.int64]
    """[problems]."""
    n_draws: int
    cpu: float


def models() -> Iterator[Model]:
    """Those of a finished sweep, else one base model."""
    runs = find_runs(default_root(), "groupsize", experiment="countdown")
    if not runs:
        yield Model("base", warmed_up()[0].warmup(1).checkpoint(0))
        return
    results = load_results(runs[-1])
    for point in results.points:
        yield Model(point.point_id.rpartition("-")[0] or "base", point.train.checkpoint(point.step))


def measured(sampler: Sampler, problems: list[Problem], stopping: StagedDesign) -> Sampled:
    """An evaluation, as its stage makes it."""
    with tempfile.TemporaryDirectory() as folder, GradeWorkers(problems, workers=1) as workers:
        paths, begun = BenchmarkPaths(Path(folder)), time.process_time()
        grading = Grading(paths, problems, "countdown", workers=workers, decides=True)
        draws, made = complete_draws(
            paths,
            problems,
            n_samples=stopping.stages[-1],
            seed=EVALUATION.seed,
            sampler=lambda: sampler,
            tell=lambda done, of, draws: grading.add(draws),
            stopping=stopping,
            grading=grading,
        )
        counts = count(grading.finish(draws), stopping)
        table = score(counts, list(KS), stopping)
        values = np.stack([table.filter(k=k)["pass_at_k"].to_numpy() for k in KS], axis=1)
        cpu = time.process_time() - begun
        return Sampled(values, counts["n_correct"].to_numpy(), made, cpu)


def errors(design: StagedDesign, rates: Floats) -> list[float]:
    """Standard error of mean pass@k over the draws at KS, in points."""
    variances = (design.draw_moments(k=k, success_rate=rates)[1].mean() for k in KS)
    return [100 * float(np.sqrt(variance / len(rates))) for variance in variances]


def main() -> None:
    settings = sampling_identity(EVALUATION, DECLARATION.experiment.train.task, None, None, None)
    fixed, staged = fixed_design(N_SAMPLES), EVALUATION.stopping
    assert staged is not None
    (benchmark,) = EVALUATION.benchmarks.values()
    totals: dict[str, list[tuple[Sampled, Sampled]]] = defaultdict(list)
    for number, model in enumerate(models()):
        asked = AskedCheckpoint(
            folder=model.folder,
            sha256=weights_sha256(model.folder),
            evaluation=EVALUATION,
            settings=settings,
            device="cpu",
            placement=None,
        )
        problems = load_problems(benchmark, settings["task"], None)
        sampler = make_engine(asked).draw
        totals[model.cell].append(
            (measured(sampler, problems, fixed), measured(sampler, problems, staged))
        )
        if number == 0:
            reference(sampler, problems[:N_REFERENCE], fixed, staged)
    for cell, of_cell in totals.items():
        tell(cell, of_cell, staged)
    tell("all", [each for of_cell in totals.values() for each in of_cell], staged)


def tell(cell: str, pairs: list[tuple[Sampled, Sampled]], staged: StagedDesign) -> None:
    """Print the facts of some evaluations."""
    rates = np.concatenate([whole.n_correct / N_SAMPLES for whole, _ in pairs])
    draws = [sum(pair[i].n_draws for pair in pairs) / len(rates) for i in (0, 1)]
    cpu = [sum(pair[i].cpu for pair in pairs) for i in (0, 1)]
    variance = float(staged.draw_moments(k=KS[-1], success_rate=rates)[1].mean())
    alike = fewest_draws(ks=KS[-1:], rates=rates, variance=variance)
    own = errors(staged, rates)
    fixed = errors(fixed_design(N_SAMPLES), rates)
    print(
        json.dumps(
            {
                "cell": cell,
                "draws a problem": draws[0],
                "staged": draws[1],
                "factor": draws[0] / draws[1],
                "CPU factor": cpu[0] / cpu[1],
                "factor at equal error": (alike or np.nan) / draws[1],
            }
            | {f"s.e. at k={k}": f"{a:.2f} {b:.2f}" for k, a, b in zip(KS, fixed, own, strict=True)}
        ),
        flush=True,
    )


def reference(
    sampler: Sampler, problems: list[Problem], fixed: StagedDesign, staged: StagedDesign
) -> None:
    """Print the error of a problem's pass@k against many draws of it, by design."""
    truth = measured(sampler, problems, fixed_design(REFERENCE)).values
    facts = {}
    for name, design in (("fixed", fixed), ("staged", staged)):
        error = np.abs(measured(sampler, problems, design).values - truth).mean(axis=0)
        facts |= {f"{name} k={k}": 100 * float(value) for k, value in zip(KS, error, strict=True)}
    print(json.dumps({"mean error in points of": f"{len(problems)} problems"} | facts), flush=True)


if __name__ == "__main__":
    main()
