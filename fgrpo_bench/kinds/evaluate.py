"""evaluate: draws from a checkpoint on benchmarks, graded, with pass@k."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.core import registry, seeds
from fgrpo_bench.engines.embedded import kernels
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.files.whole import reading_fields
from fgrpo_bench.graders import grader_version
from fgrpo_bench.kinds.fetch import dataset_identity
from fgrpo_bench.kinds.kind import Kind, Planned, Stage, by_module, make_stage, training_inputs
from fgrpo_bench.specs import (
    BenchmarkSpec,
    DesignSpec,
    EvalSpec,
    PromptSpec,
    SweepPoint,
    TaskSpec,
    TrainSpec,
    to_dict,
)
from fgrpo_bench.specs.fingerprint import defining, fingerprint
from fgrpo_bench.specs.stored import from_stored, typed
from fgrpo_bench.stages.draws import Design
from fgrpo_bench.stages.markers import Marker
from fgrpo_bench.stats.staged import StagedDesign, fixed_design

NAME = "evaluate"
VERSION = 2
"""Raised when the same settings give other draws."""
SEED_SCHEME = "splitmix64-2"
"""How a draw's own seed comes from (seed, stream, problem_id, draw); see fgrpo_bench.core.seeds."""
SHARED_STREAM = 0
"""Stream of what belongs to no training seed: a base model that several seeds share, and by default
a checkpoint that is evaluated outside a sweep."""


@dataclass(frozen=True, kw_only=True)
class StoredEvaluation(Record):
    """What a reader may rely on of an EvalSpec in a file."""

    benchmarks: dict[str, dict[str, Any]]
    """By name, as they were stored."""
    n_samples: int
    ks: tuple[int, ...]
    design: Design | None = None
    """When a problem stops; None: never."""


@dataclass(frozen=True, kw_only=True)
class DrawsSpec(StageSpec):
    """spec.json of a stage that draws: an evaluation, or a set of rare answers."""

    identity: dict[str, Any]
    evaluation: dict[str, Any]
    """How it draws and grades, as an EvalSpec is stored."""
    trust_remote_code: bool = False
    """Whether code that the model or its tokenizer brings may run, as whoever asked for it said."""

    def __post_init__(self) -> None:
        _ = self.stored_evaluation  # must be one

    @cached_property
    def stored_evaluation(self) -> StoredEvaluation:
        """The evaluation; SchemaError where it is none."""
        return StoredEvaluation.parsed_part(self.evaluation, ".evaluation")

    @property
    def eval_spec(self) -> EvalSpec:
        """The evaluation as a spec."""
        return typed(self, EvalSpec, self.evaluation)

    @property
    def sampling(self) -> dict[str, Any]:
        """What changes a draw, as `sampling_identity` gives it."""
        with reading_fields(self.file):
            return dict(self.identity["sampling"])

    @property
    def draw_seed(self) -> int:
        """What the own seeds of all its draws follow from (fgrpo_bench.core.seeds.draw_seeds)."""
        with reading_fields(self.file):
            return seeds.stream(self.eval_spec.seed, self.sampling["stream"])

    @property
    def task(self) -> dict[str, Any] | None:
        """The generated task, as it was stored; None without one."""
        with reading_fields(self.file):
            task = self.identity.get("sampling", {}).get("task")
            return None if task is None else dict(task)

    @property
    def stopping(self) -> StagedDesign:
        """When a problem stops."""
        return stopping(self.evaluation, self.file)


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec(DrawsSpec):
    """spec.json of an evaluation, in a sweep or alone, and of imported draws."""

    data: dict[str, str]
    """Path to the stage of a benchmark's dataset, by benchmark; not there for the held-out problems
    of a task."""
    marks: dict[str, str] | None = None
    """What the draws on a benchmark are known by; None: by the fingerprint."""
    former: dict[str, dict[str, Any]] | None = None
    """Benchmarks that were evaluated on here before, and are not asked for now, as they were
    stored; None without any."""

    @property
    def all_benchmarks(self) -> dict[str, dict[str, Any]]:
        """The benchmarks of now and before."""
        return (self.former or {}) | self.stored_evaluation.benchmarks

    def benchmark(self, name: str) -> BenchmarkSpec:
        """A benchmark of now or before; ValueError where there is none of that name."""
        with reading_fields(self.file):
            stored = self.all_benchmarks[name]
        return from_stored(BenchmarkSpec, stored, self.file)

    def layout(self, name: str) -> str | None:
        """Layout of a benchmark's dataset; None for the held-out problems of a task."""
        with reading_fields(self.file):
            dataset = self.stored_evaluation.benchmarks[name]["dataset"]
            return None if dataset is None else str(dataset["layout"])

    def data_folder(self, name: str) -> Path | None:
        """Folder of a benchmark's dataset; None for the held-out problems of a task."""
        return self.at(self.data[name]).folder if name in self.data else None

    def mark(self, name: str) -> str:
        """What the draws on a benchmark are known by."""
        return (self.marks or {}).get(name, self.fingerprint)

    def prompt_source(self, name: str) -> dict[str, Any]:
        """What a benchmark's prompts follow from."""
        sampling = self.sampling
        with reading_fields(self.file):
            return {"benchmark": sampling["benchmarks"][name], "task": sampling.get("task")}


