"""What stages take on GPUs and on the disk: arithmetic over their specs and the rates of a model.

What is assumed has a name here or in sweeps.rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from fgrpo_bench import engines
from fgrpo_bench.engines.engine import Inputs
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.kinds import KINDS, Stage, evaluate, flops, likelihood, rare
from fgrpo_bench.kinds.kind import inputs
from fgrpo_bench.specs import Profile, SlurmProfile, SweepPoint
from fgrpo_bench.stats.selection import saved_steps
from sweeps import rates, schedule
from sweeps.plan import Plan
from sweeps.rates import Rates
from sweeps.slurm.arrays import resources

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
class Job:
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
    own: Inputs
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
    own, engine, layout = inputs(point), engines.of(point.train), _layout(profile)
    named, parameters = own.pretrained or own.model, _parameters(own)
    assert named is not None
    is_placed, known = engine.environment.is_placed, None
    rare_answers = plan.declaration.experiment.rare
    if is_placed:
        known = rates.assumed(named.name, parameters=parameters, longest=own.response_tokens or 0)
        if own.task is not None:
            mean = flops.lengths(own.task).response
            known = replace(known, response=mean, response_source="as the task's demonstrations")
        if isinstance(profile, SlurmProfile) and profile.save_gb_per_second is not None:
            own_rate = profile.save_gb_per_second
            known = replace(known, save=own_rate, save_source="profile.save_gb_per_second")
        offloads = profile.placement.adam_offload
        known = rates.by_check_gpu(known, paths.root, named.name, offloads=offloads)
        known = rates.by_training(
            known,
            [paths.point(each.point_id) for each in plan.points],
            drawing=layout.drawing / layout.held,
            training=layout.training / layout.held,
        )
    return Model(
        name=named.name,
        own=own,
        profile=profile,
        layout=layout,
        weights_gb=(2 if is_placed else 4) * parameters / 1e9,
        state_gb=engine.state_gb(point, profile.placement) or 0.0,
        checkpoints=len(saved_steps(steps=point.train.steps, save_every=point.train.save_every)),
        kept=0.0 if rare_answers is None else rare_answers.share,
        rates=known,
    )


def _parameters(own: Inputs) -> int:
    if own.pretrained is not None:
        return own.pretrained.parameters
    assert own.model is not None and own.task is not None
    symbols = own.model.vocabulary_size or flops.lengths(own.task).symbols
    return flops.parameters(own.model, symbols)


def _layout(profile: Profile) -> Layout:
    """One GPU where a profile has none, so that GPU-hours can be told all the same."""
    placement, nodes = profile.placement, getattr(profile, "nodes", 1)
    if profile.device != "cuda":
        return Layout(drawing=1, training=1, held=1)
    training = nodes * placement.actor_gpus_per_node
    drawing = placement.vllm_engines * placement.vllm_tensor_parallel
    held = training if placement.colocate else training + drawing
    return Layout(drawing=drawing, training=training, held=held)


def job(model: Model, stage: Stage, point: SweepPoint | None, factor: float = 1.0) -> Job:
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
        work = _operations(model, stage, point) / flops.ASSUMED
    work = max((work + start) * factor - start, 0.0)
    starts, profile = 1, model.profile
    if isinstance(profile, SlurmProfile):
        before_signal = profile.time_minutes * 60 - profile.signal_seconds
        start = min(start, before_signal / 2)  # so that any job gets on
        starts = max(ceil(work / (before_signal - start)), 1)
    return Job(gpus=gpus, seconds=work + starts * start, requeues=starts - 1)


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
    rollouts = point.prompts_per_step * point.group_size
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


def _operations(model: Model, stage: Stage, point: SweepPoint | None) -> float:
    """Of a stage of our own engine; backward twice as many as forward."""
    if point is not None:
        return flops.training(point) or 0.0
    own = model.own
    assert own.model is not None and own.task is not None
    once = flops.forward(own.model, own.task)
    if isinstance(stage.spec, evaluate.DrawsSpec):
        return evaluate.draws(stage) * once.response
    shown = 0 if own.warmup is None else own.warmup.steps * own.warmup.batch_size
    return 3 * shown * (once.prompt + once.response)


def response_gb(model: Model, stage: Stage) -> float:
    """Of the draws that a stage stores, 10^9 bytes."""
    if stage.kind not in (evaluate.NAME, rare.NAME):
        return 0.0
    if model.rates is not None:
        tokens = model.rates.response
    else:
        assert model.own.task is not None
        tokens = flops.lengths(model.own.task).response
    return evaluate.draws(stage) * tokens * TEXT_BYTES / 1e9
