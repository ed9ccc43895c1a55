"""What a plan takes: hours, days, requeues and disk, and the time that is left while it runs.

In: a plan, what its done stages took, and what `make check-gpu` measured. Out: `plan_cost` as JSON
types; `assumed_seconds` of every stage, by which they are ordered; `remaining_seconds` of a sweep
at work. A stage is tokens drawn, tokens trained and gigabytes saved, over the rates of its model:
what was measured, else the tables below, which tell minutes from hours. Stages that are done scale
those of their kind. What a GPU's memory holds is known to the engine (Engine.memory). Next:
sweeps.preview, which puts it into words; sweeps.local.drive, which shows what is left.

<run root>/_measured/<model>.<gpu>.json, as check-gpu leaves it:
    {"model": "qwen3-4b-base", "parameters": 4022468096, "gpu": "NVIDIA H100 80GB HBM3",
     "date": "2026-07-01", "generate_tokens_per_second_per_gpu": 4100.0,
     "train_tokens_per_second_per_gpu": 7700.0, "save_gb_per_second": 1.9, ...}
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from fgrpo_bench import engines
from fgrpo_bench.engines.engine import Inputs
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record
from fgrpo_bench.kinds import KINDS, Stage, evaluate, likelihood, rare, train, warmup
from fgrpo_bench.kinds.kind import training_inputs
from fgrpo_bench.specs import Profile, SlurmProfile, SweepPoint, TaskSpec
from fgrpo_bench.specs.stored import FetchSpec
from fgrpo_bench.stages.markers import read_marker, undivided
from fgrpo_bench.stats.selection import saved_steps
from fgrpo_bench.tasks import make_task
from sweeps.commands import workers
from sweeps.plan import Plan
from sweeps.schedule import wall_seconds
from sweeps.slurm.submissions import resources
from sweeps.text import counted

START_SECONDS, PLACED_START_SECONDS, GPU_START_SECONDS = 2.5, 120.0, 300.0
"""Until a stage computes: interpreter, imports, loading a checkpoint; of one by Ray or vLLM on
processors, and on GPUs, where CUDA graphs, weights and states come on top, both assumed."""
FILTERED = 2.0
"""Rollouts that dynamic sampling draws for each that it keeps, assumed."""
REFERENCE_PASS = 0.2
"""What the forward pass of a reference model adds to a step's training: 2 operations a parameter
and token to 10 (8 of an update with gradient checkpointing, 2 of the old log-probabilities)."""
BASE_MODEL_FACTOR = 1.9
"""Times that a draw of a base model takes the built-in engine: fewer of its responses begin alike,
and what begins alike is computed once."""
TEXT_BYTES = 4
"""Of a token of a stored response with its grade, assumed."""
MOST_TOKENS = 50_000.0
"""A second and GPU, whatever a small model's size would allow: starting kernels takes its time."""
RESPONSE_SHARE = 0.2
"""Of the longest response, the mean of a model that the table does not have."""
PROCESSORS = 1_000
"""That a GPU such as an H100 is taken for, with the small models of the built-in engine."""
SAMPLED = 256
"""Problems and demonstrations of a task whose mean lengths are taken for those of all."""
ON_H100 = "assumed of an H100 80GB"


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Of one model on a GPU, or on a processor; and the lengths of its texts."""

    generate: float
    """Tokens that one draws in a second, the slow end of a batch included."""
    train: float
    """Tokens of prompts and responses that one takes in a second through everything between
    drawing them and drawing again."""
    response: float
    """Tokens of a response, the mean."""
    prompt: float = 200.0
    """Tokens of a training prompt with its chat template, the mean."""
    save: float = 1.0
    """GB (10^9 bytes) of a training state that a run writes in a second."""
    source: str = ON_H100
    """Of the tokens drawn, as the next three are of the others."""
    train_source: str = ON_H100
    save_source: str = "assumed"
    response_source: str = "assumed"

    def __str__(self) -> str:
        return (
            f"{self.generate:,.0f} tokens drawn a second and GPU ({self.source}), "
            f"{self.train:,.0f} trained ({self.train_source}), {self.response:,.0f} a response "
            f"({self.response_source}), {self.save:g} GB saved a second ({self.save_source})"
        )


REFERENCE = 7_615_616_512
"""Parameters of qwen2.5-7b, from whose speeds those of other models on GPUs follow."""
TABLE = {
    "qwen2.5-7b": Rates(generate=3000.0, train=4500.0, response=1500.0),
    "llama3.2-3b": Rates(generate=6000.0, train=9000.0, response=1500.0),
    "qwen3-4b-base": Rates(generate=4500.0, train=8000.0, response=2000.0),
}
"""By pretrained.name, on a GPU: what one would expect, measured by nobody here."""
SMALL_PARAMETERS = 279_648
"""Of the model of conf/experiment/countdown.yaml."""
BUILT_IN = {
    "countdown": Rates(generate=600_000.0, train=38_000.0, response=8.0, prompt=8.0),
    "maze": Rates(generate=300_000.0, train=19_000.0, response=18.0, prompt=136.0),
}
"""By task, on one thread of a common server processor by the built-in engine, as sweeps of that
model were measured; other tasks are taken for countdown."""


def table_rates(needs: Inputs, parameters: int, *, is_placed: bool, on_gpus: bool) -> Rates:
    """Those of the table, or in inverse proportion to a model's parameters. is_placed: whether an
    engine with vLLM runs it (Environment.is_placed), rather than the built-in one."""
    named, longest = needs.pretrained or needs.model, needs.response_tokens or 0
    assert named is not None
    if is_placed and on_gpus:
        rates = TABLE.get(named.name) or _scaled(
            TABLE["qwen2.5-7b"], REFERENCE / parameters, ON_H100, longest, most=MOST_TOKENS
        )
    else:
        task = "countdown" if needs.task is None else needs.task.name
        small = BUILT_IN.get(task, BUILT_IN["countdown"])
        factor = SMALL_PARAMETERS / parameters * (PROCESSORS if on_gpus else 1)
        rates = _scaled(small, factor, f"assumed of {PROCESSORS:,} processors", longest)
    if needs.task is None:
        return replace(rates, response=min(rates.response, longest))
    prompt, response = task_lengths(needs.task)
    source = "as the task's demonstrations"
    return replace(rates, prompt=prompt, response=response, response_source=source)


def _scaled(
    rates: Rates, factor: float, source: str, longest: int, *, most: float = math.inf
) -> Rates:
    """Those of a model of another size; most: tokens per second."""
    source = f"{source} by its parameters"
    return replace(
        rates,
        generate=min(rates.generate * factor, most),
        train=min(rates.train * factor, most),
        response=RESPONSE_SHARE * longest,
        source=source,
        train_source=source,
    )


@lru_cache
def task_lengths(spec: TaskSpec) -> tuple[float, float]:
    """Characters of a prompt of a task and of a demonstration with its end, the means of some."""
    task = make_task(spec)
    some = range(min(SAMPLED, task.n_train))
    demonstrations = task.demonstrations(some, np.random.default_rng(0))
    return (
        fmean(len(problem.prompt) for problem in task.problems(some)),
        fmean(len(text) + 1 for text in demonstrations),
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredRates(Record):
    """What check-gpu measured of a model on a GPU."""

    model: str
    parameters: int
    gpu: str
    placement: str
    adam_offload: bool | None = None
    """Whether the optimizer lived in the host's memory; None where that is not told."""
    n_gpus: int
    source: str
    """The command that measured."""
    date: str
    generate_tokens_per_second_per_gpu: float
    train_tokens_per_second_per_gpu: float
    save_gb_per_second: float | None
    """Of a training state, in 10^9 bytes; None where none was saved."""
    peak_memory_gib: float | None
    """Of a GPU; None where it is not known."""
    planned_memory_gib: float | None
    """What the plan gave for it; None where it gave nothing."""
    seconds: dict[str, float]
    """Of the phases of a step, by their names."""


