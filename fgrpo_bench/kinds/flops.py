"""Floating-point operations of small models over a task's texts: what processors and GPUs are
priced by before anything was measured on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fgrpo_bench.engines.embedded.pretrained import read_folder, tokenizer_of
from fgrpo_bench.engines.embedded.tokenizer import Tokenizer
from fgrpo_bench.engines.engine import Inputs
from fgrpo_bench.kinds.kind import inputs
from fgrpo_bench.specs import ModelSpec, SweepPoint, TaskSpec
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
def lengths(spec: TaskSpec, folder: Path | None = None) -> Lengths:
    """Those of a task; folder: of a model whose tokenizer counts, None counts characters."""
    task = make_task(spec)
    some = range(min(SAMPLED, task.n_train))
    prompts = [problem.prompt for problem in task.problems(some)]
    shown = task.demonstrations(some, np.random.default_rng(0))
    tokenizer = Tokenizer(task.vocabulary) if folder is None else tokenizer_of(folder)
    return Lengths(
        prompt=float(np.mean([len(tokens) for tokens in tokenizer.encode(prompts)])),
        response=float(np.mean([len(tokens) + 1 for tokens in tokenizer.encode(shown)])),
        symbols=tokenizer.size,
    )


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Operations of a forward pass."""

    prompt: float
    response: float
    """Behind its prompt."""


def forward(model: ModelSpec, task: TaskSpec, folder: Path | None = None) -> Forward:
    """Of a model over a task's texts: 2 operations a weight and token and 4 * hidden_size a layer
    and attended token (Kaplan et al., arXiv 2001.08361, table 1). folder: as of `lengths`."""
    tokens = lengths(task, folder)
    weights = 2 * parameters(model, model.vocabulary_size or tokens.symbols)
    attended = 4 * model.n_layers * model.hidden_size
    return Forward(
        prompt=tokens.prompt * (weights + attended * tokens.prompt / 2),
        response=tokens.response * (weights + attended * (tokens.prompt + tokens.response / 2)),
    )


def forward_of(needs: Inputs) -> Forward | None:
    """Of what a training begins with; None where it has no model that our own engine computes, or
    whose folder is no longer there."""
    if needs.task is None:
        return None
    if needs.model is not None:
        return forward(needs.model, needs.task)
    assert needs.pretrained is not None
    folder = Path(needs.pretrained.path)
    if not folder.is_dir():
        return None
    read = read_folder(folder)
    return forward(replace(read.spec, vocabulary_size=read.vocabulary_size), needs.task, folder)


def training(point: SweepPoint) -> float | None:
    """Of the rollouts and updates of a run, each prompt encoded once a group and every group with a
    gradient, so at most, and backward twice as many as forward; None where no model of ours is
    trained."""
    once = forward_of(inputs(point))
    if once is None:
        return None
    a_group = once.prompt + point.group_size * once.response
    return 4 * a_group * point.n_prompts * point.train.steps