def draws_identity(evaluation: EvalSpec, train: TrainSpec, *, stream: int) -> dict[str, Any]:
    """What changes a draw, apart from the weights; n_samples, ks and graders do not.

    stream: of `random_stream`.
    """
    needs = engines.engine_for(train).inputs(train)
    return sampling_identity(
        evaluation,
        needs.task,
        needs.prompt,
        needs.prompt_tokens,
        needs.response_tokens,
        stream=stream,
    )


def random_stream(point: SweepPoint, *, step: int) -> int:
    """Which random numbers the model of a point is asked with at a step (0 is its base model).

    Cells of one training seed share theirs, which pairs their draws; seeds do not, so that the
    draws of different seeds are independent of each other.
    """
    is_shared = step == 0 and training_inputs(point).pretrained is not None
    return SHARED_STREAM if is_shared else point.seed


def is_trusted(point: SweepPoint) -> bool:
    """Whether code that a point's published model brings may run."""
    model = training_inputs(point).pretrained
    return model is not None and model.trust_remote_code


def sampling_identity(
    evaluation: EvalSpec,
    task: TaskSpec | None,
    prompt: PromptSpec | None,
    prompt_tokens: int | None,
    response_tokens: int | None,
    *,
    stream: int,
) -> dict[str, Any]:
    """The same without a training run; all but the first are None for the embedded engine, apart
    from a task whose held-out problems are drawn on."""
    return {
        "recipe_version": VERSION,
        "sampler": evaluation.sampler,
        "task": None if task is None else defining(task),
        "prompt": None if prompt is None else defining(prompt),
        "prompt_tokens": prompt_tokens,
        "response_tokens": response_tokens,
        "benchmarks": {
            name: benchmark_identity(evaluation, name) for name in evaluation.benchmarks
        },
        "temperature": evaluation.temperature,
        "top_p": evaluation.top_p,
        "dtype": evaluation.dtype,
        "seed": evaluation.seed,
        "stream": stream,
        "seed_scheme": SEED_SCHEME,
        **({"batch_invariant": True} if evaluation.batch_invariant else {}),
        **({"kernels": kernels.NAME} if evaluation.sampler == "embedded" else {}),
        **defining(evaluation, ("top_k", "stop", "prefix", "few_shot")),
    } | registry.identity(tasks=None if task is None else task.name)


def benchmark_identity(evaluation: EvalSpec, name: str) -> dict[str, Any]:
    """What changes a draw on one benchmark: its problems, and its prompt where it has an own."""
    benchmark, prompt = evaluation.benchmarks[name], evaluation.benchmark_prompt(name)
    return {
        "dataset": benchmark.dataset and dataset_identity(benchmark.dataset),
        "n_problems": benchmark.n_problems,
    } | ({} if prompt is None else {"prompt": defining(prompt)})


