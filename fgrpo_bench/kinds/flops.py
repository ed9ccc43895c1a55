"""Floating-point operations of small models over a task's texts: what processors and GPUs are
priced by before anything was measured on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fgrpo_bench.engines.embedded.tokenizer import Tokenizer
from fgrpo_bench.kinds.kind import inputs
from fgrpo_bench.specs import ModelSpec, SweepPoint, TaskSpec, from_dict
from fgrpo_bench.tasks import make_task

ASSUMED = 50e12
"""Operations a second that small products in bfloat16 are taken to reach on a GPU such as an H100:
a twentieth of its 989e12."""
SAMPLED = 256
"""Problems and demonstrations whose mean lengths are taken for those of all."""


def parameters(model: ModelSpec, vocabulary_size: int) -> int:
    """Weights of a model with tied embeddings."""
    width, head = model.hidden_size, model.hidden_size // model.n_heads
    joint = (model.n_heads + 2 * model.n_kv_heads) * head
    layer = joint * (width + 1) + model.n_heads * head * width
    layer += 3 * width * model.intermediate_size + 2 * width
    return model.n_layers * layer + width * vocabulary_size + width


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens of a task's texts."""

    prompt: float
    """The mean of some, likewise below."""
    response: float
    """Of demonstrations, their end included."""
    symbols: int
    """Of the vocabulary, padding and end included."""


@lru_cache
def lengths(spec: TaskSpec) -> Lengths:
    """Those of a task."""
    task = make_task(spec)
    some = range(min(SAMPLED, task.n_train))
    shown = task.demonstrations(some, np.random.default_rng(0))
    return Lengths(
        prompt=float(np.mean([len(problem.prompt) for problem in task.problems(some)])),
        response=float(np.mean([len(example) + 1 for example in shown])),
        symbols=Tokenizer(task.vocabulary).size,
    )


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Operations of a forward pass."""

    prompt: float
    response: float
    """Behind its prompt."""


def forward(model: ModelSpec, task: TaskSpec) -> Forward:
    """Of a model over a task's texts: 2 operations a weight and token and 4 * hidden_size a layer
    and attended token (Kaplan et al., arXiv 2001.08361, table 1)."""
    tokens = lengths(task)
    weights = 2 * parameters(model, model.vocabulary_size or tokens.symbols)
    attended = 4 * model.n_layers * model.hidden_size
    return Forward(
        prompt=tokens.prompt * (weights + attended * tokens.prompt / 2),
        response=tokens.response * (weights + attended * (tokens.prompt + tokens.response / 2)),
    )


def stored_forward(spec: Mapping[str, Any]) -> Forward | None:
    """By the model and the task of a stage's spec; None where it has none of ours."""
    model, task = spec.get("model"), spec.get("task")
    if model is None or task is None:
        return None
    return forward(from_dict(ModelSpec, model), from_dict(TaskSpec, task))


def training(point: SweepPoint) -> float | None:
    """Of the rollouts and updates of a run, each prompt encoded once a group and every group with a
    gradient, so at most, and backward twice as many as forward; None where no model of ours is
    trained."""
    needs = inputs(point)
    if needs.model is None or needs.task is None:
        return None
    once = forward(needs.model, needs.task)
    a_group = once.prompt + point.group_size * once.response
    return 4 * a_group * point.prompts_per_step * point.train.steps
