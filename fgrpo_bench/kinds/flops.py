"""Floating-point operations of a training run of a small model: what a GPU is priced by before any
step was measured on one."""

from __future__ import annotations

import numpy as np

from fgrpo_bench.kinds.kind import inputs
from fgrpo_bench.specs import ModelSpec, SweepPoint
from fgrpo_bench.tasks import make_task

ASSUMED = 50e12
"""Operations a second that small products in bfloat16 are taken to reach on a GPU such as an H100:
a twentieth of its 989e12."""
SAMPLED = 256
"""Demonstrations whose mean length is taken for that of a response."""


def parameters(model: ModelSpec, vocabulary_size: int) -> int:
    """Weights of a model with tied embeddings."""
    width, head = model.hidden_size, model.hidden_size // model.n_heads
    joint = (model.n_heads + 2 * model.n_kv_heads) * head
    layer = joint * (width + 1) + model.n_heads * head * width
    layer += 3 * width * model.intermediate_size + 2 * width
    return model.n_layers * layer + width * vocabulary_size + width


def training(point: SweepPoint) -> float | None:
    """Of the rollouts and updates of a run, each prompt encoded once a group and every group with a
    gradient, so at most; None where no model of ours is trained.

    Forward 2 operations a weight and token and 4 * hidden_size a layer and attended token, backward
    twice that (Kaplan et al., arXiv 2001.08361, table 1).
    """
    own = inputs(point)
    if own.model is None or own.task is None:
        return None
    task = make_task(own.task)
    shown = task.demonstrations(range(min(SAMPLED, task.n_train)), np.random.default_rng(0))
    prompt, response = task.prompt_length, float(np.mean([len(each) + 1 for each in shown]))
    symbols = own.model.vocabulary_size or len(task.vocabulary) + 2
    weights = 2 * parameters(own.model, symbols)
    attended = 4 * own.model.n_layers * own.model.hidden_size
    a_prompt = prompt * (weights + attended * prompt / 2)
    a_response = response * (weights + attended * (prompt + response / 2))
    a_group = a_prompt + point.group_size * a_response
    return 4 * a_group * point.prompts_per_step * point.train.steps
