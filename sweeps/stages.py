"""Each kind of stage: what it computes, from which inputs, under which fingerprint.

Pure functions. What a stage computes is frozen in its `spec`, which it reads from its own folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from fgrpo_bench import engines
from fgrpo_bench.graders import grader_version
from fgrpo_bench.specs import (
    DatasetSpec,
    PretrainedSpec,
    SweepPoint,
    TrainSpec,
    to_dict,
)
from fgrpo_bench.specs.fingerprint import (
    dataset_stage,
    evaluation_identity,
    fingerprint,
    model_identity,
    train_identity,
    warmup_identity,
)
from fgrpo_bench.stats.selection import saved_steps

Kind = Literal["fetch", "warmup", "train", "evaluate", "rare", "likelihood"]
Environment = str
Checkpoints = Literal["last", "every"] | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One command of the sweep and what it computes."""

    name: str
    """Folder relative to the sweep's, e.g. `grpo-n8-g0.5-s11`; unique."""
    kind: Kind
    fingerprint: str
    target: dict[str, Any]
    """Layers on top of the fingerprint; see fgrpo_bench.stages.stage.is_done."""
    spec: dict[str, Any]
    """Content of the stage's spec.json."""
    needs: tuple[str, ...]
    """Names of stages that must be done first."""
    point_id: str
    """The point it serves; `base-s<seed>` for a warm-up, its own name for what serves all."""
    environment: Environment
    """Which installation runs it."""


def checkpoint_steps(train: TrainSpec, checkpoints: Checkpoints) -> list[int]:
    """The steps whose checkpoints are evaluated, rising.

    Raises ValueError for a step that leaves no checkpoint.
    """
    saved = saved_steps(steps=train.steps, save_every=train.save_every)
    if checkpoints == "last":
        return saved[-1:]
    if checkpoints == "every":
        return saved
    for step in checkpoints:
        if step not in saved:
            raise ValueError(
                f"checkpoints={list(checkpoints)}, but a run of {train.steps} steps with "
                f"save_every={train.save_every} leaves none at step {step}: choose from "
                f"{', '.join(map(str, saved))}"
            )
    return sorted(set(checkpoints))


def dataset_stage_name(dataset: DatasetSpec) -> str:
    """Name of the stage that fetches a dataset."""
    return f"_data/{dataset.name}"


def base_stage(point: SweepPoint) -> Stage:
    """What makes the base model of a point: a warm-up on its task, or a published model."""
    inputs = engines.of(point.train).inputs(point.train)
    if inputs.pretrained is not None:
        return fetch_stage(
            f"_base/{inputs.pretrained.name}",
            model=inputs.pretrained,
            chat_template=inputs.prompt is not None and inputs.prompt.chat_template,
        )
    assert inputs.task is not None and inputs.model is not None and inputs.warmup is not None
    identity = warmup_identity(
        point.train, task=inputs.task, model=inputs.model, warmup=inputs.warmup, seed=point.seed
    )
    mark = fingerprint(identity)
    return Stage(
        name=f"_warmup/s{point.seed}",
        kind="warmup",
        fingerprint=mark,
        target={},
        spec={
            "kind": "warmup",
            "fingerprint": mark,
            "target": {},
            "identity": identity,
        },
        needs=(),
        point_id=f"base-s{point.seed}",
        environment="base",
    )


def fetch_stage(
    name: str,
    *,
    dataset: DatasetSpec | None = None,
    model: PretrainedSpec | None = None,
    chat_template: bool = False,
) -> Stage:
    """What fetches a dataset or a published model, whichever is given.

    chat_template: whether the model must have one.
    """
    if dataset is not None:
        spec = dataset_stage(dataset)
    else:
        assert model is not None
        identity = model_identity(model)
        spec = {
            "kind": "fetch",
            "fingerprint": fingerprint(identity),
            "target": {},
            "identity": identity,
            "model": to_dict(model),
            "chat_template": chat_template,
        }
    return Stage(
        name=name,
        kind="fetch",
        fingerprint=spec["fingerprint"],
        target={},
        spec=spec,
        needs=(),
        point_id=name,
        environment="base",
    )


def train_stage(point: SweepPoint, base: Stage, datasets: dict[str, Stage]) -> Stage:
    """The training of a point on its base model; datasets: what the plan fetches, by name."""
    identity = train_identity(point)
    mark = fingerprint(identity)
    spec: dict[str, Any] = {
        "kind": "train",
        "fingerprint": mark,
        "target": {},
        "identity": identity,
        "point": to_dict(point),
        "base": os.path.relpath(base.name, point.point_id),
    }
    needs = [base.name]
    inputs = engines.of(point.train).inputs(point.train)
    for key, dataset in (("data", inputs.dataset), ("eval_data", inputs.eval_dataset)):
        if dataset is not None:
            fetched = datasets[dataset.name].name
            spec[key] = os.path.relpath(fetched, point.point_id)
            needs.append(fetched)
    return Stage(
        name=point.point_id,
        kind="train",
        fingerprint=mark,
        target={},
        spec=spec,
        needs=tuple(dict.fromkeys(needs)),
        point_id=point.point_id,
        environment=engines.of(point.train).environment.name,
    )


def evaluation_stage(
    point: SweepPoint, source: Stage, datasets: dict[str, Stage], *, step: int
) -> Stage:
    """The evaluation of a checkpoint of a stage, with the settings of a point."""
    evaluation = point.evaluation
    sampling = evaluation_identity(evaluation, point.train)
    identity = {"sampling": sampling, "source": source.fingerprint, "step": step}
    mark = fingerprint(identity)
    folder = f"{evaluation.name}-{fingerprint(sampling)[:8]}"
    name = f"{source.name}/eval/{folder}/step-{step:05d}"
    target = {
        "n_samples": evaluation.n_samples,
        "ks": list(evaluation.ks),
        "graders": {
            name: grader_version(benchmark.grader)
            for name, benchmark in evaluation.benchmarks.items()
        }
        | {
            f"{name}/{grader}": grader_version(grader)
            for name, benchmark in evaluation.benchmarks.items()
            for grader in benchmark.also
        },
    }
    data = {
        key: datasets[benchmark.dataset.name].name
        for key, benchmark in evaluation.benchmarks.items()
        if benchmark.dataset is not None
    }
    return Stage(
        name=name,
        kind="evaluate",
        fingerprint=mark,
        target=target,
        spec={
            "kind": "evaluate",
            "fingerprint": mark,
            "target": target,
            "identity": identity,
            "evaluation": to_dict(evaluation),
            "data": {key: os.path.relpath(of, name) for key, of in data.items()},
            "source": os.path.relpath(source.name, name),
            "step": step,
        },
        needs=(source.name, *dict.fromkeys(data.values())),
        point_id=source.point_id,
        environment=engines.of_sampler(evaluation.sampler).environment.name,
    )
