"""The pass of training through a Policy, forward and backward, written out in matrix products.

In: prompts, and completions behind them. Out: logits of every completion token, as a tensor of
autograd whose gradient reaches the parameters. What autograd would do node by node stands here in
few operations over all tokens at once; tests hold both against transformers' own model.

Four things are computed once that a plain pass computes often. A prompt goes through the model once
for all its completions, and so does each prefix that some of them share, as in sampling. The first
layer's queries, keys and values, their rotation apart, depend on the token alone: they are
projected once a token of the vocabulary. Of a prompt only the last position goes through the end of
the last layer.

Shapes: P prompts of S tokens, R completions of T tokens, of which T - 1 are read; H heads, K
key/value heads, H / K = times; d the size of a head; `hidden` is H * d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fgrpo_bench.engines.embedded.pretrained import NORM_EPSILON

SHARED_FROM = 64
"""Tokens of a prompt from which on its rows read its keys and values where they are: copying those
of a shorter one to every row is faster."""
WIDTH = 16
"""Keys are filled up to multiples of it: over other widths softmax takes ten times as long."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Of a model."""

    heads: int
    kv_heads: int
    head_size: int

    @property
    def times(self) -> int:
        """Query heads that read the same keys and values."""
        return self.heads // self.kv_heads

    @property
    def rotated(self) -> int:
        """Columns of queries and keys, which come first in a joint projection."""
        return (self.heads + self.kv_heads) * self.head_size


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One layer as products take it: norms folded in, joint projections; of the pass's type but for
    the bias."""

    qkv: Tensor
    """[(H + 2 K) * d, hidden]; queries over the square root of d, and rows of queries and keys so
    ordered that a rotation takes neighbours."""
    bias: Tensor
    """[(H + 2 K) * d]; float32."""
    out: Tensor
    """[hidden, H * d]."""
    gate_up: Tensor
    """[2 * intermediate, hidden]."""
    down: Tensor
    """[hidden, intermediate]."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A model as products take it."""

    shape: Shape
    embedding: Tensor
    """float32 [vocabulary, hidden]."""
    head: Tensor
    """[vocabulary, hidden]; the last norm folded in."""
    layers: tuple[LayerWeights, ...]
    rotary: Tensor
    """complex64 [positions, rotated / 2]; e^(i angle) of every position and pair of columns."""