def by_check_gpu(rates: Rates, root: Path, model: str, parameters: int, *, offloads: bool) -> Rates:
    """With what check-gpu measured under a run root last: of the model, else of the one next in
    size, in inverse proportion to their parameters. ValueError for a file of it that holds
    something else.

    offloads: whether the optimizer is to live in the host's memory; a speed of training that was
    measured with the other choice tells nothing.
    """
    files = sorted((root / "_measured").glob("*.json"))
    records = {path: read_record(path, MeasuredRates) for path in files}
    if not records:
        return rates

    def nearest_then_newest(path: Path) -> tuple[bool, float, str]:
        item = records[path]
        return item.model == model, -abs(math.log(item.parameters / parameters)), item.date

    path = max(records, key=nearest_then_newest)
    last = records[path]
    factor, source = 1.0, f"measured by make check-gpu on {last.gpu}, {last.date}"
    saved = source
    if last.model != model:
        factor = last.parameters / parameters
        source = f"{source}, of {last.model}, by its parameters"
    generate = factor * _positive(path, last, "generate_tokens_per_second_per_gpu")
    measured = replace(rates, generate=min(generate, MOST_TOKENS), source=source)
    if last.save_gb_per_second is not None:
        speed = _positive(path, last, "save_gb_per_second")
        measured = replace(measured, save=speed, save_source=saved)
    if last.adam_offload not in (None, offloads):
        return measured
    speed = factor * _positive(path, last, "train_tokens_per_second_per_gpu")
    return replace(measured, train=min(speed, MOST_TOKENS), train_source=source)


