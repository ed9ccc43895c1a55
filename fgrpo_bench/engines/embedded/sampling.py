"""Sampling from a Policy with a key/value cache; every draw follows from its own seed.

A draw takes one uniform number a token from its seed (fgrpo_bench.core.seeds) and the inverse of
the cumulative distribution, so neither the batch nor the order of draws matters. Draws of a problem
that begin alike share the work: each distinct prefix goes through the model once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import uniforms
from fgrpo_bench.engines.embedded.model import Policy
from fgrpo_bench.engines.embedded.passes import (
    SHARED_FROM,
    SharedPrompts,
    added,
    normalised,
    prefill,
    rotate,
)
from fgrpo_bench.engines.embedded.tokenizer import Tokenizer, padded


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Completions of P prompts, n each; row p * n + j is draw j of prompt p."""

    tokens: Tensor
    """int64 [P * n, length]; padding after the first end or padding token."""
    log_probs: Tensor
    """float32 [P * n, length]; of the sampled tokens, 0 after the end."""
    entropies: Tensor
    """float32 [P * n, length]; of the distributions sampled from, in nats, 0 after the end."""


def encode_prompts(
    tokenizer: Tokenizer, problems: Sequence[Problem], most: int
) -> tuple[Tensor, Tensor]:
    """Tokens of prompts, int64 [P, most] with padding behind, and how many each has, int64 [P];
    ValueError for a prompt of more than `most`, or of none."""
    rows = tokenizer.encode([problem.prompt for problem in problems])
    lengths = np.array([len(row) for row in rows])
    if len(wrong := np.flatnonzero((lengths == 0) | (lengths > most))):
        raise ValueError(
            f"the prompt of problem {problems[wrong[0]].problem_id} has {lengths[wrong[0]]} "
            f"tokens, and may have from 1 to {most}: raise prompt_tokens of the training, or "
            "prompt_length of the task where that is not set"
        )
    return torch.from_numpy(padded(rows, most)), torch.from_numpy(lengths)


