"""Plan a sweep: pure functions, nothing is read, started or written.

In: a declaration. Out: its points (training runs) and its stages, in an order that respects their
needs; what each stage computes is frozen in its `spec`, which the stage reads from its own folder.
Next: sweeps.preview, which shows a plan; sweeps.freeze, which writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrpo_bench import engines
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.engines.engine import Engine
from fgrpo_bench.graders import function, get_grader, grader_version, is_partial
from fgrpo_bench.kinds import KINDS, Planned, Stage
from fgrpo_bench.kinds.kind import base_name
from fgrpo_bench.kinds.warmup import check_fits
from fgrpo_bench.objectives.advantages import (
    carries_state,
    check_parameters,
    has_signal_when_all_are_alike,
    reads_log_probs,
    restricted,
)
from fgrpo_bench.objectives.by_rewards import Restricted
from fgrpo_bench.specs import (
    Declaration,
    SweepPoint,
    SweepSpec,
    TaskSpec,
    TrainSpec,
    to_dict,
)
from fgrpo_bench.specs.cell import COLUMNS, Cell, to_columns
from fgrpo_bench.stages.plan import (
    FORMAT,
    CheckpointRecord,
    PlanRecord,
    PointRecord,
    StageRecord,
)
from fgrpo_bench.tasks import make_task

if TYPE_CHECKING:
    from fgrpo_bench.analysis.question import Family


CONTROLS = {
    "entropy_coef": "an entropy bonus",
    "kl_coef": "a KL penalty",
    "random_rewards": "rewards that are drawn at random",
}
"""Fields of an algorithm that not every engine has, in words."""
MOST_ROLLOUTS = 1_000_000
"""A step: thirty times the largest of the paper (256 prompts, N = 128), and what one step holds in
memory at once."""


def expand(declaration: Declaration) -> tuple[SweepPoint, ...]:
    """The grid's product, then explicit cells, over their seeds; repeats and exclusions drop."""
    algorithms, points = declaration.algorithms, dict[str, SweepPoint]()
    for cell, seed in _cells_with_seeds(declaration.sweep):
        if cell.algorithm not in algorithms:
            raise ValueError(
                f"unknown algorithm {cell.algorithm!r}{suggestion(cell.algorithm, algorithms)}: "
                f"valid ones are {', '.join(sorted(algorithms))} (conf/algorithms.yaml)"
            )
        if _excluded(declaration, cell, seed):
            continue
        point = SweepPoint(
            sweep=declaration.sweep.name,
            experiment=declaration.experiment.name,
            version=declaration.version,
            **to_columns(cell) | {"algorithm": algorithms[cell.algorithm]},
            seed=seed,
            train=declaration.experiment.train,
            evaluation=declaration.experiment.evaluation,
        )
        points[point.point_id] = point
    return tuple(points.values())


def _cells_with_seeds(sweep: SweepSpec) -> Iterator[tuple[Cell, int]]:
    """A cell of the grid that is named again with seeds of its own has these too."""
    seeds: dict[Cell, dict[int, None]] = {}
    for cell, cell_seeds in _cells(sweep):
        seeds.setdefault(cell, {}).update(dict.fromkeys(cell_seeds))
    for cell, merged_seeds in seeds.items():
        yield from product([cell], merged_seeds)


def _cells(sweep: SweepSpec) -> Iterator[tuple[Cell, tuple[int, ...]]]:
    """The grid's product, then the explicit cells, each at every learning rate and number of
    prompts that it has; and their seeds."""
    grid = sweep.grid
    for values in product(*(getattr(grid, name) for name in COLUMNS)):
        yield Cell(**dict(zip(COLUMNS, values, strict=True))), grid.seed
    for extra in sweep.cells:
        given = {name: getattr(extra, name) for name in COLUMNS}
        followed = [name for name in COLUMNS if given[name] is None]
        for values in product(*(getattr(grid, name) for name in followed)):
            cell = Cell(**given | dict(zip(followed, values, strict=True)))
            yield cell, grid.seed if extra.seed is None else extra.seed


def _excluded(declaration: Declaration, cell: Cell, seed: int) -> bool:
    have = to_columns(cell) | {"seed": seed, "engine": declaration.experiment.train.engine}
    return any(
        all(getattr(rule, field) in (None, value) for field, value in have.items())
        for rule in declaration.sweep.exclude
    )