def _positive(path: Path, rates: MeasuredRates, name: str) -> float:
    value: float = getattr(rates, name)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(
            f"{path} has {name}={value}, which is no rate above 0: delete it, and `make check-gpu` "
            "measures it again"
        )
    return float(value)


def by_training(
    rates: Rates, runs: Iterable[StagePaths], *, drawing: float, training: float
) -> Rates:
    """With what training runs on GPUs measured, those at work included.

    drawing, training: shares of a run's GPUs that do the one and the other.
    """
    rows = [row for run in runs for row in read_lines(run.step_rows) if _tells(row)]
    if not rows:
        return rates
    tokens = sum(row["step_tokens"] for row in rows)
    rollouts = sum(row["step_tokens"] / row["response_tokens"] for row in rows)
    drew = sum(row["gpus"] * row["seconds_generation"] for row in rows)
    rest = sum(row["gpus"] * (row["seconds"] - row["seconds_generation"]) for row in rows)
    steps = f"measured in {counted(len(rows), 'step')} here"
    return replace(
        rates,
        generate=tokens / (drew * drawing),
        train=(tokens + rates.prompt * rollouts) / (rest * training),
        response=tokens / rollouts,
        source=steps,
        train_source=steps,
        response_source=steps,
    )


def _tells(row: dict[str, Any]) -> bool:
    """Whether a step's row has speeds: it ran on GPUs, drew and trained."""
    numbers = [
        row.get(name) or 0
        for name in ("gpus", "step_tokens", "response_tokens", "seconds_generation", "seconds")
    ]
    return min(numbers) > 0 and row["seconds"] > row["seconds_generation"]


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model that all points of a plan train, and what it runs on."""

    points: Mapping[str, SweepPoint]
    """By name of their training."""
    needs: Inputs
    name: str
    profile: Profile
    drawing: int
    """GPUs of a training run that draw, likewise below; one where a profile has none."""
    training: int
    held: int
    """By the two, which may be the same."""
    built_in: Rates
    """Of stages of the built-in engine."""
    placed: Rates
    """Of those of an engine with vLLM."""
    weights_gb: float
    """Of a checkpoint, 10^9 bytes."""
    state_gb: float
    """Of a training state, 10^9 bytes; 0 where nobody can tell, as of the small models of the
    built-in engine."""
    kept: float
    """Share of the draws on training prompts that are kept as rare answers, at most."""

    def is_on_gpus(self, stage: Stage) -> bool:
        """Whether a stage is priced in GPU-hours: it is to run on GPUs, or it trains or samples a
        model that nobody would run without any."""
        is_large = self.needs.pretrained is not None and _is_placed(stage)
        return self.profile.device == "cuda" or is_large

    def rates(self, stage: Stage) -> Rates:
        """Those of the engine that runs a stage."""
        return self.placed if _is_placed(stage) else self.built_in


def _is_placed(stage: Stage) -> bool:
    """Whether an engine with vLLM runs a stage, rather than the built-in one."""
    return engines.environment(stage.environment).is_placed


def planned_model(plan: Plan, paths: RunPaths | None = None) -> Model:
    """The model of a plan. paths: where something may have been measured; None takes the table
    alone. ValueError as of by_check_gpu."""
    point, profile = plan.points[0], plan.declaration.profile
    engine, needs = engines.engine_for(point.train), training_inputs(point)
    rare_answers = plan.declaration.experiment.rare
    placement, on_gpus = profile.placement, profile.device == "cuda"
    named, parameters = needs.pretrained or needs.model, 0
    assert named is not None
    if needs.pretrained is not None:
        parameters = needs.pretrained.parameters
    elif needs.model is not None and needs.task is not None:
        parameters = warmup.parameters(needs.model, needs.task)
    training = getattr(profile, "nodes", 1) * placement.actor_gpus_per_node if on_gpus else 1
    drawing = placement.vllm_engines * placement.vllm_tensor_parallel if on_gpus else 1
    held = training if placement.colocate or not on_gpus else training + drawing
    is_large = on_gpus or needs.pretrained is not None
    placed = table_rates(needs, parameters, is_placed=True, on_gpus=is_large)
    if isinstance(profile, SlurmProfile) and profile.save_gb_per_second is not None:
        save_rate = profile.save_gb_per_second
        placed = replace(placed, save=save_rate, save_source="profile.save_gb_per_second")
    if paths is not None and engine.environment.is_placed:
        offloads = placement.adam_offload
        placed = by_check_gpu(placed, paths.root, named.name, parameters, offloads=offloads)
        runs = [paths.point(point.point_id) for point in plan.points]
        placed = by_training(placed, runs, drawing=drawing / held, training=training / held)
    return Model(
        points={point.point_id: point for point in plan.points},
        needs=needs,
        name=named.name,
        profile=profile,
        drawing=drawing,
        training=training,
        held=held,
        built_in=table_rates(needs, parameters, is_placed=False, on_gpus=on_gpus),
        placed=placed,
        weights_gb=(2 if engine.environment.is_placed else 4) * parameters / 1e9,
        state_gb=engine.state_gb(point, placement) or 0.0,
        kept=0.0 if rare_answers is None else rare_answers.share,
    )


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a stage does."""

    sampled: float = 0.0
    """Tokens of responses."""
    trained: float = 0.0
    """Tokens of prompts and responses."""
    saved_gb: float = 0.0


