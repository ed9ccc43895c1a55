"""The evaluation stage: sample what is missing, grade what is ungraded, compute pass@k.

Each of the three leaves a file of its own, so that a new k or a new grader never draws again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from evaluators.backends import make_sampler
from evaluators.grade import count, grade_draws, score
from evaluators.records import Sampler
from evaluators.sample import complete_draws
from fgrpo_bench.data import dataset_problems
from fgrpo_bench.files import read_json, write_json
from fgrpo_bench.fingerprint import fingerprint
from fgrpo_bench.graders import grader_version
from fgrpo_bench.paths import BenchmarkPaths, StagePaths
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import BenchmarkSpec, EvalSpec, Placement, TaskSpec, from_dict
from fgrpo_bench.stage import StageRun, Stopped
from fgrpo_bench.tables import GRADES, PASSK, read_table, write_table
from fgrpo_bench.tasks import make_task


def evaluate(
    spec: dict[str, Any], run: StageRun, *, device: str, placement: Placement | None
) -> dict[str, Any]:
    """Run an evaluation stage; returns facts for its completion marker."""
    evaluation = from_dict(EvalSpec, spec["evaluation"])
    settings = spec["identity"]["sampling"]
    source = StagePaths((run.paths.folder / spec["source"]).resolve())
    data = {name: (run.paths.folder / at).resolve() for name, at in spec["data"].items()}
    sha256 = read_json(source.done)["weights_sha256"]

    def sampler() -> Sampler:
        checkpoint = source.checkpoint(spec["step"])
        draw, facts = make_sampler(
            checkpoint, sha256, evaluation, settings, device=device, placement=placement
        )
        engine.update(facts)
        return draw

    made: dict[str, int] = {}
    engine: dict[str, Any] = {}
    for name, benchmark in evaluation.benchmarks.items():
        paths = run.paths.benchmark(name)
        problems = load_problems(benchmark, settings["task"], data.get(name))
        manifest = check_manifest(paths, problems, sha256, spec["fingerprint"])

        def tell(done: int, of: int) -> None:
            run.progress(step=done, of=of)
            if run.stopping and done < of:
                raise Stopped(f"{done} of {of} draws are saved")

        draws, made[name] = complete_draws(
            paths,
            problems,
            n_samples=evaluation.n_samples,
            seed=evaluation.seed,
            sampler=sampler,
            tell=tell,
        )
        if engine:
            write_json(paths.manifest, manifest | {"engine": engine})
        grades = _grades(paths, draws, problems, grader_version(benchmark.grader))
        counts = count(grades)
        write_table(paths.passk, score(counts, list(evaluation.ks)), PASSK)
    return {"step": spec["step"], "weights_sha256": sha256, "draws_made": made, "engine": engine}


def load_problems(
    benchmark: BenchmarkSpec, task: dict[str, Any] | None, data: Path | None
) -> list[Problem]:
    """The first n_problems of the benchmark; ValueError where there are fewer.

    task: of the experiment, for a benchmark of its held-out problems. data: the stage that fetched
    the benchmark's dataset.
    """
    if data is not None:
        assert benchmark.dataset is not None
        return dataset_problems(data, benchmark.dataset, n_problems=benchmark.n_problems)
    assert benchmark.n_problems is not None  # the spec refuses null without a dataset
    spec = from_dict(TaskSpec, task)
    made = make_task(spec)
    if benchmark.n_problems > made.n_heldout:
        raise ValueError(
            f"benchmark {benchmark.name} asks for n_problems={benchmark.n_problems}, but the "
            f"held-out split of task {spec.name} holds {made.n_heldout}: ask for fewer, or raise "
            "the task's heldout_fraction"
        )
    return [made.heldout_problem(i) for i in range(benchmark.n_problems)]


def check_manifest(
    paths: BenchmarkPaths, problems: list[Problem], sha256: str, mark: str
) -> dict[str, Any]:
    """What the draws belong to; written before the first draw, compared before every later one.

    Raises ValueError where draws of other weights, prompts or settings stand at this address.
    """
    wanted = {
        "fingerprint": mark,
        "weights_sha256": sha256,
        "prompts_sha256": fingerprint([[p.problem_id, p.prompt] for p in problems]),
    }
    if not paths.manifest.exists():
        write_json(paths.manifest, wanted)
        return wanted
    found: dict[str, Any] = read_json(paths.manifest)
    for field, value in wanted.items():
        if found.get(field) != value:
            raise ValueError(
                f"{paths.folder} holds draws with {field} {found.get(field)}, but this evaluation "
                f"has {value}: draws of different origin are never mixed; move that folder away, "
                "or bump `version`"
            )
    return found


def _grades(
    paths: BenchmarkPaths, draws: pl.DataFrame, problems: list[Problem], version: str
) -> pl.DataFrame:
    path = paths.grades(version)
    if path.exists():
        grades = read_table(path, GRADES)
        if len(grades) == len(draws):
            return grades
    grades = grade_draws(draws, problems, version)
    write_table(path, grades, GRADES)
    return grades