def family(declaration: Declaration, points: Sequence[SweepPoint]) -> Family:
    """The comparisons that are the sweep's question; ValueError where it declares some that it does
    not make."""
    from fgrpo_bench.analysis import question, rows  # a tenth of a second, for Polars

    seeds = Counter(point.cell for point in points)
    cells = [rows.make_cell(None, step=0, n_planned=0)] + [
        rows.make_cell(cell, step=0, n_planned=n) for cell, n in seeds.items()
    ]
    return question.declared_pairs(to_dict(declaration), cells)[1]


def check(declaration: Declaration, points: tuple[SweepPoint, ...]) -> list[str]:
    """Rules that join several fields; ValueError with value, rule and remedy. Returns warnings."""
    train = declaration.experiment.train
    warnings: list[str] = []
    if not points:
        raise ValueError(
            f"sweep {declaration.sweep.name!r} has no points: its grid has an empty axis and no "
            "cells, or everything is excluded; give every axis of sweep.grid a value"
        )
    alike: dict[str, set[str]] = {}
    ratio_fields = {"name", "objective", "clip_low", "clip_high"}
    for algorithm in {point.algorithm.name: point.algorithm for point in points}.values():
        rest = {key: value for key, value in to_dict(algorithm).items() if key not in ratio_fields}
        alike.setdefault(str(rest), set()).add(algorithm.name)
    names = next((sorted(names) for names in alike.values() if len(names) > 1), [])
    if names and train.updates_per_batch == 1:
        raise ValueError(
            f"the grid compares {', '.join(names)} with updates_per_batch=1: with one update "
            "a rollout batch the ratio is 1 and the objectives are the same; set "
            "experiment.train.updates_per_batch to 2 or more (the paper's value is 4)"
        )
    for point in points:
        rollouts = point.n_prompts * point.group_size
        if rollouts > MOST_ROLLOUTS:
            raise ValueError(
                f"{point.point_id} has {rollouts:,} rollouts per step, more than "
                f"{MOST_ROLLOUTS:,}: lower experiment.train.rollouts_per_step (or "
                "prompts_per_step), or the group size"
            )
        budget = train.rollouts_per_step if point.prompts_per_step is None else None
        if budget is not None and budget % point.group_size:
            raise ValueError(
                f"rollouts_per_step={budget} is no multiple of "
                f"group_size={point.group_size}: a step draws whole groups; change one of them"
            )
        if point.n_prompts < train.updates_per_batch:
            raise ValueError(
                f"{point.point_id} has {point.n_prompts} prompts per step but "
                f"updates_per_batch={train.updates_per_batch}: every update needs a prompt; raise "
                "the budget or lower updates_per_batch"
            )
    engine, profile = engines.engine_for(train), declaration.profile
    task = engine.inputs(train).task
    if task is not None:
        warnings += task.notes(train.steps * max(point.n_prompts for point in points))
        _check_holds_enough(task, declaration, points)
        model = engine.inputs(train).model
        if model is not None:
            check_fits(model, task)
    _check_reward(train, task)
    sampling = engines.engine_for_sampler(declaration.experiment.evaluation.sampler)
    for point in points:
        _check_has(engine, point)
        warnings += engine.check(point, profile)
    warnings += sampling.check_evaluation(points[0], profile)
    for name, benchmark in declaration.experiment.evaluation.benchmarks.items():
        for grader in (benchmark.grader, *benchmark.extra_graders):
            grader_version(grader)
        if benchmark.dataset is None and task is None:
            raise ValueError(
                f"benchmark {name} has no dataset and the experiment has no task whose held-out "
                f"problems it could take: set experiment.evaluation.benchmarks.{name}.dataset"
            )
    return warnings


def _check_holds_enough(
    task: TaskSpec, declaration: Declaration, points: Sequence[SweepPoint]
) -> None:
    """ValueError where more problems are asked for than a split of a task has."""
    experiment, generator = declaration.experiment, make_task(task)
    heldout = {
        f"evaluation.benchmarks.{name}.n_problems={benchmark.n_problems}": benchmark.n_problems or 0
        for name, benchmark in experiment.evaluation.benchmarks.items()
        if benchmark.dataset is None
    }
    train = experiment.train
    if train.eval_every:
        heldout[f"train.eval_n_problems={train.eval_n_problems}"] = train.eval_n_problems
    # a problem that comes twice in a step is drawn from with the same seeds, which teaches nothing
    prompts = max(point.n_prompts for point in points)
    training = {f"train has {prompts} prompts per step": prompts}
    if experiment.rare is not None:
        training[f"rare.n_prompts={experiment.rare.n_prompts}"] = experiment.rare.n_prompts
    for split, limits in (("n_heldout", heldout), ("n_train", training)):
        has: int = getattr(generator, split)
        for setting, count in limits.items():
            if count > has:
                field = next((f".{f}" for f in (split, "heldout_fraction") if hasattr(task, f)), "")
                raise ValueError(
                    f"experiment.{setting}, but task {task.name} has {split}={has}: ask for fewer, "
                    f"or change experiment.train.task{field}"
                )


