"""Draws and time of staged evaluations against 1,024 draws of every problem, same models.

The models are those that `make sweep-groupsize` evaluated in this run root (FGRPO_RUN_ROOT), else a
base model alone. Each is sampled twice by the embedded engine and graded meanwhile: wall and CPU
seconds of both, and the standard error of mean pass@k over the draws, at the success rates that
1,024 draws show. `factor at equal error`: the fixed number of draws whose pass@256 has the same
standard error, over the mean draws of the staged design.

For one model of each of CHOSEN follows the mean error of a problem's pass@k, fixed and staged,
against 65,536 draws of the same problem, the first of which are those that are compared. The same
models are sampled twice by vLLM on processors too, whose start is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from evaluators.backends import make_engine
from evaluators.grading import Grading
from evaluators.grading_processes import GradeWorkers
from evaluators.records import Sampler, SampleRequest, SamplingEngine, SamplingTarget
from evaluators.sample import complete_draws
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.command.runs import default_root, find_runs
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.engines.openrlhf.engine import home, target
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.evaluate import sampling_identity
from fgrpo_bench.specs import EvalSpec, PromptSpec, config, from_dict, to_dict
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stats.staged import StagedDesign, fewest_draws, fixed_design
from tests.bench.grading import cpu_seconds
from tests.bench.model import warmed_up
from tests.openrlhf.vllm_draws import PLACEMENT

Floats = NDArray[np.float64]
SHIPPED = Path(__file__).parents[2] / "conf" / "design" / "staged.yaml"
STAGED = StagedDesign(**yaml.safe_load(SHIPPED.read_text()))
N_SAMPLES, SEED = 1_024, 0
KS, SHOWN_KS = tuple(2**i for i in range(9)), (1, 16, 256)
CHOSEN = ("base", "grpo-n8-g0", "grpo-n8-g1")
"""Cells whose first model is compared with a reference and sampled by vLLM."""
REFERENCE, N_REFERENCE = 65_536, 16
"""Draws of so many problems that pass@k is compared with."""
N_VLLM = 64
"""Problems that vLLM draws for, some minutes with processors alone."""


class Model(NamedTuple):
    """A checkpoint, and the row that it belongs to."""

    cell: str
    folder: Path


class Sampled(NamedTuple):
    """What an evaluation made, and the seconds that it took."""

    values: Floats
    """[problems, KS], pass@k."""
    n_correct: NDArray[np.int64]
    """[problems]."""
    n_draws: int
    wall: float
    cpu: float
    """Of all processes."""


Pair = tuple[Sampled, Sampled]
"""N_SAMPLES draws of every problem, and the staged design, of one model on the same problems."""


def models() -> Iterator[Model]:
    """Those of a finished sweep, else one base model."""
    runs = find_runs(default_root(), "groupsize", experiment="countdown")
    if not runs:
        yield Model("base", warmed_up()[0].warmup(1).checkpoint(0))
        return
    results = load_results(runs[-1])
    for point in results.points:
        yield Model(point.point_id.rpartition("-")[0] or "base", point.train.checkpoint(point.step))


class Asked(NamedTuple):
    """How the models are asked, as JSON types, which another environment reads."""

    evaluation: dict[str, Any]
    settings: dict[str, Any]
    """fgrpo_bench.kinds.evaluate.sampling_identity."""

    def start(self, model: Model, n_problems: int | None) -> tuple[SamplingEngine, list[Problem]]:
        """An engine that has drawn, so that what it does once is done; and problems, n_problems or
        all."""
        evaluation = from_dict(EvalSpec, self.evaluation)
        engine = make_engine(
            SamplingTarget(
                folder=model.folder,
                sha256=weights_sha256(model.folder),
                evaluation=evaluation,
                settings=self.settings,
                device="cpu",
                placement=PLACEMENT,
            )
        )
        (benchmark,) = evaluation.benchmarks.values()
        problems = load_problems(benchmark, self.settings["task"], None)[:n_problems]
        first = SampleRequest(problem=problems[0], draw=0, seed=0)
        assert sum(map(len, engine.draw([first]))) == 1
        return engine, problems


def declared() -> Asked:
    """As the shipped countdown sweep asks them."""
    experiment = config.load("groupsize").experiment
    plain = PromptSpec(chat_template=False, system=None)
    task = experiment.train.task  # type: ignore[attr-defined]
    settings = sampling_identity(experiment.evaluation, task, plain, None, None, stream=0)
    return Asked(to_dict(experiment.evaluation), settings)


def measured(sampler: Sampler, problems: list[Problem], stopping: StagedDesign) -> Sampled:
    """An evaluation, as its stage makes it."""
    with tempfile.TemporaryDirectory() as folder, GradeWorkers(problems, workers=1) as workers:
        paths, begun, used = BenchmarkPaths(Path(folder)), time.perf_counter(), cpu_seconds()
        grading = Grading(paths, problems, "countdown", workers=workers, decides=True)
        draws, made = complete_draws(
            paths,
            problems,
            design=stopping,
            grading=grading,
            seed=SEED,
            sampler=lambda: sampler,
            on_draws=lambda done, of, draws: grading.add(draws),
        )
        counts = count(grading.finish(draws), stopping)
        table = score(counts, list(KS), stopping)
        wall, cpu = time.perf_counter() - begun, cpu_seconds() - used
        values = [table.filter(k=k)["pass_at_k"].to_numpy() for k in KS]
        n_correct = counts["n_correct"].to_numpy()
        return Sampled(np.stack(values, axis=1), n_correct, made, wall, cpu)


def pair(sampler: Sampler, problems: list[Problem]) -> Pair:
    """Both evaluations, one after the other."""
    fixed = measured(sampler, problems, fixed_design(N_SAMPLES))
    return fixed, measured(sampler, problems, STAGED)


def errors(design: StagedDesign, rates: Floats) -> list[float]:
    """Standard error of mean pass@k over the draws at SHOWN_KS, in points."""
    variances = (design.draw_moments(k=k, success_rate=rates)[1].mean() for k in SHOWN_KS)
    return [100 * float(np.sqrt(variance / len(rates))) for variance in variances]


def tell(cell: str, pairs: Sequence[Pair]) -> None:
    """Print the facts of some evaluations."""
    rates = np.concatenate([whole.n_correct / N_SAMPLES for whole, _ in pairs])
    draws, wall, cpu = (
        [sum(getattr(each[i], name) for each in pairs) for i in (0, 1)]
        for name in ("n_draws", "wall", "cpu")
    )
    variance = float(STAGED.draw_moments(k=SHOWN_KS[-1], success_rate=rates)[1].mean())
    alike = fewest_draws(ks=SHOWN_KS[-1:], rates=rates, variance=variance)
    both = zip(SHOWN_KS, errors(fixed_design(N_SAMPLES), rates), errors(STAGED, rates), strict=True)
    facts = {
        "cell": cell,
        "draws per problem": draws[0] / len(rates),
        "staged": draws[1] / len(rates),
        "factor": draws[0] / draws[1],
        "wall s": wall[0],
        "wall factor": wall[0] / wall[1],
        "CPU factor": cpu[0] / cpu[1],
        "factor at equal error": (alike or np.nan) * len(rates) / draws[1],
    }
    print(
        json.dumps(facts | {f"s.e. at k={k}": f"{a:.2f} {b:.2f}" for k, a, b in both}), flush=True
    )


def reference(cell: str, sampler: Sampler, problems: list[Problem]) -> None:
    """Print the errors of a problem's pass@k against many draws of it, fixed and staged."""
    truth = measured(sampler, problems, fixed_design(REFERENCE)).values
    fixed, staged = (
        100 * np.abs(sampled.values - truth).mean(axis=0) for sampled in pair(sampler, problems)
    )
    both = zip(KS, fixed, staged, strict=True)
    facts = {"mean error in points": f"{cell}, {len(problems)} problems"}
    print(json.dumps(facts | {f"k={k}": f"{a:.2f} {b:.2f}" for k, a, b in both}), flush=True)