def by_length(lengths: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Prompts that go through the model together, since they are equally long: their length, and
    which they are of lengths int64 [P]."""
    for length in lengths.unique().tolist():
        yield length, (lengths == length).nonzero()[:, 0]


@torch.no_grad()
def sample(
    policy: Policy,
    prompts: Tensor,
    seeds: NDArray[np.int64],
    *,
    length: int,
    temperature: float,
    max_tokens: int | None = None,
    lengths: Tensor | None = None,
) -> Samples:
    """Draw completions; at temperature 0 of the most likely token each.

    prompts: int64 [P, longest prompt]; seeds: [P, n], one a draw; length: most tokens, the end
    token included; max_tokens: prompts are taken in turns of at most so many tokens with their
    draws, but of one prompt at least; None takes all at once. lengths: int64 [P], tokens of each
    prompt, with anything behind them; None where all have as many.
    """
    n_prompts, n = seeds.shape
    if lengths is None:
        lengths = torch.full((n_prompts,), prompts.shape[1], device=prompts.device)
    turns, parts = [], []
    for size, alike in by_length(lengths):
        at_once = groups_at_once(max_tokens, size, n, length)
        for turn in alike.split(at_once or len(alike)):
            turns.append(turn)
            rows = seeds[turn.cpu().numpy()]
            parts.append(_sample(policy, prompts[turn, :size], rows, length, temperature))
    back = (
        torch.cat(turns).argsort()[:, None] * n + torch.arange(n, device=prompts.device)
    ).ravel()
    together = {name: torch.cat([vars(part)[name] for part in parts]) for name in vars(parts[0])}
    return Samples(**{name: rows[back] for name, rows in together.items()})


def groups_at_once(max_tokens: int | None, prompt: int, n: int, length: int) -> int | None:
    """How many groups of n draws of a length, with their prompts, have at most so many tokens; 1 at
    least, and None without a bound."""
    return None if max_tokens is None else max(1, max_tokens // (prompt + n * length))


def _sample(
    policy: Policy, prompts: Tensor, seeds: NDArray[np.int64], length: int, temperature: float
) -> Samples:
    n_prompts, n = seeds.shape
    device = prompts.device
    u = torch.from_numpy(uniforms(seeds.reshape(-1), length)).to(device)
    tokens = torch.full((n_prompts * n, length), policy.pad, device=device)
    log_probs = torch.zeros(n_prompts * n, length, device=device)
    entropies = torch.zeros(n_prompts * n, length, device=device)
    cache = _Cache(policy, prompts, n_prompts * n, length)
    draws = torch.arange(n_prompts * n, device=device)  # those that go on
    row = draws // n  # where in the cache each of them stands
    for t in range(length):
        logp = torch.log_softmax(cache.logits / (temperature or 1.0), -1)
        p = logp.double().exp()
        if temperature == 0:
            next_tokens = logp.argmax(-1)[row]
        else:
            upto = p.cumsum(-1)
            threshold = u[draws, t] * upto[:, -1][row]
            next_tokens = (upto[row] <= threshold[:, None]).sum(-1).clamp_(max=logp.shape[1] - 1)
        tokens[draws, t] = next_tokens
        log_probs[draws, t] = logp[row, next_tokens]
        entropies[draws, t] = -(p * logp).sum(-1).float()[row]
        going = (next_tokens != policy.eos) & (next_tokens != policy.pad)
        if t == length - 1 or not bool(going.any()):
            break
        draws = draws[going]
        prefix = row[going] * logp.shape[1] + next_tokens[going]
        distinct, which = torch.unique(prefix, return_inverse=True)
        row = cache.extend(distinct // logp.shape[1], distinct % logp.shape[1])[which]
    return Samples(tokens=tokens, log_probs=log_probs, entropies=entropies)


class _Cache:
    """Keys and values of all distinct prefixes, a row each, and the logits that follow each.

    A prefix's first longer one takes its row, and only further ones copy it. Keys and values of
    prompts of SHARED_FROM tokens and more stay where they are, one a prompt.
    """

    def __init__(self, policy: Policy, prompts: Tensor, most_rows: int, length: int) -> None:
        self.weights = policy.weights()
        self.shape, device = self.weights.shape, prompts.device
        n_prompts, self.position = prompts.shape
        self.logits, prompt_kv = prefill(self.weights, prompts)
        self.owner = torch.arange(n_prompts, device=device)  # prompt of each row
        copied = self.position < SHARED_FROM
        self.prompts = [] if copied else prompt_kv
        self.used = self.position if copied else 0
        columns = self.shape.kv_heads * self.shape.head_size
        size = (self.used + length - 1, len(prompt_kv), 2, most_rows, columns)
        self.kept = torch.empty(size, dtype=self.weights.head.dtype, device=device)
        if copied:
            for i, qkv in enumerate(prompt_kv):
                by_key = qkv.unflatten(0, (2, -1)).permute(3, 0, 2, 1, 4)
                self.kept[: self.used, i, :, :n_prompts] = by_key.flatten(3)
        first = self.weights.layers[0]
        inputs, _ = normalised(self.weights.embedding)
        self.first_qkv = torch.addmm(first.bias, inputs.to(first.qkv.dtype), first.qkv.t())

    def extend(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Replace the prefixes by longer ones, of which each is the prefix in row parents[i]
        (rising) and tokens[i]; returns the rows in which they are then."""
        rows = self._moved(parents)
        tokens = torch.empty_like(tokens).index_copy_(0, rows, tokens)
        self.owner = torch.empty_like(parents).index_copy_(0, rows, self.owner[parents])
        prompts = SharedPrompts(self.owner, len(self.prompts[0][0])) if self.prompts else None
        angles = self.weights.rotary[self.position]
        x = self.weights.embedding.index_select(0, tokens)
        for i, layer in enumerate(self.weights.layers):
            if i == 0:
                qkv = self.first_qkv.index_select(0, tokens)
            else:
                y, _ = normalised(x)
                qkv = torch.addmm(layer.bias, y.to(layer.qkv.dtype), layer.qkv.t())
            attended = self._attend(i, rotate(qkv.float(), angles), prompts)
            x = added(x, attended.to(layer.out.dtype), layer.out)
            y, _ = normalised(x)
            gate, up = (y.to(layer.gate_up.dtype) @ layer.gate_up.t()).chunk(2, -1)
            x = added(x, F.silu(gate).mul_(up), layer.down)
        self.position += 1
        self.used += 1
        y, _ = normalised(x)
        self.logits = (y.to(self.weights.head.dtype) @ self.weights.head.t()).float()
        return rows

    def _moved(self, parents: Tensor) -> Tensor:
        """Rows of the longer prefixes, the first ones without a gap, their keys and values copied
        where they are not in their parent's."""
        n = len(parents)
        stays = parents < n
        stays[1:] &= parents[1:] != parents[:-1]
        is_free = torch.ones(n, dtype=torch.bool, device=parents.device)
        is_free[parents[stays]] = False
        rows, others = parents.clone(), ~stays
        rows[others] = is_free.nonzero()[:, 0]
        by_row = self.kept[: self.used].flatten(0, 2)
        by_row.index_copy_(1, rows[others], by_row.index_select(1, parents[others]))
        return rows

    def _attend(self, i: int, qkv: Tensor, shared_prompts: SharedPrompts | None) -> Tensor:
        """What each row's query sees in layer i of all before it and of itself; [rows, H * d]."""
        shape, n, end = self.shape, len(qkv), self.used + 1
        query_size = shape.heads * shape.head_size
        self.kept[self.used, i, :, :n] = qkv[:, query_size:].view(n, 2, -1).transpose(0, 1)
        by_head = (end, n, shape.kv_heads, 1, shape.head_size)
        k, v = (self.kept[:end, i, j, :n].view(by_head) for j in (0, 1))
        q = qkv[:, :query_size].view(n, shape.kv_heads, shape.times, shape.head_size).to(k.dtype)
        scores = (k * q).sum(-1)  # [keys, rows, K, times]
        if shared_prompts is None:
            weights = scores.float().softmax(0).to(v.dtype)
            return (v * weights[..., None]).sum(0).view(n, query_size)
        k_prompts, v_prompts = self.prompts[i].chunk(2)
        grouped = shared_prompts.together(q.transpose(0, 1)) @ k_prompts.transpose(2, 3)
        prompt_scores = shared_prompts.apart(grouped, shape.times).permute(3, 1, 0, 2)
        weights = torch.cat([prompt_scores, scores]).float().softmax(0).to(v.dtype)
        prompt_weights, row_weights = weights.split([len(prompt_scores), end])
        grouped = shared_prompts.together(prompt_weights.permute(2, 1, 3, 0)) @ v_prompts
        attended: Tensor = shared_prompts.apart(grouped, shape.times).transpose(0, 1)
        attended = attended + (v * row_weights[..., None]).sum(0)
        return attended.reshape(n, query_size)
