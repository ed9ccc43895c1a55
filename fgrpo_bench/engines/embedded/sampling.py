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

from fgrpo_bench.engines.embedded.model import Policy, rotate
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
) -> Samples:
    """Draw completions.

    prompts: int64 [P, prompt length]; seeds: [P, n], one a draw; length: most tokens, the end token
    included.
    """
    n_prompts, n = seeds.shape
    device, start = prompts.device, prompts.shape[1]
    u = torch.from_numpy(uniforms(seeds.reshape(-1), length)).to(device)
    tokens = torch.full((n_prompts * n, length), PAD, device=device)
    log_probs = torch.zeros(n_prompts * n, length, device=device)
    entropies = torch.zeros(n_prompts * n, length, device=device)
    cache = _Cache(policy, prompts, start + length)
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
    """Keys and values of all distinct prefixes, and the logits that follow each."""

    def __init__(self, policy: Policy, prompts: Tensor, end: int) -> None:
        self.policy, self.used, self.end = policy, prompts.shape[1], end
        self.kept: list[tuple[Tensor, Tensor]] = []
        self.fused = [  # the projections, joined once: weights stand still while sampling
            (*layer.joint(), torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]))
            for layer in policy.layers
        ]
        x = policy.model.embed_tokens(prompts)
        rotary = policy.positions(0, self.used)
        for layer in policy.layers:
            q, k, v = layer.project(x, *rotary)
            self.kept.append((k, v))
            x = layer.finish(x, layer.attend(q, k, v, None, True))
        self.logits = policy.logits(x[:, -1])

    def extend(self, parents: Tensor, tokens: Tensor) -> None:
        """Replace the prefixes by longer ones: prefix i is prefix parents[i] and tokens[i]."""
        policy, end = self.policy, self.used + 1
        cos, sin = policy.positions(self.used, end)
        x = policy.model.embed_tokens(tokens)
        for i, layer in enumerate(policy.layers):
            qkv, bias, gate_up = self.fused[i]
            joint = F.linear(layer.input_layernorm(x), qkv, bias)
            joint = joint.view(len(x), layer.heads + 2 * layer.kv_heads, 1, layer.head_size)
            q, k, v = joint.split([layer.heads, layer.kv_heads, layer.kv_heads], 1)
            k, v = self._append(i, parents, rotate(k, cos, sin), v)
            attended = layer.attend(rotate(q, cos, sin), k, v, None, False)
            x = x + layer.self_attn.o_proj(attended.view(len(x), -1))
            gate, up = F.linear(layer.post_attention_layernorm(x), gate_up).chunk(2, -1)
            x = x + layer.mlp.down_proj(F.silu(gate) * up)
        self.used = end
        self.logits = policy.logits(x)

    def _append(self, i: int, parents: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        kept = tuple(
            torch.cat([old.index_select(0, parents), new], 2)
            for old, new in zip(self.kept[i], (k, v), strict=True)
        )
        self.kept[i] = (kept[0], kept[1])
        return self.kept[i]
