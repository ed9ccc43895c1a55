"""Sampling from a Policy with a key/value cache; every draw follows from its own seed.

A draw takes one uniform number a token from its seed (fgrpo_bench.seeds) and the inverse of the
cumulative distribution, so neither the batch nor the order of draws matters. Draws of a problem
that begin alike share the work: each distinct prefix goes through the model once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fgrpo_bench.engines.embedded.model import SHARED_FROM, KeyValue, Policy, rotate
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD
from fgrpo_bench.seeds import uniforms


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Completions of P prompts, n each; row p * n + j is draw j of prompt p."""

    tokens: Tensor
    """int64 [P * n, length]; padding after the first end or padding token."""
    log_probs: Tensor
    """float32 [P * n, length]; of the sampled tokens, 0 after the end."""
    entropies: Tensor
    """float32 [P * n, length]; of the distributions sampled from, in nats, 0 after the end."""


@torch.no_grad()
def sample(
    policy: Policy,
    prompts: Tensor,
    seeds: NDArray[np.int64],
    *,
    length: int,
    temperature: float,
    max_tokens: int | None = None,
) -> Samples:
    """Draw completions.

    prompts: int64 [P, prompt length]; seeds: [P, n], one a draw; length: most tokens, the end token
    included; max_tokens: prompts are taken in turns of at most so many tokens with their draws, but
    of one prompt at least; None takes all at once.
    """
    at_once = groups_at_once(max_tokens, prompts.shape[1], seeds.shape[1], length)
    if at_once is not None and at_once < len(prompts):
        parts = [
            _sample(policy, prompts[i : i + at_once], seeds[i : i + at_once], length, temperature)
            for i in range(0, len(prompts), at_once)
        ]
        return Samples(**{k: torch.cat([vars(part)[k] for part in parts]) for k in vars(parts[0])})
    return _sample(policy, prompts, seeds, length, temperature)


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
    tokens = torch.full((n_prompts * n, length), PAD, device=device)
    log_probs = torch.zeros(n_prompts * n, length, device=device)
    entropies = torch.zeros(n_prompts * n, length, device=device)
    cache = _Cache(policy, prompts)
    rows = torch.arange(n_prompts * n, device=device)  # draws that go on
    node = rows // n  # where in the cache each of them stands
    for t in range(length):
        scaled = cache.logits.float() / temperature
        logp = torch.log_softmax(scaled, -1)
        p = logp.double().exp()
        threshold = u[rows, t, None] * p.sum(-1)[node, None]
        drawn = (p.cumsum(-1)[node] <= threshold).sum(-1).clamp_(max=logp.shape[1] - 1)
        tokens[rows, t] = drawn
        log_probs[rows, t] = logp[node, drawn]
        entropies[rows, t] = -(p * logp).sum(-1).float()[node]
        going = (drawn != EOS) & (drawn != PAD)
        if t == length - 1 or not bool(going.any()):
            break
        rows = rows[going]
        prefix = node[going] * policy.vocabulary_size + drawn[going]
        distinct, node = torch.unique(prefix, return_inverse=True)
        cache.extend(distinct // policy.vocabulary_size, distinct % policy.vocabulary_size)
    return Samples(tokens=tokens, log_probs=log_probs, entropies=entropies)


class _Cache:
    """Keys and values of all distinct prefixes, and the logits that follow each.

    Those of prompts of SHARED_FROM tokens and more stay where they are, one a prompt.
    """

    def __init__(self, policy: Policy, prompts: Tensor) -> None:
        self.policy, self.used = policy, prompts.shape[1]
        self.prompts: list[KeyValue] = []
        self.kept: list[KeyValue] = []
        self.owner = torch.arange(len(prompts), device=prompts.device)  # prompt of each prefix
        self.fused = [  # the projections, joined once: weights stand still while sampling
            (*layer.joint(), torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]))
            for layer in policy.layers
        ]
        x = policy.model.embed_tokens(prompts)
        rotary = policy.positions(0, self.used)
        for layer in policy.layers:
            q, k, v = layer.project(x, *rotary)
            self.kept.append((k, v))
            if self.used >= SHARED_FROM:
                self.prompts.append((k, v))
                self.kept[-1] = (k[:, :, :0], v[:, :, :0])
            x = layer.finish(x, layer.attend(q, k, v, None, True))
        self.logits = policy.logits(x[:, -1])

    def extend(self, parents: Tensor, tokens: Tensor) -> None:
        """Replace the prefixes by longer ones: prefix i is prefix parents[i] and tokens[i]."""
        policy, end = self.policy, self.used + 1
        cos, sin = policy.positions(self.used, end)
        x = policy.model.embed_tokens(tokens)
        self.owner = self.owner[parents]
        beside = _Beside(self.owner, len(self.prompts[0][0])) if self.prompts else None
        for i, layer in enumerate(policy.layers):
            qkv, bias, gate_up = self.fused[i]
            joint = F.linear(layer.input_layernorm(x), qkv, bias)
            joint = joint.view(len(x), layer.heads + 2 * layer.kv_heads, 1, layer.head_size)
            q, k, v = joint.split([layer.heads, layer.kv_heads, layer.kv_heads], 1)
            k, v = self._append(i, parents, rotate(k, cos, sin), v)
            q = rotate(q, cos, sin)
            if beside is None:
                attended = layer.attend(q, k, v, None, False)
            else:
                attended = beside.attend(q, self.prompts[i], (k, v))
            x = x + layer.self_attn.o_proj(attended.view(len(x), -1))
            gate, up = F.linear(layer.post_attention_layernorm(x), gate_up).chunk(2, -1)
            x = x + layer.mlp.down_proj(F.silu(gate) * up)
        self.used = end
        self.logits = policy.logits(x)

    def _append(self, i: int, parents: Tensor, k: Tensor, v: Tensor) -> KeyValue:
        kept = tuple(
            torch.cat([old.index_select(0, parents), new], 2)
            for old, new in zip(self.kept[i], (k, v), strict=True)
        )
        self.kept[i] = (kept[0], kept[1])
        return self.kept[i]


