"""What the stages of a plan that are to run cost: processor time, GPU-hours, days and disk.

In: a plan and what its done stages took. Out: `estimate` as JSON types and `words`. Stages on GPUs
are arithmetic over their specs and the rates of a model; what is assumed has a name here or in
sweeps.rates. Next: sweeps.preview, which shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Literal

from fgrpo_bench import engines
from fgrpo_bench.engines.engine import Inputs
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.kinds import KINDS, Stage, evaluate, flops, likelihood, rare
from fgrpo_bench.kinds.kind import inputs
from fgrpo_bench.specs import Profile, SlurmProfile, SweepPoint
from fgrpo_bench.specs.stored import FetchSpec
from fgrpo_bench.stages.markers import read_marker, undivided
from fgrpo_bench.stats.selection import saved_steps
from sweeps import rates, schedule
from sweeps.commands import workers
from sweeps.plan import Plan
from sweeps.rates import Rates
from sweeps.slurm.submissions import resources
from sweeps.text import counted, duration

START_SECONDS = 300.0
"""Of a job of Ray or vLLM, assumed: their start, CUDA graphs, loading weights and states."""
FILTERED = 2.0
"""Rollouts that dynamic sampling draws for each that it keeps, assumed."""
REFERENCE_PASS = 0.2
"""What the forward pass of a reference model adds to a step's training: 2 operations a parameter
and token to 10 (8 of an update with gradient checkpointing, 2 of the old log-probabilities)."""
TEXT_BYTES = 4
"""Of a token of a stored response with its grade, assumed."""


@dataclass(frozen=True, kw_only=True)
class GpuJob:
    """A stage on GPUs."""

    gpus: int
    """That it holds."""
    seconds: float
    """Until it is done, waits in a queue apart."""
    requeues: int = 0
    """How often the profile's time limit ends it before."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """GPUs of a training run."""

    drawing: int
    training: int
    held: int
    """By the two, which may be the same."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model that all points of a plan train, and what it runs on."""

    name: str
    needs: Inputs
    profile: Profile
    layout: Layout
    weights_gb: float
    """Of a checkpoint, 10^9 bytes."""
    state_gb: float
    """Of a training state; 0 where nobody can tell, as of the small models of our own engine."""
    checkpoints: int
    """That a run keeps."""
    kept: float
    """Share of the draws on training prompts that are kept as rare answers, at most."""
    rates: Rates | None
    """None where our own engine runs it, which is priced by operations."""


def model_of(plan: Plan, paths: RunPaths) -> Model:
    """The model of a plan, with the rates that are known best; ValueError as rates.by_check_gpu."""
    point, profile = plan.points[0], plan.declaration.profile
    needs, engine, layout = inputs(point), engines.of(point.train), _layout(profile)
    named, parameters = needs.pretrained or needs.model, _parameters(needs)
    assert named is not None
    is_placed, known = engine.environment.is_placed, None
    rare_answers = plan.declaration.experiment.rare
    if is_placed:
        known = rates.assumed(named.name, parameters=parameters, longest=needs.response_tokens or 0)
        if needs.task is not None:
            mean = flops.lengths(needs.task).response
            known = replace(known, response=mean, response_source="as the task's demonstrations")
        if isinstance(profile, SlurmProfile) and profile.save_gb_per_second is not None:
            own_rate = profile.save_gb_per_second
            known = replace(known, save=own_rate, save_source="profile.save_gb_per_second")
        offloads = profile.placement.adam_offload
        known = rates.by_check_gpu(known, paths.root, named.name, offloads=offloads)
        known = rates.by_training(
            known,
            [paths.point(point.point_id) for point in plan.points],
            drawing=layout.drawing / layout.held,
            training=layout.training / layout.held,
        )
    return Model(
        name=named.name,
        needs=needs,
        profile=profile,
        layout=layout,
        weights_gb=(2 if is_placed else 4) * parameters / 1e9,
        state_gb=engine.state_gb(point, profile.placement) or 0.0,
        checkpoints=len(saved_steps(steps=point.train.steps, save_every=point.train.save_every)),
        kept=0.0 if rare_answers is None else rare_answers.share,
        rates=known,
    )


