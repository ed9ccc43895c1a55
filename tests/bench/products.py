"""How long the matrix products of a pass take by themselves: what sampling and updates of the
built-in engine are measured against.

Products only, of the shapes and as many as the engine makes them; all else that it does (norms,
rotations, softmax, copies, Python) is what they lack of its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from unittest import mock

import torch
from torch import Tensor

from fgrpo_bench.engines.embedded import model as engine
from fgrpo_bench.engines.embedded.passes import Batch
from fgrpo_bench.specs import ModelSpec

Product = tuple[Tensor, Tensor, float]
"""Two factors, and how often they are multiplied."""


@contextmanager
def recorded() -> Iterator[list[Batch]]:
    """The batches of all passes of training inside."""
    batches: list[Batch] = []

    def record(*arguments: Tensor) -> Batch:
        batches.append(Batch(*arguments))
        return batches[-1]

    with mock.patch.object(engine, "Batch", record):
        yield batches


def of_update(model: ModelSpec, batch: Batch) -> tuple[float, float, float]:
    """Forward and twice as many backward: CPU seconds of the products that the engine makes, their
    operations, and CPU seconds of those of a pass that takes each completion by itself, prompts
    once a group as well."""
    (prompts, prompt), (rows, read) = batch.prompts.shape, batch.rows.shape
    attention = of_attention(
        model,
        prompts=prompts,
        prompt=prompt,
        rows=rows,
        read=read,
        shared=batch.beside is not None,
    )
    took, operations = seconds(chain(of_tokens(model, len(batch.tokens)), attention))
    completions = len(batch.of_logits)
    attention = of_attention(
        model, prompts=prompts, prompt=prompt, rows=completions, read=read, shared=False
    )
    plain, _ = seconds(chain(of_tokens(model, prompts * prompt + completions * read), attention))
    return 3 * took, 3 * operations, 3 * plain


def of_tokens(model: ModelSpec, tokens: int) -> Iterator[Product]:
    """Forward, of every layer's weights with so many tokens; the first layer's queries, keys and
    values left out, which the engine looks up."""
    size = model.hidden_size // model.n_heads
    joint = (model.n_heads + 2 * model.n_kv_heads) * size
    hidden, inner = model.hidden_size, model.intermediate_size
    shapes = [(hidden, joint, model.n_layers - 1)]
    shapes += [
        (i, o, model.n_layers) for i, o in ((hidden, hidden), (hidden, 2 * inner), (inner, hidden))
    ]
    for into, out, layers in shapes:
        yield torch.randn(tokens, into), torch.randn(into, out), layers


def of_attention(
    model: ModelSpec, *, prompts: int, prompt: int, rows: int, read: int, shared: bool
) -> Iterator[Product]:
    """Forward, of all layers: of prompts with themselves, and of rows of which `read` tokens are
    read with their prompt and themselves; shared: their prompts' keys and values are read where
    they are, else copied."""
    size, times = model.hidden_size // model.n_heads, model.n_heads // model.n_kv_heads
    leading = [(prompts, times * prompt, prompt)]
    if shared:
        leading += [(prompts, rows // prompts * times * read, prompt), (rows, times * read, read)]
    else:
        leading += [(rows, times * read, prompt + read)]
    for sequences, queries, keys in leading:
        asking = torch.randn(model.n_kv_heads, sequences, queries, size)
        values = torch.randn(model.n_kv_heads, sequences, keys, size)
        yield asking, values.transpose(2, 3), model.n_layers
        yield torch.randn(model.n_kv_heads, sequences, queries, keys), values, model.n_layers


def seconds(products: Iterator[Product], repeats: int = 5) -> tuple[float, float]:
    """CPU seconds that forward products take by themselves, and their operations."""
    total = operations = 0.0
    for left, right, times in products:
        left @ right
        begun = time.process_time()
        for _ in range(repeats):
            left @ right
        total += times * (time.process_time() - begun) / repeats
        operations += times * 2.0 * left.numel() * right.shape[-1]
    return total, operations