class _Beside:
    """Which prefixes follow the same prompt, so that their queries meet its keys in one product."""

    def __init__(self, owner: Tensor, n_prompts: int) -> None:
        """owner: the prompt of each prefix, rising."""
        counts = torch.bincount(owner, minlength=n_prompts)
        starts = counts.cumsum(0) - counts
        self.shape = (n_prompts, int(counts.max()))
        self.owner = owner
        self.place = torch.arange(len(owner), device=owner.device) - starts[owner]

    def attend(self, q: Tensor, prompt: KeyValue, own: KeyValue) -> Tensor:
        """Attention of a query a prefix; q [B, heads, 1, head_size], own [B, kv_heads, U,
        head_size] each. Returns [B, heads, head_size]."""
        kv_heads, start = prompt[0].shape[1:3]
        q = q.squeeze(2).unflatten(1, (kv_heads, -1)) * q.shape[-1] ** -0.5
        seen = self._together(q) @ prompt[0].transpose(-1, -2)
        scores = torch.cat([self._apart(seen, q), q @ own[0].transpose(-1, -2)], -1)
        weights = scores.float().softmax(-1).to(own[1].dtype)
        of_prompt = self._together(weights[..., :start]) @ prompt[1]
        attended = self._apart(of_prompt, q) + weights[..., start:] @ own[1]
        return attended.flatten(1, 2)

    def _together(self, rows: Tensor) -> Tensor:
        """[B, kv_heads, times, X] -> [prompts, kv_heads, most prefixes * times, X], 0 elsewhere."""
        placed = rows.new_zeros(*self.shape, *rows.shape[1:])
        placed[self.owner, self.place] = rows
        return placed.transpose(1, 2).flatten(2, 3)

    def _apart(self, rows: Tensor, like: Tensor) -> Tensor:
        """The inverse; like: [B, kv_heads, times, any]."""
        split = rows.unflatten(2, (self.shape[1], like.shape[2])).transpose(1, 2)
        apart: Tensor = split[self.owner, self.place]
        return apart