def _parameters(needs: Inputs) -> int:
    if needs.pretrained is not None:
        return needs.pretrained.parameters
    assert needs.model is not None and needs.task is not None
    symbols = needs.model.vocabulary_size or flops.lengths(needs.task).symbols
    return flops.parameters(needs.model, symbols)


def _layout(profile: Profile) -> Layout:
    """One GPU where a profile has none, so that GPU-hours can be told all the same."""
    placement, nodes = profile.placement, getattr(profile, "nodes", 1)
    if profile.device != "cuda":
        return Layout(drawing=1, training=1, held=1)
    training = nodes * placement.actor_gpus_per_node
    drawing = placement.vllm_engines * placement.vllm_tensor_parallel
    held = training if placement.colocate else training + drawing
    return Layout(drawing=drawing, training=training, held=held)


def job(model: Model, stage: Stage, point: SweepPoint | None, factor: float = 1.0) -> GpuJob:
    """What a stage takes.

    point: of a training run, None for other stages. factor: by which done stages of its kind took
    longer than this tells.
    """
    is_placed = engines.environment(stage.environment).is_placed
    gpus = _gpus(model, stage, is_placed=is_placed)
    start = START_SECONDS if is_placed else schedule.START_SECONDS
    if is_placed and model.rates is not None:
        work = _by_rates(model, model.rates, stage, point, gpus)
    else:
        work = _gpu_operations(model, stage, point) / flops.ASSUMED
    work = max((work + start) * factor - start, 0.0)
    starts, profile = 1, model.profile
    if isinstance(profile, SlurmProfile):
        before_signal = profile.time_minutes * 60 - profile.signal_seconds
        start = min(start, before_signal / 2)  # so that any job gets on
        starts = max(ceil(work / (before_signal - start)), 1)
    return GpuJob(gpus=gpus, seconds=work + starts * start, requeues=starts - 1)


def _gpus(model: Model, stage: Stage, *, is_placed: bool) -> int:
    profile, takes = model.profile, KINDS[stage.kind].takes
    if profile.device != "cuda" or not (is_placed or isinstance(profile, SlurmProfile)):
        return 1
    if isinstance(profile, SlurmProfile):
        asked = resources(profile, stage.kind, is_placed=is_placed)
        return asked.nodes * (asked.gpus_per_node or 1)
    if takes == "profile":
        return model.layout.held
    n_engines = 1 if takes == "engine" else profile.placement.evaluation_engines
    return n_engines * profile.placement.evaluation_tensor_parallel


def _by_rates(
    model: Model, known: Rates, stage: Stage, point: SweepPoint | None, gpus: int
) -> float:
    """Seconds of a stage of a placed engine."""
    if point is not None:
        return point.train.steps * step_seconds(model, known, point)
    drawn = evaluate.draws(stage)
    if stage.kind == likelihood.NAME:
        return model.kept * drawn * (rates.PROMPT_TOKENS + known.response) / (known.train * gpus)
    return drawn * known.response / (known.generate * gpus)


def step_seconds(model: Model, known: Rates, point: SweepPoint) -> float:
    """A step of a training run, with its share of the saves and of the evaluations meanwhile."""
    train, placement = point.train, model.profile.placement
    rollouts = point.n_prompts * point.group_size
    drawn = rollouts * (FILTERED if point.algorithm.dynamic_sampling else 1.0)
    if train.eval_every:
        drawn += train.eval_n_problems * train.eval_n_samples / train.eval_every
    trained = rollouts * (1.0 + (REFERENCE_PASS if point.algorithm.kl_coef > 0 else 0.0))
    saved_gb = model.state_gb / placement.state_every + model.weights_gb / train.save_every
    return (
        drawn * known.response / (known.generate * model.layout.drawing)
        + trained * (rates.PROMPT_TOKENS + known.response) / (known.train * model.layout.training)
        + saved_gb / known.save
    )


