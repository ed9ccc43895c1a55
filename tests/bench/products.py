"""How long the matrix products of a pass take by themselves: what sampling and updates of the
built-in engine are measured against.

They are the products that the engine makes, of the same shapes and as many; all else that it does
(norms, rotations, softmax, copies, Python) is what they lack of its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from fgrpo_bench.specs import ModelSpec

Product = tuple[Tensor, Tensor, float]
"""Two factors, and how often they are multiplied."""


def of_tokens(model: ModelSpec, tokens: int, times: float = 1.0) -> Iterator[Product]:
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
        yield torch.randn(tokens, into), torch.randn(into, out), layers * times


def of_attention(
    model: ModelSpec, *, prompts: int, prompt: int, rows: int, read: int, shared: bool
) -> Iterator[Product]:
    """Forward, of all layers, in an update: of prompts with themselves, and of rows of which `read`
    tokens are read with their prompt and themselves; shared: their prompts' keys and values are
    read where they are, else copied."""
    size, times = model.hidden_size // model.n_heads, model.n_heads // model.n_kv_heads
    leading = [(model.n_kv_heads, prompts, times * prompt, prompt)]
    if shared:
        leading += [(model.n_kv_heads, prompts, rows // prompts * times * read, prompt)]
        leading += [(model.n_kv_heads, rows, times * read, read)]
    else:
        leading += [(model.n_kv_heads, rows, times * read, prompt + read)]
    for heads, sequences, queries, keys in leading:
        asking, values = (
            torch.randn(heads, sequences, queries, size),
            torch.randn(heads, sequences, keys, size),
        )
        yield asking, values.transpose(2, 3), model.n_layers
        yield torch.randn(heads, sequences, queries, keys), values, model.n_layers


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