def work(model: Model, stage: Stage) -> Work | None:
    """What a stage does, at most under a design that stops; None of a kind that is not known
    here."""
    needs, rates = model.needs, model.rates(stage)
    if stage.kind == train.NAME:
        return _training(model, stage)
    if stage.kind == warmup.NAME:
        assert needs.warmup is not None
        shown = needs.warmup.steps * needs.warmup.batch_size
        return Work(trained=shown * (rates.prompt + rates.response))
    if stage.kind in (evaluate.NAME, rare.NAME):
        is_slow = stage.step == 0 and not _is_placed(stage)
        return Work(sampled=draws(stage) * rates.response * (BASE_MODEL_FACTOR if is_slow else 1.0))
    if stage.kind == likelihood.NAME:
        return Work(trained=model.kept * draws(stage) * (rates.prompt + rates.response))
    return None


def _training(model: Model, stage: Stage) -> Work:
    """A training run, with its saves and the evaluations meanwhile; the built-in engine reads a
    prompt once a group."""
    point, rates = model.points[stage.name], model.rates(stage)
    spec, placement = point.train, model.profile.placement
    rollouts = point.n_prompts * point.group_size
    sampled = rollouts * (FILTERED if point.algorithm.dynamic_sampling else 1.0)
    if spec.eval_every:
        sampled += spec.eval_n_problems * spec.eval_n_samples / spec.eval_every
    prompts = rollouts if _is_placed(stage) else point.n_prompts
    trained = prompts * rates.prompt + rollouts * rates.response
    trained *= 1.0 + (REFERENCE_PASS if point.algorithm.kl_coef > 0 else 0.0)
    saved_gb = model.state_gb / placement.state_every + model.weights_gb / spec.save_every
    return Work(
        sampled=spec.steps * sampled * rates.response,
        trained=spec.steps * trained,
        saved_gb=spec.steps * saved_gb,
    )