def target(evaluation: EvalSpec) -> dict[str, Any]:
    """What is asked for beside the draws' settings: how many, when a problem stops (None: never),
    which k, and by which graders."""
    return {
        "n_samples": evaluation.n_samples,
        "design": evaluation.design and to_dict(evaluation.design),
        "ks": list(evaluation.ks),
        "graders": versions(evaluation.benchmarks),
    }


def stopping(stored: Mapping[str, Any], path: Path) -> StagedDesign:
    """When a problem stops, by a target or an evaluation as a file has it: n_samples and a design,
    null for a fixed number of draws. ValueError that names the file where that is none."""
    if (design := stored.get("design")) is None:
        return fixed_design(stored["n_samples"])
    return from_stored(DesignSpec, design, path).estimator


def versions(benchmarks: Mapping[str, BenchmarkSpec]) -> dict[str, str]:
    """Grader versions as a stage's target has them: by benchmark, and by benchmark/grader for
    further graders."""
    by_name = {}
    for name, benchmark in benchmarks.items():
        by_name[name] = grader_version(benchmark.grader)
        for grader in benchmark.extra_graders:
            by_name[f"{name}/{grader}"] = grader_version(grader)
    return by_name


def stages(planned: Planned) -> Iterator[Stage]:
    """Of the base models, then of every point's checkpoints, the last ones first."""
    for point in planned.by_base:
        yield stage(planned, point, planned.base(point), step=0)
    for step in planned.steps:
        for point in planned.points:
            yield stage(planned, point, planned.training(point), step=step)


def stage(planned: Planned, point: SweepPoint, source: Stage, *, step: int) -> Stage:
    """The evaluation of a checkpoint of a stage, with the settings of a point."""
    evaluation = point.evaluation
    sampling = draws_identity(evaluation, point.train, stream=random_stream(point, step=step))
    name = f"{source.name}/eval/{evaluation.name}-{fingerprint(sampling)[:8]}/step-{step:05d}"
    data = {
        key: planned.dataset(benchmark.dataset).name
        for key, benchmark in evaluation.benchmarks.items()
        if benchmark.dataset is not None
    }
    return make_stage(
        EvaluationSpec,
        NAME,
        name,
        {"sampling": sampling, "source": source.fingerprint, "step": step},
        target=target(evaluation),
        needs=tuple(data.values()),
        point_id=source.point_id,
        environment=engines.engine_for_sampler(evaluation.sampler).environment.name,
        source=source,
        step=step,
        evaluation=to_dict(evaluation),
        trust_remote_code=is_trusted(point),
        data={key: os.path.relpath(path, name) for key, path in data.items()},
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationFacts(Record):
    """What an evaluation says in its marker beside what all stages say; None of imported draws."""

    step: int | None = None
    weights_sha256: str | None = None
    draws_made: dict[str, int] | None = None
    """By benchmark, likewise below."""
    taken_from: dict[str, str] | None = None
    """The evaluations that draws were taken over from, as in draws.json."""
    grading: dict[str, dict[str, Any]] | None = None
    """Counts of what was graded, by the version of the grader."""
    engines: dict[str, tuple[dict[str, Any], ...]] | None = None
    """Fingerprints of what made the draws, as in draws.json."""


@dataclass(frozen=True, kw_only=True)
class EvaluationTarget(Record):
    """The target of an evaluation, as `target` gives it."""

    n_samples: int
    design: Design | None = None
    ks: tuple[int, ...]
    graders: dict[str, str]
    """As `versions` gives them."""


@dataclass(frozen=True, kw_only=True)
class EvaluationMarker(EvaluationFacts, Marker):
    """DONE.json of an evaluation."""

    finished: str
    finished_ms: int

    def __post_init__(self) -> None:
        _ = self.evaluation_target  # must be one

    @cached_property
    def evaluation_target(self) -> EvaluationTarget:
        """Its target; SchemaError where that is another kind's."""
        return EvaluationTarget.parsed_part(self.target, ".target")


command = by_module("evaluators", "run")


KIND = Kind(name=NAME, noun="evaluation", stages=stages, command=command, in_report=True)
