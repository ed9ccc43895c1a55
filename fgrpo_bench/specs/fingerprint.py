"""Identity: the hash of what defines a result, and nothing else.

The git commit, the profile, library versions and paths are recorded elsewhere, never hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from fgrpo_bench import doors
from fgrpo_bench.specs import (
    DatasetSpec,
    EvalSpec,
    ModelSpec,
    PretrainedSpec,
    PromptSpec,
    SweepPoint,
    TaskSpec,
    TrainSpec,
    WarmupSpec,
    to_dict,
)

RECIPE_VERSION = 1
"""Raised when an objective, a task or the engine changes what the same spec computes."""

DATA_VERSION = 2
"""Raised when a dataset's rules make another table of the same spec."""

SEED_SCHEME = "splitmix64-1"
"""How a draw's own seed comes from (seed, problem_id, draw); see fgrpo_bench.seeds."""


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, no nan: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(identity: Any) -> str:
    """sha256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def warmup_identity(
    train: TrainSpec, *, task: TaskSpec, model: ModelSpec, warmup: WarmupSpec, seed: int
) -> dict[str, Any]:
    """What defines a base model that is warmed up on a task."""
    return {
        "recipe_version": RECIPE_VERSION,
        "task": to_dict(task),
        "model": to_dict(model),
        "warmup": to_dict(warmup),
        "beta1": train.beta1,
        "beta2": train.beta2,
        "grad_clip": train.grad_clip,
        "seed": seed,
    } | doors.identity(tasks=task.name)


def model_identity(model: PretrainedSpec) -> dict[str, Any]:
    """What defines a published base model."""
    return {"recipe_version": RECIPE_VERSION, "path": model.path, "revision": model.revision}


def dataset_identity(dataset: DatasetSpec) -> dict[str, Any]:
    """What changes a dataset's table, apart from the bytes of its source."""
    fields = to_dict(dataset)
    del fields["expected_rows"], fields["exact_rows"]
    brought = doors.identity(layouts=dataset.layout, graders=dataset.grader)
    return {"data_version": DATA_VERSION} | fields | brought


LATER: dict[str, Any] = {
    "lr_warmup_steps": None,
    "eval_dataset": None,
    "extra": {},
    "advantage": "grpo",
}
"""Fields that training specs and algorithms did not always have, with the value that says what was
so before: it is no part of an identity, so that this is the same as it was."""


def train_identity(point: SweepPoint) -> dict[str, Any]:
    """What defines a training run: the cell, the seed and the whole training spec."""
    return {
        "recipe_version": RECIPE_VERSION,
        "algorithm": _said(to_dict(point.algorithm)),
        "group_size": point.group_size,
        "focal_gamma": point.focal_gamma,
        "seed": point.seed,
        "train": _said(to_dict(point.train)),
    } | doors.identity(
        engines=point.train.engine,
        objectives=point.algorithm.objective,
        advantages=point.algorithm.advantage,
        tasks=task_name(doors.entry("engines", point.train.engine).inputs(point.train).task),
    )


def task_name(task: TaskSpec | None) -> str | None:
    """Of a task; None where there is none."""
    return None if task is None else task.name


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in LATER or value != LATER[key]}


def dataset_stage(dataset: DatasetSpec) -> dict[str, Any]:
    """The spec of the stage that fetches a dataset, whoever runs it."""
    identity = dataset_identity(dataset)
    return {
        "kind": "fetch",
        "fingerprint": fingerprint(identity),
        "target": {},
        "identity": identity,
        "dataset": to_dict(dataset),
    }


def evaluation_identity(evaluation: EvalSpec, train: TrainSpec) -> dict[str, Any]:
    """What changes a draw, apart from the weights; n_samples, ks and graders do not."""
    inputs = doors.entry("engines", train.engine).inputs(train)
    return sampling_identity(
        evaluation,
        task=inputs.task,
        prompt=inputs.prompt,
        prompt_tokens=inputs.prompt_tokens,
        response_tokens=inputs.response_tokens,
    )


def sampling_identity(
    evaluation: EvalSpec,
    *,
    task: TaskSpec | None,
    prompt: PromptSpec | None,
    prompt_tokens: int | None,
    response_tokens: int | None,
) -> dict[str, Any]:
    """The same without a training run; all but the first are None for the embedded engine."""
    return {
        "recipe_version": RECIPE_VERSION,
        "sampler": evaluation.sampler,
        "task": None if task is None else to_dict(task),
        "prompt": None if prompt is None else to_dict(prompt),
        "prompt_tokens": prompt_tokens,
        "response_tokens": response_tokens,
        "benchmarks": {
            name: benchmark_identity(evaluation, name) for name in evaluation.benchmarks
        },
        "temperature": evaluation.temperature,
        "top_p": evaluation.top_p,
        "dtype": evaluation.dtype,
        "seed": evaluation.seed,
        "seed_scheme": SEED_SCHEME,
    } | doors.identity(tasks=task_name(task))


def benchmark_identity(evaluation: EvalSpec, name: str) -> dict[str, Any]:
    """What changes a draw on one benchmark: its problems, and its prompt where it has an own."""
    benchmark, prompt = evaluation.benchmarks[name], evaluation.prompt_of(name)
    return {
        "dataset": benchmark.dataset and dataset_identity(benchmark.dataset),
        "n_problems": benchmark.n_problems,
    } | ({} if prompt is None else {"prompt": to_dict(prompt)})


def differences(old: Any, new: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(field, old value, new value) for every leaf in which two identities differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            path = f"{prefix}.{key}" if prefix else key
            yield from differences(old.get(key), new.get(key), path)
    elif old != new:
        yield prefix, old, new