def _gpu_operations(model: Model, stage: Stage, point: SweepPoint | None) -> float:
    """Of a stage of our own engine; backward twice as many as forward."""
    if point is not None:
        return flops.training(point) or 0.0
    needs = model.needs
    once = flops.forward_of(needs)
    assert once is not None
    if isinstance(stage.spec, evaluate.DrawsSpec):
        return evaluate.draws(stage) * once.response
    shown = 0 if needs.warmup is None else needs.warmup.steps * needs.warmup.batch_size
    return 3 * shown * (once.prompt + once.response)


def response_gb(model: Model, stage: Stage) -> float:
    """Of the draws that a stage stores, 10^9 bytes."""
    if stage.kind not in (evaluate.NAME, rare.NAME):
        return 0.0
    if model.rates is not None:
        tokens = model.rates.response
    else:
        assert model.needs.task is not None
        tokens = flops.lengths(model.needs.task).response
    return evaluate.draws(stage) * tokens * TEXT_BYTES / 1e9


LONG = 2 * 86400
"""Seconds from which on days are told."""


def estimate(plan: Plan, paths: RunPaths, to_run: list[Stage]) -> dict[str, Any]:
    """As JSON types: processor and wall seconds of what runs without GPUs and how many done stages
    they rest on, what runs on GPUs (null: nothing), and what is fetched, which has bytes and no
    time. ValueError for a file of measured rates that cannot be one."""
    computed = [stage for stage in to_run if not KINDS[stage.kind].fetches]
    on_gpus = _for_gpus(plan, computed)
    apart = {stage.name for stage in on_gpus}
    others = [stage for stage in computed if stage.name not in apart]
    estimated = [stage for stage in others if KINDS[stage.kind].cost(stage) is not None]
    names = {stage.name for stage in to_run}
    done = [s for s in plan.stages if s.name not in names and not KINDS[s.kind].fetches]
    measured = [
        (stage.kind, schedule.cpu_seconds(stage), took)
        for stage in done
        if stage.environment == "base" and (took := _took(paths, stage, "cpu_seconds")) is not None
    ]
    factors = schedule.calibration(measured)
    seconds = {
        stage.name: schedule.scaled(schedule.cpu_seconds(stage), stage.kind, factors)
        for stage in estimated
    }
    at_once = workers(plan.declaration.profile)
    return {
        "cpu_seconds": round(sum(seconds.values()), 1),
        "wall_seconds": round(schedule.wall_seconds(estimated, seconds, at_once), 1),
        "workers": at_once,
        "measured_stages": len(measured),
        "not_estimated": len(others) - len(estimated),
        "estimated": len(estimated),
        "on_processors": _on_processors(plan, computed),
        "on_gpus": _on_gpus(plan, paths, on_gpus, done) if on_gpus else None,
        "training_flops": _operations(plan, names),
        "downloads": _downloads(to_run),
    }


def _operations(plan: Plan, names: Collection[str]) -> float | None:
    """Of the trainings among some stages; None where no model of ours is trained."""
    known = [flops.training(point) for point in plan.points if point.point_id in names]
    return sum(entry for entry in known if entry is not None) if any(known) else None


def _for_gpus(plan: Plan, stages: list[Stage]) -> list[Stage]:
    """Those that are priced in GPU-hours: they are to run on GPUs, or train or sample a model that
    nobody would run without any."""
    if plan.declaration.profile.device == "cuda":
        return stages
    if inputs(plan.points[0]).pretrained is None:
        return []
    return [stage for stage in stages if engines.environment(stage.environment).is_placed]


def _took(
    paths: RunPaths, stage: Stage, field: Literal["wall_seconds", "cpu_seconds"]
) -> float | None:
    """What a done stage's marker says of its time; None where it says nothing."""
    marker = read_marker(StagePaths(paths.folder / stage.name))
    seconds: float | None = getattr(marker, field)
    return None if seconds is None else undivided(marker, seconds)


