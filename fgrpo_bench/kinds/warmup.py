"""warmup: the base model of a training seed, warmed up on demonstrations of a generated task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fgrpo_bench.core import registry
from fgrpo_bench.engines.embedded import kernels
from fgrpo_bench.engines.embedded.tokenizer import Tokenizer
from fgrpo_bench.kinds.kind import (
    Kind,
    Planned,
    Stage,
    base_name,
    by_module,
    make_stage,
    training_inputs,
)
from fgrpo_bench.specs import ModelSpec, SweepPoint, TaskSpec, to_dict
from fgrpo_bench.specs.fingerprint import defining, model_fields
from fgrpo_bench.specs.stored import WarmupStageSpec
from fgrpo_bench.tasks import make_task

NAME = "warmup"
VERSION = 2
"""Raised when the same spec is warmed up to other weights."""
PROGRAM = "fgrpo_bench.engines.embedded"
"""Its command, whichever engine trains from there."""
MOST_PARAMETERS = 2 * 10**10
"""Of a model that is trained here, which is on one device: in float32 with its gradient and AdamW's
two averages a parameter takes 16 bytes, so these take 320 GB, more than any GPU has."""
OPTIMIZER = ("beta1", "beta2", "grad_clip")


def identity(point: SweepPoint) -> dict[str, Any]:
    """What defines the base model of a point's seed."""
    needs = training_inputs(point)
    assert needs.task is not None and needs.model is not None and needs.warmup is not None
    return {
        "recipe_version": VERSION,
        "task": defining(needs.task),
        "model": model_fields(needs.model),
        "warmup": defining(needs.warmup),
        **defining(point.train, OPTIMIZER),
        "seed": point.seed,
        "kernels": kernels.NAME,
    } | registry.identity(tasks=needs.task.name)


def stages(planned: Planned) -> Iterator[Stage]:
    """One for each seed; none where a published model is trained."""
    for point in planned.by_seed:
        if training_inputs(point).pretrained is None:
            yield stage(point)


def stage(point: SweepPoint) -> Stage:
    """The warm-up of a point's seed."""
    dumped = to_dict(point.train)
    return make_stage(
        WarmupStageSpec,
        NAME,
        base_name(point),
        identity(point),
        point_id=f"base-s{point.seed}",
        seed=point.seed,
        **{name: dumped[name] for name in ("task", "model", "warmup", *OPTIMIZER)},
    )


def check_fits(model: ModelSpec, task: TaskSpec) -> None:
    """ValueError for a model that a task's prompts and responses do not fit into, or that fits into
    no device's memory itself."""
    generator = make_task(task)
    longest = generator.prompt_length + generator.response_length + 1
    symbols = _symbols(task)
    if model.n_positions is not None and model.n_positions < longest:
        raise ValueError(
            f"n_positions={model.n_positions} of the model, but task {task.name} has prompts of "
            f"{generator.prompt_length} tokens and with a response up to {longest}: the positions "
            "end before them; raise n_positions, or leave it out"
        )
    if model.vocabulary_size is not None and model.vocabulary_size < symbols:
        raise ValueError(
            f"vocabulary_size={model.vocabulary_size} of the model, but task {task.name} needs "
            f"{symbols} tokens, padding and end included: raise it, or leave it out"
        )
    weights = parameters(model, task)
    if weights > MOST_PARAMETERS:
        raise ValueError(
            f"hidden_size={model.hidden_size}, n_layers={model.n_layers} and intermediate_size="
            f"{model.intermediate_size} make a model of {weights:,} parameters, more than "
            f"{MOST_PARAMETERS:,}: its training would take {16 * weights / 1e9:,.0f} GB of one "
            "device; lower one of them"
        )


def parameters(model: ModelSpec, task: TaskSpec) -> int:
    """Weights of a model with tied embeddings, of a task's symbols where it names no vocabulary."""
    width, head = model.hidden_size, model.hidden_size // model.n_heads
    joint = (model.n_heads + 2 * model.n_kv_heads) * head
    layer = joint * (width + 1) + model.n_heads * head * width
    layer += 3 * width * model.intermediate_size + 2 * width
    symbols = model.vocabulary_size or _symbols(task)
    return model.n_layers * layer + width * symbols + width


def _symbols(task: TaskSpec) -> int:
    """Of a task's vocabulary, padding and end included."""
    return Tokenizer(make_task(task).vocabulary).size


KIND = Kind(
    name=NAME,
    noun="warm-up",
    stages=stages,
    command=by_module(PROGRAM),
    comes_first=True,
    rerun_hint="trains it again from its start, since only training makes it",
)