def by_vllm(asked: Asked, chosen: Sequence[Model]) -> None:
    """Print what vLLM takes, in an environment that has it."""
    pairs = []
    for model in chosen:
        engine, problems = asked.start(model, N_VLLM)
        pairs.append(pair(engine.draw, problems))
        tell(f"{model.cell} by vLLM, {len(problems)} problems", pairs[-1:])
        del engine  # its process with it
    tell("all by vLLM", pairs)


def hand_over(asked: Asked, chosen: Sequence[Model]) -> None:
    """Let that environment's interpreter do it, or say how to make one."""
    python = home("cpu") / "bin" / "python"
    if not python.exists():
        lacking = f"not measured, there is no {python}: run `make {target('cpu')}`"
        print(json.dumps({"vLLM": lacking}), flush=True)
        return
    asked = asked._replace(evaluation=asked.evaluation | {"sampler": "vllm"})
    folders = [(model.cell, str(model.folder.absolute())) for model in chosen]
    subprocess.run(
        [str(python), "-m", "tests.bench.stopping", "vllm"],
        input=json.dumps([asked, folders]),
        env=os.environ | {"PYTHONPATH": str(SHIPPED.parents[2])},
        text=True,
        check=True,
    )


def main() -> None:
    if sys.argv[1:] == ["vllm"]:
        question, folders = json.load(sys.stdin)
        return by_vllm(Asked(*question), [Model(cell, Path(at)) for cell, at in folders])
    asked, totals = declared(), defaultdict[str, list[Pair]](list)
    chosen: list[Model] = []
    for model in models():
        engine, problems = asked.start(model, None)
        if model.cell in CHOSEN and model.cell not in totals:
            chosen.append(model)
            reference(model.cell, engine.draw, problems[:N_REFERENCE])
        totals[model.cell].append(pair(engine.draw, problems))
    for cell, pairs in totals.items():
        tell(cell, pairs)
    tell("all; goals: factor 3, time 2.5", [each for pairs in totals.values() for each in pairs])
    return hand_over(asked, chosen)


if __name__ == "__main__":
    main()