def _check_reward(train: TrainSpec, spec: TaskSpec | None) -> None:
    """ValueError for a function that says nothing of a first problem (those of a dataset are looked
    at when it is there), and for a penalty over more tokens than a response may have."""
    task = None if spec is None else make_task(spec)
    if train.reward is not None and ":" in train.reward and task is not None:
        function.check(train.reward, task.problem(0), is_reward=True)
    elif train.reward is not None and task is not None:
        problem, right = task.problem(0), task.demonstration(0, np.random.default_rng(0))
        if get_grader(train.reward)(problem, right).outcome != "correct":
            raise ValueError(
                f"experiment.train.reward={train.reward} does not call {right!r} correct, which is "
                f"a right response to {problem.problem_id}: it is the grader of another task; null "
                "is that of each problem"
            )
    longest = getattr(train, "response_tokens", None)
    if longest is None and task is not None:
        longest = task.response_length + 1
    buffer = train.overlong_buffer_tokens
    if buffer is not None and longest is not None and buffer > longest:
        raise ValueError(
            f"experiment.train.overlong_buffer_tokens={buffer}, but a response has at most "
            f"{longest} tokens: take fewer, or null for no penalty"
        )


def _check_rewards(engine: Engine, point: SweepPoint) -> None:
    """ValueError for rewards under which the formula of the point's advantage has no meaning: not 0
    and 1, or with a mean below 0."""
    train, advantage = point.train, point.algorithm.advantage
    restriction = restricted(advantage)
    if restriction is None:
        return
    inputs = engine.inputs(train)
    problem = None if inputs.task is None else make_task(inputs.task).problem(0)
    problems = inputs.dataset if problem is None else problem
    judge = train.reward or (None if problems is None else problems.grader)
    if judge is not None and not _allow(restriction, _may_earn(judge, problem)):
        given = f"reward={judge}"
        remedy = "reward to a grader of 0 and 1" if train.reward is None else "reward=null"
    elif train.overlong_buffer_tokens is not None and not _allow(restriction, [-1.0]):
        given = f"overlong_buffer_tokens={train.overlong_buffer_tokens}"
        remedy = "overlong_buffer_tokens=null"
    else:
        return
    raise ValueError(
        f"{point.point_id} has the advantage {advantage}, whose rewards {restriction.rule}, and "
        f"{given} gives others: set experiment.train.{remedy}, or exclude that algorithm"
    )


def _may_earn(judge: str, problem: Problem | None) -> list[float]:
    """Rewards besides 0 and 1 that a grader or function gives, as far as can be known now.

    problem: the first of a task, of which a function that gives no numbers is asked, since it may
    put any reward into a Grade; None: problems that are not there yet.
    """
    if "@" in judge:
        return [-1.0, 0.5]
    if ":" not in judge:
        return [0.5] if is_partial(judge) else []
    if problem is None:
        return []
    responses = [problem.target, ""]
    return [function.grade(judge, problem, text, is_reward=True).earned for text in responses]


def _allow(restriction: Restricted, rewards: list[float]) -> bool:
    """Whether a group of any of these rewards alone keeps the rule."""
    return bool(restriction.allowed(np.array(rewards).reshape(-1, 1)).all())