def _on_processors(plan: Plan, stages: list[Stage]) -> int:
    """How many of some stages are laid out over GPUs where a profile has any, and this has none."""
    if plan.declaration.profile.device != "cpu":
        return 0
    return sum(engines.environment(stage.environment).is_placed for stage in stages)


def _downloads(stages: list[Stage]) -> dict[str, Any]:
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


def _on_gpus(plan: Plan, paths: RunPaths, stages: list[Stage], done: list[Stage]) -> dict[str, Any]:
    model, profile = model_of(plan, paths), plan.declaration.profile
    points = {point.point_id: point for point in plan.points}  # also the names of their trainings
    measured = [
        (stage.kind, job(model, stage, points.get(stage.name)).seconds, took)
        for stage in done
        if not (model.rates is not None and stage.name in points)  # whose steps gave the rates
        and (took := _took(paths, stage, "wall_seconds")) is not None
    ]
    factors = schedule.calibration(measured)
    jobs = {s.name: job(model, s, points.get(s.name), factors.get(s.kind, 1.0)) for s in stages}
    has_gpus, at_once = profile.device == "cuda", profile.max_parallel or 1
    seconds = {name: job.seconds for name, job in jobs.items()}
    by_kind = {}
    for kind, n_stages in Counter(stage.kind for stage in stages).items():
        of_kind = [jobs[stage.name] for stage in stages if stage.kind == kind]
        longest = max(of_kind, key=lambda job: job.seconds)
        hours = sum(job.gpus * job.seconds for job in of_kind) / 3600
        by_kind[kind] = {"stages": n_stages, "gpu_hours": hours, "longest": asdict(longest)}
    trained = [points[stage.name] for stage in stages if stage.name in points]
    asked = [
        stage.spec.asked.benchmarks
        for stage in stages
        if isinstance(stage.spec, evaluate.EvaluationSpec)
    ]
    return {
        "by_kind": by_kind,
        "gpu_hours": sum(kind["gpu_hours"] for kind in by_kind.values()),
        "jobs_at_once": at_once,
        "wall_seconds": (schedule.wall_seconds(stages, seconds, at_once) if has_gpus else None),
        "requeues_at": getattr(profile, "time_minutes", None) if has_gpus else None,
        "checkpoints": len(trained) * model.checkpoints,
        "checkpoint_gb": model.weights_gb,
        "responses_gb": sum(response_gb(model, stage) for stage in stages),
        "states": min(len(trained), at_once) * profile.placement.states_kept,
        "state_gb": model.state_gb,
        "model": model.name,
        "rates": None if model.rates is None else asdict(model.rates) | {"words": str(model.rates)},
        "measured_stages": len(measured),
        "filters": any(point.algorithm.dynamic_sampling for point in trained),
        "of_unknown_size": sorted(
            {name for request in asked for name in request if request[name]["n_problems"] is None}
        ),
    }


def words(answer: Mapping[str, Any], profile: str) -> Iterator[str]:
    """What `estimate` found, a line each; profile: the name of the one planned."""
    if answer["estimated"]:
        basis = (
            f"scaled by {counted(answer['measured_stages'], 'stage')} measured here"
            if answer["measured_stages"]
            else "by constants of fgrpo_bench/kinds, nothing measured here yet"
        )
        yield (
            f"estimated cost: {_days(answer['cpu_seconds'])} of processor time, "
            f"{_days(answer['wall_seconds'])} with {counted(answer['workers'], 'worker')} "
            f"({basis})"
        )
    operations, on_gpus = answer["training_flops"], answer["on_gpus"]
    if on_gpus is not None:
        yield from _gpu_words(on_gpus, operations)
    elif operations is not None and answer["wall_seconds"] >= LONG:
        yield (
            f"on a GPU (profile.device=cuda) the training would take about "
            f"{_hours(operations / flops.ASSUMED / 3600)} GPU-hours, {_priced(operations)}"
        )
    yield from _download_words(answer["downloads"])
    if answer["not_estimated"]:
        yield (
            f"cost not estimated: {counted(answer['not_estimated'], 'stage')} of kinds that do not "
            "tell what they take"
        )
    if answer["on_processors"]:
        yield (
            f"no GPU: profile={profile} runs {counted(answer['on_processors'], 'stage')} that are "
            "made for GPUs on processors; profile=slurm-8gpu and others of conf/profile ask for "
            "GPUs"
        )