def draws(stage: Stage) -> int:
    """How many an evaluation or a set of rare answers makes, at most under a design that stops;
    those on a benchmark whose size only the fetch tells are left out."""
    evaluation = stage.spec.as_kind(evaluate.DrawsSpec).stored_evaluation
    problems = [benchmark["n_problems"] or 0 for benchmark in evaluation.benchmarks.values()]
    return evaluation.n_samples * sum(problems)


def stage_seconds(model: Model, stage: Stage) -> tuple[float, float]:
    """Until a stage computes, and of its work, 0 of a kind that is not known here."""
    start, rates, done = START_SECONDS, model.rates(stage), work(model, stage) or Work()
    drawing = training = 1
    if _is_placed(stage):
        start = GPU_START_SECONDS if model.is_on_gpus(stage) else PLACED_START_SECONDS
        drawing = training = stage_gpus(model, stage)
        if stage.kind == train.NAME:
            drawing, training = model.drawing, model.training
    seconds = done.sampled / (rates.generate * drawing) + done.trained / (rates.train * training)
    return start, seconds + done.saved_gb / rates.save


def assumed_seconds(plan: Plan) -> dict[str, float]:
    """Of every stage of a plan, by name, by the table alone."""
    model = planned_model(plan)
    return {stage.name: sum(stage_seconds(model, stage)) for stage in plan.stages}


def stage_gpus(model: Model, stage: Stage) -> int:
    """That a stage holds; 1 without any."""
    profile, takes = model.profile, KINDS[stage.kind].takes
    if isinstance(profile, SlurmProfile) and profile.device == "cuda":
        request = resources(profile, stage.kind, is_placed=_is_placed(stage))
        return request.nodes * (request.gpus_per_node or 1)
    if profile.device != "cuda" or not _is_placed(stage):
        return 1
    if takes == "profile":
        return model.held
    n_engines = 1 if takes == "engine" else profile.placement.evaluation_engines
    return n_engines * profile.placement.evaluation_tensor_parallel


@dataclass(frozen=True, kw_only=True)
class StageJob:
    """A stage from its first start to its end."""

    gpus: int
    """That it holds; 1 without any."""
    seconds: float
    """Waits in a queue apart."""
    requeues: int = 0
    """How often the profile's time limit ends it before."""


def job(model: Model, stage: Stage, factor: float = 1.0) -> StageJob:
    """What a stage takes. factor: by which done stages took longer than this tells."""
    start, seconds = stage_seconds(model, stage)
    seconds = (start + seconds) * factor - start
    starts, profile = 1, model.profile
    if isinstance(profile, SlurmProfile):
        before_signal = profile.time_minutes * 60 - profile.signal_seconds
        start = min(start, before_signal / 2)  # so that any job gets on
        starts = max(math.ceil(seconds / (before_signal - start)), 1)
    return StageJob(
        gpus=stage_gpus(model, stage), seconds=seconds + starts * start, requeues=starts - 1
    )


Measured = tuple[str, float, float]
"""Kind, estimated seconds and measured seconds of a stage."""