def _check_has(engine: Engine, point: SweepPoint) -> None:
    """ValueError for an algorithm that asks for what an engine does not have."""
    algorithm = point.algorithm
    for table, field in (
        ("objectives", "objective"),
        ("advantages", "advantage"),
        ("aggregations", "loss_aggregation"),
    ):
        has, name = getattr(engine, table), getattr(algorithm, field)
        if has is not None and name not in has:
            raise ValueError(
                f"{point.point_id} has {field}={name}, and engine {engine.name} has "
                f"{', '.join(has)}: exclude that algorithm, or choose an experiment of another "
                "engine"
            )
    _check_rewards(engine, point)
    if reads_log_probs(algorithm.advantage) and not engine.gives_log_probs:
        raise ValueError(
            f"{point.point_id} has advantage={algorithm.advantage}, which reads the "
            f"log-probabilities of the rollouts, and engine {engine.name} gives none: exclude that "
            "algorithm, or choose an experiment of another engine"
        )
    if carries_state(algorithm.advantage) and not engine.carries_state:
        raise ValueError(
            f"{point.point_id} has advantage={algorithm.advantage}, which carries a state from "
            f"step to step, and engine {engine.name} keeps none: exclude that algorithm, or choose "
            "an experiment of another engine"
        )
    try:
        check_parameters(algorithm.advantage, point.group_size, algorithm.parameters)
    except ValueError as error:
        raise ValueError(
            f"{point.point_id}: {error}; change algorithms.{algorithm.name}.parameters, or leave "
            "the point out"
        ) from error
    if algorithm.dynamic_sampling and has_signal_when_all_are_alike(
        algorithm.advantage, point.group_size, algorithm.parameters
    ):
        raise ValueError(
            f"{point.point_id} has dynamic_sampling, which drops the groups that are all right or "
            f"all wrong, and the advantage {algorithm.advantage} teaches from some of these: set "
            f"algorithms.{algorithm.name}.dynamic_sampling=false"
        )
    for control, description in CONTROLS.items():
        if getattr(algorithm, control) and control not in engine.controls:
            others = [entry.name for entry in engines.all_engines() if control in entry.controls]
            raise ValueError(
                f"{point.point_id} has {description} ({control}), which engine {engine.name} does "
                "not have: exclude that algorithm, or choose an experiment of engine "
                f"{' or '.join(others)}"
            )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a declaration asks for."""

    declaration: Declaration
    points: tuple[SweepPoint, ...]
    stages: tuple[Stage, ...]
    warnings: tuple[str, ...]
    """What may not work out, for a person; each names value, rule and remedy."""
    family: Family
    """The comparisons that are its question."""


def make_plan(declaration: Declaration) -> Plan:
    """Points and stages of a declaration; ValueError where it makes no sense to run it."""
    points = expand(declaration)
    warnings = check(declaration, points)
    planned = Planned(declaration=declaration, points=points)
    for kind in KINDS.values():
        for stage in kind.stages(planned):
            planned.stages[stage.name] = stage
    return Plan(
        declaration=declaration,
        points=points,
        stages=tuple(_with_plugins(declaration, stage) for stage in planned.stages.values()),
        warnings=tuple(dict.fromkeys(warnings)),
        family=family(declaration, points),
    )


def _with_plugins(declaration: Declaration, stage: Stage) -> Stage:
    """A stage that loads the declaration's plug-ins wherever it runs."""
    if not declaration.plugins:
        return stage
    return replace(stage, spec=replace(stage.spec, plugins=tuple(declaration.plugins)))


def plan_record(plan: Plan) -> PlanRecord:
    """The content of plan.json: what a reader needs to find every result without the YAML."""
    declaration = plan.declaration
    looks: dict[str, dict[int, dict[str, Any]]] = {}
    for stage in plan.stages:
        if stage.source is not None and stage.step is not None and KINDS[stage.kind].in_report:
            looks.setdefault(stage.source, {}).setdefault(stage.step, {})[stage.kind] = stage.name
    planned = Planned(declaration=declaration, points=plan.points)

    def point_record(point_id: str, cell: Cell | None, seed: int, train: str) -> PointRecord:
        steps = sorted(looks[train].items())
        return PointRecord(
            point_id=point_id,
            **to_columns(cell),
            seed=seed,
            train=train,
            checkpoints=tuple(CheckpointRecord(step=step, **by_kind) for step, by_kind in steps),
        )

    base_models = [
        point_record(f"base-s{point.seed}", None, point.seed, base_name(point))
        for point in planned.by_seed
    ]
    trained = [
        point_record(point.point_id, point.cell, point.seed, point.point_id)
        for point in plan.points
    ]
    return PlanRecord(
        format=FORMAT,
        sweep=declaration.sweep.name,
        experiment=declaration.experiment.name,
        version=declaration.version,
        points=(*base_models, *trained),
        stages=tuple(map(stage_record, plan.stages)),
    )


def stage_record(stage: Stage) -> StageRecord:
    """A stage as plan.json has it."""
    return StageRecord(
        name=stage.name,
        kind=stage.kind,
        point_id=stage.point_id,
        environment=stage.environment,
        fingerprint=stage.fingerprint,
        target=stage.target,
        needs=stage.needs,
    )