def normalised(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [tokens, hidden] over its root mean square, and one over that, [tokens, 1]."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    over = norm.square_().div_(x.shape[-1]).add_(NORM_EPSILON).rsqrt_()
    return x * over, over


def _normalised_back(grad: Tensor, y: Tensor, over: Tensor) -> Tensor:
    """Gradient of x from that of y = x * over."""
    return torch.addcmul(grad, y, (grad * y).mean(-1, keepdim=True), value=-1).mul_(over)


def rotate(qkv: Tensor, angles: Tensor) -> Tensor:
    """Rotary position embedding of queries and keys, in place; angles: rows of Weights.rotary."""
    pairs = qkv[:, : 2 * angles.shape[-1]].view(len(qkv), -1, 2)
    torch.view_as_complex(pairs).mul_(angles)
    return qkv


def added(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """x + left @ right.T, in x's float32 whatever the type of the product."""
    if left.dtype == x.dtype:
        return torch.addmm(x, left, right.t())
    return x + left @ right.t()


class SharedPrompts:
    """Which rows stand behind the same prompt, so that their queries meet its keys in one
    product."""

    def __init__(self, owner: Tensor, n_prompts: int) -> None:
        counts = torch.bincount(owner, minlength=n_prompts)
        order = owner.argsort(stable=True)
        starts = (counts.cumsum(0) - counts)[owner[order]]
        self._shape = (n_prompts, int(counts.max()) if len(owner) else 0)
        self._place = torch.empty_like(owner)
        self._place[order] = torch.arange(len(owner), device=owner.device) - starts
        self._place += owner * self._shape[1]

    def together(self, rows: Tensor) -> Tensor:
        """[K, R, Q, X] -> [K, P, most rows * Q, X], 0 where a prompt has fewer."""
        n_prompts, most = self._shape
        placed = rows.new_zeros(rows.shape[0], n_prompts * most, *rows.shape[2:])
        placed.index_copy_(1, self._place, rows)
        return placed.view(rows.shape[0], n_prompts, most * rows.shape[2], rows.shape[3])

    def apart(self, grouped: Tensor, queries: int) -> Tensor:
        """The inverse; queries: Q."""
        n_prompts, most = self._shape
        rows = grouped.view(-1, n_prompts * most, queries, grouped.shape[-1])
        return rows.index_select(1, self._place)


class Batch:
    """Which tokens go through the model, and where they stand.

    prompts: int64 [P, S]; completions: int64 [R, T], of which the last token is not read; owner:
    int64 [R], each one's prompt; mask: bool [R, T], the tokens whose logits are wanted, in each row
    those up to some token; None wants all.

    Completions of a prompt that begin alike share what they have in common: each distinct prefix is
    one token here, and `rows` says which of them every completion is made of.
    """

    def __init__(
        self, prompts: Tensor, completions: Tensor, owner: Tensor, mask: Tensor | None = None
    ) -> None:
        self.prompts = prompts
        (n_prompts, start), n_rows = prompts.shape, len(completions)
        device, read = prompts.device, max(completions.shape[1] - 1, 0)
        inputs, owners = completions[:, :read].cpu().numpy(), owner.cpu().numpy()
        is_target = np.ones((n_rows, read), bool) if mask is None else mask[:, 1:].cpu().numpy()
        order = np.lexsort((*inputs.T[::-1], owners))
        inputs, owners, is_target = inputs[order], owners[order], is_target[order]
        alike = np.logical_and.accumulate(inputs[1:] == inputs[:-1], axis=1)
        alike &= (owners[1:] == owners[:-1])[:, None]
        is_first = is_target.copy()
        is_first[1:] &= ~(alike & is_target[:-1])
        numbers = np.where(is_first, is_first.cumsum().reshape(is_first.shape) - 1, 0)
        prefixes = np.maximum.accumulate(numbers, axis=0) if n_rows else numbers
        prefixes[~is_target] = 0
        kept = is_first.any(axis=1)

        def tensor(values: NDArray[Any]) -> Tensor:
            return torch.from_numpy(values).to(device)

        self.tokens = torch.cat([prompts.flatten(), tensor(inputs[is_first])])
        """All of them, prompts first."""
        counted = torch.arange(start, device=device).repeat(n_prompts)
        self.positions = torch.cat([counted, start + tensor(np.nonzero(is_first)[1])])
        """Of `tokens`."""
        self.rows = tensor(prefixes[kept])
        """int64 [rows, T - 1]; prefixes of each distinct completion, any where it has ended."""
        self.first = tensor(np.flatnonzero(is_first[kept]))
        """int64 [prefixes]; where in `rows` each stands first."""
        self.owner = tensor(owners[kept])
        """int64 [rows]; their prompts."""
        of_logits = np.empty((n_rows, read + 1), np.int64)
        of_logits[order] = np.hstack([owners[:, None], n_prompts + prefixes])
        self.of_logits = tensor(of_logits)
        """int64 [R, T]; where in prompts and prefixes each wanted token's logits are."""
        shares = len(self.rows) > 0 and start >= SHARED_FROM
        self.beside = SharedPrompts(self.owner, n_prompts) if shares else None
        """Where keys and values of prompts are read where they are; None where they are copied."""
        names = torch.arange(n_prompts, device=device)
        self.owned = names[:, None] == self.owner
        """Which rows are each prompt's; bool [P, rows]."""


@lru_cache(maxsize=64)
def _mask(times: int, start: int, queries: int, width: int, device: torch.device) -> Tensor:
    """What is added to scores [times * queries, width]: query i, `times` over, may see the first
    start + i + 1 keys."""
    last_key = torch.arange(start, start + queries).repeat(times)[:, None]
    mask = torch.zeros(times * queries, width)
    return mask.masked_fill_(torch.arange(width) > last_key, float("-inf")).to(device)


class _Attention:
    """Attention of one layer, and its gradient from what it keeps.

    Queries are [K, N, times * Q, d] for N sequences with Q of them, keys and values [2 K, N, keys,
    d], keys first.
    """

    def __init__(self, shape: Shape, batch: Batch, *, last: bool) -> None:
        self.shape, self.batch, self.beside = shape, batch, batch.beside
        self.start, self.read = batch.prompts.shape[1], batch.rows.shape[1]
        self.skipped = self.start - 1 if last else 0
        """First positions of prompts that ask for nothing."""

    def forward(self, qkv: Tensor, dtype: torch.dtype) -> Tensor:
        """qkv: [tokens, (H + 2 K) * d] of the batch, rotated; dtype: of the products. Returns
        [asking tokens, H * d]: of prompts those that are not skipped, then all prefixes."""
        heads, kv_heads, start = self.shape.heads, self.shape.kv_heads, self.start
        at = self.batch.prompts.numel()
        prompt_qkv = self._by_head(qkv[:at], len(self.batch.prompts)).to(dtype).contiguous()
        row_qkv = qkv[at:].index_select(0, self.batch.rows.flatten())
        row_qkv = self._by_head(row_qkv, len(self.batch.rows)).to(dtype).contiguous()
        self.prompt_q = self._folded(prompt_qkv[:heads, :, self.skipped :])
        self.prompt_kv = _filled(prompt_qkv[heads:])
        scores = self.prompt_q @ self.prompt_kv[:kv_heads].transpose(2, 3)
        self.prompt_weights = self._weights(scores, start)
        prompt_values = self.prompt_weights @ self.prompt_kv[kv_heads:]

        self.q = self._folded(row_qkv[:heads])
        if self.beside is None:
            copied = prompt_qkv[heads:].index_select(1, self.batch.owner)
            self.kv = _filled(copied, row_qkv[heads:])
            scores = self.q @ self.kv[:kv_heads].transpose(2, 3)
            self.weights = self._weights(scores, start + self.read)
            row_values = self.weights @ self.kv[kv_heads:]
        else:
            self.kv, kept = row_qkv[heads:], prompt_qkv[heads:]
            self.grouped_q = self.beside.together(self.q)
            scores = self.q.new_zeros(*self.q.shape[:3], filled_up(start + self.read))
            grouped = self.grouped_q @ kept[:kv_heads].transpose(2, 3)
            scores[..., :start] = self.beside.apart(grouped, scores.shape[2])
            self._row_columns(scores)[:] = self.q @ self.kv[:kv_heads].transpose(2, 3)
            self.weights = self._weights(scores, start + self.read)
            self.grouped_weights = self.beside.together(self.weights[..., :start])
            grouped = self.grouped_weights @ kept[kv_heads:]
            row_values = self.beside.apart(grouped, scores.shape[2])
            row_values += self._row_columns(self.weights) @ self.kv[kv_heads:]
        prefix_values = self._by_token(row_values).index_select(0, self.batch.first)
        return torch.cat([self._by_token(prompt_values), prefix_values])

    def backward(self, grad: Tensor) -> Tensor:
        """Gradient of qkv in float32, from that of what `forward` returned."""
        heads, kv_heads, start = self.shape.heads, self.shape.kv_heads, self.start
        n_prompts, n_rows = len(self.batch.prompts), len(self.batch.rows)
        columns = self.shape.rotated + kv_heads * self.shape.head_size
        at = self.batch.prompts.numel()
        by_prompts = torch.empty(at, columns, device=grad.device)
        by_rows = torch.empty(self.batch.rows.numel(), columns, device=grad.device)
        grad_prompts = self._by_head(by_prompts, n_prompts)
        grad_rows = self._by_head(by_rows, n_rows)
        grad_prompts[:heads, :, : self.skipped] = 0.0
        asking = n_prompts * (start - self.skipped)

        grad_values = self._folded(self._by_head(grad[:asking], n_prompts))
        q, kv = _back(grad_values, self.prompt_q, self.prompt_kv, self.prompt_weights)
        grad_prompts[:heads, :, self.skipped :] = self._unfolded(q)
        grad_prompts[heads:] = kv[:, :, :start]

        grad_first = grad.new_zeros(len(by_rows), grad.shape[1])
        grad_first.index_copy_(0, self.batch.first, grad[asking:])
        grad_values = self._folded(self._by_head(grad_first, n_rows))
        if self.beside is None:
            q, kv = _back(grad_values, self.q, self.kv, self.weights)
            grad_rows[heads:] = kv[:, :, start : start + self.read]
            copied = kv.view(*kv.shape[:2], -1)[..., : start * self.shape.head_size]
            summed = torch.bmm(self.batch.owned.to(kv.dtype).expand(len(kv), -1, -1), copied)
            grad_prompts[heads:] += summed.view(len(kv), n_prompts, start, -1)
        else:
            kept = self.prompt_kv[:, :, :start]
            grouped = self.beside.together(grad_values)
            grad_weights = torch.zeros_like(self.weights)
            grouped_weights = grouped @ kept[kv_heads:].transpose(2, 3)
            grad_weights[..., :start] = self.beside.apart(grouped_weights, grad_weights.shape[2])
            self._row_columns(grad_weights)[:] = grad_values @ self.kv[kv_heads:].transpose(2, 3)
            scores = _softmax_back(grad_weights, self.weights)
            grad_prompt, grad_row = (
                self.beside.together(scores[..., :start]),
                self._row_columns(scores),
            )
            grad_prompts[heads : heads + kv_heads] += grad_prompt.transpose(2, 3) @ self.grouped_q
            grad_prompts[heads + kv_heads :] += self.grouped_weights.transpose(2, 3) @ grouped
            grad_rows[heads : heads + kv_heads] = grad_row.transpose(2, 3) @ self.q
            grad_rows[heads + kv_heads :] = (
                self._row_columns(self.weights).transpose(2, 3) @ grad_values
            )
            q = self.beside.apart(grad_prompt @ kept[:kv_heads], grad_row.shape[2])
            q += grad_row @ self.kv[:kv_heads]
        grad_rows[:heads] = self._unfolded(q)
        by_prefixes = _summed(by_rows, self.batch.rows.flatten(), len(self.batch.first))
        return torch.cat([by_prompts, by_prefixes])

    def _weights(self, scores: Tensor, keys: int) -> Tensor:
        """Softmax of the scores of queries of which the last may see so many keys, the one before
        one less, and so on."""
        queries = scores.shape[2] // self.shape.times
        mask = _mask(self.shape.times, keys - queries, queries, scores.shape[3], scores.device)
        return scores.float().add_(mask).softmax(-1).to(scores.dtype)

    def _row_columns(self, scores: Tensor) -> Tensor:
        """The columns of the rows' own keys."""
        return scores[..., self.start : self.start + self.read]

    def _by_head(self, x: Tensor, n: int) -> Tensor:
        """[tokens of n sequences, columns of some heads] -> [heads, n, Q, d]; a view."""
        size = self.shape.head_size
        queries = len(x) // n if n else 0
        return x.view(n, queries, x.shape[1] // size, size).permute(2, 0, 1, 3)

    def _folded(self, q: Tensor) -> Tensor:
        """[H, N, Q, d] -> [K, N, times * Q, d]."""
        times = self.shape.times
        if times == 1:
            return q.contiguous()
        split = q.reshape(self.shape.kv_heads, times, *q.shape[1:])
        return split.transpose(1, 2).flatten(2, 3)

    def _unfolded(self, q: Tensor) -> Tensor:
        """The inverse."""
        times = self.shape.times
        if times == 1:
            return q
        split = q.reshape(*q.shape[:2], times, q.shape[2] // times, q.shape[3])
        return split.transpose(1, 2).flatten(0, 1)

    def _by_token(self, values: Tensor) -> Tensor:
        """[K, N, times * Q, d] -> [N * Q, H * d]."""
        by_token = self._unfolded(values).permute(1, 2, 0, 3)
        heads, size = by_token.shape[2:]
        return by_token.reshape(-1, heads * size)


def filled_up(keys: int) -> int:
    """A width for so many keys that softmax is fast over."""
    return -(-keys // WIDTH) * WIDTH


def _filled(*kv: Tensor) -> Tensor:
    """Keys and values [2 K, N, keys, d], one after the other and filled up with zeros."""
    keys = sum(layer.shape[2] for layer in kv)
    filling = kv[0].new_zeros(1).expand(*kv[0].shape[:2], filled_up(keys) - keys, kv[0].shape[3])
    return torch.cat([*kv, filling], 2)


def _softmax_back(grad: Tensor, weights: Tensor) -> Tensor:
    """Gradient of scores from that of their softmax."""
    grad = grad * weights
    return torch.addcmul(grad, weights, grad.sum(-1, keepdim=True), value=-1)


def _back(d_outputs: Tensor, q: Tensor, kv: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of queries and of keys and values, from that of what the queries have seen."""
    k, v = kv.chunk(2)
    scores = _softmax_back(d_outputs @ v.transpose(2, 3), weights)
    grad_kv = torch.empty_like(kv)
    torch.matmul(scores.transpose(2, 3), q, out=grad_kv[: len(k)])
    torch.matmul(weights.transpose(2, 3), d_outputs, out=grad_kv[len(k) :])
    return scores @ k, grad_kv


class _Layer:
    """One layer's pass, and its gradient from what it keeps.

    places: where each token stands in a table of distinct inputs; None where every token has an
    input of its own, as behind the first layer.
    """

    def __init__(self, weights: LayerWeights, attention: _Attention, places: Tensor | None) -> None:
        self.weights, self.attention, self.places = weights, attention, places

    def forward(self, x: Tensor, inputs: Tensor, angles: Tensor) -> Tensor:
        """x: residual stream, float32 [tokens, hidden]; inputs: x itself, or the table."""
        weights, dtype = self.weights, self.weights.out.dtype
        y, self.over = normalised(inputs)
        self.y = y.to(dtype)
        qkv = torch.addmm(weights.bias, self.y, weights.qkv.t())
        if self.places is not None:
            qkv = qkv.index_select(0, self.places)
        self.seen = self.attention.forward(rotate(qkv.float(), angles), dtype)
        x = added(self._asking(x), self.seen, weights.out)
        y, self.over_mlp = normalised(x)
        self.y_mlp = y.to(dtype)
        self.gate_up = self.y_mlp @ weights.gate_up.t()
        gate, up = self.gate_up.chunk(2, -1)
        self.gate = F.silu(gate)
        self.inner = self.gate * up
        return added(x, self.inner, weights.down)

    def backward(self, grad: Tensor, angles_back: Tensor) -> tuple[Tensor, Tensor, LayerWeights]:
        """From the gradient of what `forward` returned: those of x, of the table (empty where there
        is none: it is counted in x's) and of the weights."""
        weights, dtype = self.weights, self.weights.out.dtype
        low = grad.to(dtype)
        grad_down = low.t() @ self.inner
        gate, up = self.gate_up.chunk(2, -1)
        grad_inner = low @ weights.down
        grad_both = torch.empty_like(self.gate_up)
        grad_gate, grad_up = grad_both.chunk(2, -1)
        torch.mul(grad_inner, self.gate, out=grad_up)
        torch.ops.aten.silu_backward.grad_input(grad_inner.mul_(up), gate, grad_input=grad_gate)
        grad_gate_up = grad_both.t() @ self.y_mlp
        grad = grad + _normalised_back(
            (grad_both @ weights.gate_up).float(), self.y_mlp, self.over_mlp
        )
        low = grad.to(dtype)
        grad_out = low.t() @ self.seen
        qkv = self.attention.backward(low @ weights.out)
        rotate(qkv, angles_back)
        grad = self._all(grad)
        if self.places is not None:
            qkv = _summed(qkv, self.places, len(self.y))
        low = qkv.to(dtype)
        grad_inputs = _normalised_back((low @ weights.qkv).float(), self.y, self.over)
        grad_weights = LayerWeights(
            qkv=low.t() @ self.y,
            bias=qkv.sum(0),
            out=grad_out,
            gate_up=grad_gate_up,
            down=grad_down,
        )
        if self.places is None:
            return grad.add_(grad_inputs), grad_inputs[:0], grad_weights
        return grad, grad_inputs, grad_weights

    def _asking(self, x: Tensor) -> Tensor:
        """The tokens that ask, of all [tokens, hidden]."""
        batch, skipped = self.attention.batch, self.attention.skipped
        if not skipped:
            return x
        at = batch.prompts.numel()
        prompts = x[:at].view(*batch.prompts.shape, -1)[:, skipped:].flatten(0, 1)
        return torch.cat([prompts, x[at:]])

    def _all(self, grad: Tensor) -> Tensor:
        """The inverse, 0 at those that do not."""
        batch, skipped = self.attention.batch, self.attention.skipped
        if not skipped:
            return grad
        n_prompts, start = batch.prompts.shape
        whole = grad.new_zeros(len(batch.tokens), grad.shape[1])
        asking = n_prompts * (start - skipped)
        prompts = whole[: n_prompts * start].view(n_prompts, start, -1)
        prompts[:, skipped:] = grad[:asking].view(n_prompts, start - skipped, -1)
        whole[n_prompts * start :] = grad[asking:]
        return whole


def _summed(rows: Tensor, places: Tensor, size: int) -> Tensor:
    """Sums of the rows of each place; [size, columns]."""
    sums: Tensor = torch.ops.aten.embedding_dense_backward(rows, places, size, -1, False)
    return sums


class _Pass:
    """The whole pass over a batch, and its gradient, once, from what its layers keep until then."""

    def __init__(self, weights: Weights, batch: Batch) -> None:
        self.weights, self.batch, self.tokens = weights, batch, batch.tokens
        self.angles = weights.rotary.index_select(0, batch.positions)
        self.layers: list[_Layer] = []
        self.prompt_kv: list[Tensor] = []
        """Keys and values of prompts in each layer, [2 K, P, filled up, d]."""

    def forward(self, *, keeps: bool) -> Tensor:
        """Logits behind each prompt, then behind each prefix, float32 [P + prefixes, vocabulary];
        keeps: whether what a gradient needs is kept."""
        weights, batch = self.weights, self.batch
        x = weights.embedding.index_select(0, self.tokens)
        last, few = len(weights.layers) - 1, len(weights.embedding) < len(self.tokens)
        for i, layer_weights in enumerate(weights.layers):
            attention = _Attention(weights.shape, batch, last=i == last)
            layer = _Layer(layer_weights, attention, self.tokens if i == 0 and few else None)
            x = layer.forward(x, x if layer.places is None else weights.embedding, self.angles)
            self.prompt_kv.append(attention.prompt_kv)
            if keeps:
                self.layers.append(layer)
        y, self.over = normalised(x)
        self.y = y.to(weights.head.dtype)
        return (self.y @ weights.head.t()).float()

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor, list[LayerWeights]]:
        """From the gradient of the logits: those of the embedding, of the head and of the
        layers."""
        low = grad.to(self.weights.head.dtype)
        grad_head = low.t() @ self.y
        grad = _normalised_back((low @ self.weights.head).float(), self.y, self.over)
        angles_back = self.angles.conj().resolve_conj()
        grad_layers: list[LayerWeights] = []
        while self.layers:  # each layer's share of memory is free for those before it
            grad, grad_table, grad_weights = self.layers.pop().backward(grad, angles_back)
            grad_layers.insert(0, grad_weights)
        grad_embedding = _summed(grad, self.tokens, len(self.weights.embedding))
        if len(grad_table):
            grad_embedding += grad_table
        return grad_embedding, grad_head, grad_layers


def prefill(weights: Weights, prompts: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits behind each prompt, float32 [P, vocabulary], and the keys and values of each layer,
    [2 K, P, S, d]."""
    none = prompts.new_empty(0)
    whole = _Pass(weights, Batch(prompts, none.view(0, 1), none))
    logits = whole.forward(keeps=False)
    return logits, [item[:, :, : prompts.shape[1]] for item in whole.prompt_kv]


Gradients = Callable[[Tensor, Tensor, Sequence[LayerWeights]], list[Tensor]]
"""From those of the embedding, of the head and of the layers to those of a policy's parameters."""


class Logits(torch.autograd.Function):
    """The pass as autograd sees it: from a policy's parameters to logits."""

    @staticmethod
    def forward(
        ctx: Any, weights: Weights, gradients: Gradients, batch: Batch, *parameters: Tensor
    ) -> Tensor:
        """weights: what products take of the parameters; gradients: of these, in their order."""
        with torch.autocast(batch.prompts.device.type, enabled=False):  # it has chosen their type
            whole = _Pass(weights, batch)
            logits = whole.forward(keeps=any(ctx.needs_input_grad))
        ctx.gradients, ctx.whole = (
            gradients,
            whole,
        )  # not the logits, which hold this: a leak each step
        return logits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the parameters."""
        return (None, None, None, *ctx.gradients(*ctx.whole.backward(grads[0])))