def calibration(measured: Iterable[Measured]) -> dict[str, float]:
    """By kind, the factor that the rates are off by here.

    measured: of stages that are done. The median is taken, because a stage that was interrupted
    measured only its last attempt. All count: stages of one method follow each other, and a method
    may be slow.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for kind, estimated, seconds in measured:
        ratios[kind].append(seconds / estimated)
    return {kind: median(values) for kind, values in ratios.items()}


def kind_factor(kind: str, factors: Mapping[str, float]) -> float:
    """The kind's factor; a kind that was not measured takes the mean of the others, since a slow
    machine is slow at everything."""
    return factors.get(kind, fmean(factors.values()) if factors else 1.0)


def plan_cost(plan: Plan, paths: RunPaths, to_run: Sequence[Stage]) -> dict[str, Any]:
    """As JSON types: processor and wall seconds of what runs without GPUs and how many done stages
    they rest on, what runs on GPUs (null: nothing), the design, in words, whose most draws are
    counted (null: of a fixed number), and what is fetched, which has bytes and no time.
    ValueError for a file of measured rates that cannot be one."""
    model, design = planned_model(plan, paths), plan.points[0].evaluation.stopping
    computed = [stage for stage in to_run if not KINDS[stage.kind].fetches]
    has_evaluation = any(stage.kind == evaluate.NAME for stage in computed)
    names = {stage.name for stage in to_run}
    measured = []
    for stage in plan.stages:
        took = None if stage.name in names else _took(model, paths, stage)
        if took is not None:
            measured.append((stage.kind, job(model, stage).seconds, took))
    factors = calibration(measured)
    estimated = [stage for stage in computed if work(model, stage) is not None]
    jobs = {}
    for stage in estimated:
        factor = 1.0 if _steps_give_rates(model, stage) else kind_factor(stage.kind, factors)
        jobs[stage.name] = job(model, stage, factor)
    on_gpus = [stage for stage in estimated if model.is_on_gpus(stage)]
    others = [stage for stage in estimated if not model.is_on_gpus(stage)]
    seconds, at_once = {name: job.seconds for name, job in jobs.items()}, workers(model.profile)
    return {
        "cpu_seconds": round(sum(seconds[stage.name] for stage in others), 1),
        "wall_seconds": round(wall_seconds(others, seconds, at_once), 1),
        "workers": at_once,
        "measured_stages": len(measured),
        "not_estimated": len(computed) - len(estimated),
        "estimated": len(others),
        "on_processors": sum(map(_is_placed, computed)) * (model.profile.device == "cpu"),
        "on_gpus": _on_gpus(model, on_gpus, jobs, len(measured)) if on_gpus else None,
        "at_most": design.text if has_evaluation and not design.is_fixed else None,
        "downloads": _downloads(to_run),
    }


def _steps_give_rates(model: Model, stage: Stage) -> bool:
    """Whether a stage is a training run that `by_training` reads, whose speed the rates are."""
    return stage.kind == train.NAME and _is_placed(stage) and model.is_on_gpus(stage)


def _took(model: Model, paths: RunPaths, stage: Stage) -> float | None:
    """Seconds that a done stage's marker says, on GPUs of wall time; None where it says nothing of
    what `job` tells."""
    on_gpus = model.is_on_gpus(stage)
    is_counted = on_gpus or not _is_placed(stage)  # not the processes of Ray and vLLM
    if work(model, stage) is None or _steps_give_rates(model, stage) or not is_counted:
        return None
    marker = read_marker(StagePaths(paths.folder / stage.name))
    seconds = marker.wall_seconds if on_gpus else marker.cpu_seconds
    return None if seconds is None else undivided(marker, seconds)


def _on_gpus(
    model: Model, stages: Sequence[Stage], jobs: Mapping[str, StageJob], n_measured: int
) -> dict[str, Any]:
    profile, spec = model.profile, next(iter(model.points.values())).train
    by_kind = {}
    for kind, n_stages in Counter(stage.kind for stage in stages).items():
        kind_jobs = [jobs[stage.name] for stage in stages if stage.kind == kind]
        longest = max(kind_jobs, key=lambda job: job.seconds)
        hours = sum(job.gpus * job.seconds for job in kind_jobs) / 3600
        by_kind[kind] = {"stages": n_stages, "gpu_hours": hours, "longest": asdict(longest)}
    has_gpus, at_once = profile.device == "cuda", profile.max_parallel or 1
    seconds = {stage.name: jobs[stage.name].seconds for stage in stages}
    trained = [stage for stage in stages if stage.kind == train.NAME]
    sampling = [stage for stage in stages if stage.kind in (evaluate.NAME, rare.NAME)]
    checkpoints = len(trained) * len(saved_steps(steps=spec.steps, save_every=spec.save_every))
    tokens = sum(draws(stage) * model.rates(stage).response for stage in sampling)
    is_filtered = [model.points[stage.name].algorithm.dynamic_sampling for stage in trained]
    unknown_size = set()
    for stage in sampling:
        benchmarks = stage.spec.as_kind(evaluate.DrawsSpec).stored_evaluation.benchmarks
        unknown_size |= {n for n, spec in benchmarks.items() if spec["n_problems"] is None}
    is_placed = engines.engine_for(spec).environment.is_placed
    rates = model.placed if is_placed else model.built_in
    return {
        "by_kind": by_kind,
        "gpu_hours": sum(kind["gpu_hours"] for kind in by_kind.values()),
        "jobs_at_once": at_once,
        "wall_seconds": wall_seconds(stages, seconds, at_once) if has_gpus else None,
        "requeues_at": getattr(profile, "time_minutes", None) if has_gpus else None,
        "checkpoints": checkpoints,
        "checkpoint_gb": model.weights_gb,
        "responses_gb": tokens * TEXT_BYTES / 1e9,
        "states": min(len(trained), at_once) * profile.placement.states_kept,
        "state_gb": model.state_gb,
        "model": model.name,
        "rates": asdict(rates) | {"words": str(rates)},
        "start_seconds": GPU_START_SECONDS if is_placed else START_SECONDS,
        "measured_stages": n_measured,
        "filters": any(is_filtered),
        "of_unknown_size": sorted(unknown_size),
    }


def _downloads(stages: Iterable[Stage]) -> dict[str, Any]:
    """What comes from publishers and not from this disk: models in GB (10^9 bytes) at 2 bytes a
    parameter, and how many datasets."""
    fetched = [stage.spec for stage in stages if isinstance(stage.spec, FetchSpec)]
    models = [spec.model_spec for spec in fetched if spec.model is not None]
    parameters = sum(model.parameters for model in models if not Path(model.path).is_dir())
    datasets = [spec.dataset_spec for spec in fetched if spec.dataset is not None]
    return {
        "models_gb": 2 * parameters / 1e9,
        "datasets": sum(dataset.source == "huggingface" for dataset in datasets),
    }


MIN_MEASURED_SECONDS = 10.0
"""After so long a worker knows how fast it is."""
FINISH_SECONDS, FINISHED_STAGE_SECONDS = 10.0, 0.1
"""Of the report and the sync behind the last stage, and how much longer they take for each stage of
the sweep."""


@dataclass(frozen=True, kw_only=True)
class AtWork:
    """A stage that has begun."""

    elapsed: float
    """Seconds."""
    seconds_remaining: float | None
    """Seconds that its worker says it still needs; None before it has said anything."""


def remaining_seconds(
    stages: Sequence[Stage],
    estimated: Mapping[str, float],
    measured: Sequence[Measured],
    at_work: Mapping[str, AtWork],
    workers: int,
) -> float:
    """Until all of `stages` are done and reported, at the speed of what was measured here.

    stages: those at work and those that can still begin. estimated: seconds by the table, of every
    stage of the sweep. measured: as for `calibration`; what a worker at work says of itself is
    measured too, once it has run for a while.
    """
    kinds = {stage.name: stage.kind for stage in stages}
    projected = [
        (kinds[name], estimated[name], worker_status.elapsed + worker_status.seconds_remaining)
        for name, worker_status in at_work.items()
        if worker_status.seconds_remaining is not None
        and worker_status.elapsed >= MIN_MEASURED_SECONDS
    ]
    factors = calibration([*measured, *projected])
    seconds = {s.name: estimated[s.name] * kind_factor(s.kind, factors) for s in stages}
    for name, worker_status in at_work.items():
        expected = max(seconds[name] - worker_status.elapsed, 1.0)
        seconds[name] = (
            expected if worker_status.seconds_remaining is None else worker_status.seconds_remaining
        )
    return wall_seconds(stages, seconds, workers) + finish_seconds(len(estimated))


def finish_seconds(n_stages: int) -> float:
    """Of the report and the sync behind the last of so many stages."""
    return FINISH_SECONDS + FINISHED_STAGE_SECONDS * n_stages


def at_mean_load(walls: Mapping[str, float], loads: Mapping[str, float]) -> dict[str, float]:
    """Wall seconds that stages would take under the mean load so far, by name: a kind's only one
    may have run while the machine did much else, or nothing. What it will do is not known, and the
    load of the last stages alone says less of hours than the mean does.

    walls: of stages that are done. loads: wall over processor seconds of those whose worker knows
    both; the others stay as they are.
    """
    if not loads:
        return dict(walls)
    mean = sum(walls[name] for name in loads) / sum(walls[name] / loads[name] for name in loads)
    return {name: wall * mean / loads.get(name, mean) for name, wall in walls.items()}