def _gpu_words(answer: Mapping[str, Any], operations: float | None) -> Iterator[str]:
    by_kind = {KINDS[kind].noun: item for kind, item in answer["by_kind"].items()}
    parts = [
        f"{counted(kind['stages'], noun)} {_hours(kind['gpu_hours'])}"
        for noun, kind in by_kind.items()
    ]
    line = f"estimated on GPUs: {_hours(answer['gpu_hours'])} GPU-hours ({', '.join(parts)})"
    if answer["wall_seconds"] is not None:
        jobs = counted(answer["jobs_at_once"], "job")
        line += f", {_days(answer['wall_seconds'])} with {jobs} at once"
    yield line if answer["requeues_at"] is None else f"{line}, waits in queues apart"
    if answer["requeues_at"] is not None:
        longest = [
            f"{noun} {_days(kind['longest']['seconds'])} on "
            f"{counted(kind['longest']['gpus'], 'GPU')}, "
            f"{counted(kind['longest']['requeues'], 'requeue')}"
            for noun, kind in by_kind.items()
        ]
        limit = f"profile.time_minutes={answer['requeues_at']}"
        yield f"  the longest at {limit}: {'; '.join(longest)}"
    yield f"  disk: {_disk_words(answer)}"
    if answer["rates"] is not None:
        yield f"  {answer['model']}: {answer['rates']['words']}"
        yield f"  {_assumptions(answer)}"
    elif operations is not None:
        yield f"  {_priced(operations)}"
    if answer["of_unknown_size"]:
        names = ", ".join(answer["of_unknown_size"])
        yield f"  without draws on {names}, whose size only the fetch tells"


def _disk_words(answer: Mapping[str, Any]) -> str:
    checkpoints, responses = answer["checkpoints"], answer["responses_gb"]
    of_checkpoints = checkpoints * answer["checkpoint_gb"]
    line = (
        f"{of_checkpoints + responses:,.1f} GB kept ({counted(checkpoints, 'checkpoint')} of "
        f"{answer['checkpoint_gb']:,.2f} GB, responses {responses:,.1f} GB)"
    )
    if held := answer["states"] * answer["state_gb"]:
        line += (
            f", and {held:,.0f} GB while runs are at work ({counted(answer['states'], 'state')} "
            f"of {answer['state_gb']:,.1f} GB)"
        )
    return line


def _assumptions(answer: Mapping[str, Any]) -> str:
    line = (
        f"assumed: {rates.PROMPT_TOKENS} tokens per prompt, {START_SECONDS:.0f} s until a "
        f"job computes, {TEXT_BYTES} bytes a token of a stored response"
    )
    if answer["filters"]:
        line += f", {FILTERED:g} rollouts for each that dynamic sampling keeps"
    if answer["measured_stages"]:
        line += f"; scaled by {counted(answer['measured_stages'], 'stage')} measured here"
    return line


def _priced(operations: float) -> str:
    """What a price of our own engine's training rests on."""
    return (
        f"from operations and not from a measured step: {operations:.1e} of training with its "
        f"rollouts, at {flops.ASSUMED:.0e} a second (assumed)"
    )


def _download_words(answer: Mapping[str, Any]) -> Iterator[str]:
    parts = [f"a model of {answer['models_gb']:,.1f} GB"] if answer["models_gb"] else []
    if answer["datasets"]:
        parts.append(counted(answer["datasets"], "dataset"))
    if parts:
        yield f"plus downloads, not timed: {', '.join(parts)}"


def _days(seconds: float) -> str:
    """e.g. 4.3 days, or as `duration` where that is short."""
    return f"{seconds / 86400:,.1f} days" if seconds >= LONG else duration(seconds)


def _hours(hours: float) -> str:
    """e.g. 0.4 or 1,240."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"
