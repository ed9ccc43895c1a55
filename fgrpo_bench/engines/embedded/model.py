"""A small causal transformer of the Qwen2 architecture, in plain torch.

Parameter names and mathematics are those of `transformers.Qwen2ForCausalLM` with tied embeddings,
so a saved checkpoint opens there and gives the same logits. Written out here for the two things
that library does slower: a forward pass that encodes each prompt once for all its completions, and
a sampler (embedded.sampling) over its own key/value cache.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgrpo_bench.specs import ModelSpec

if TYPE_CHECKING:
    from fgrpo_bench.tasks import Task

NORM_EPSILON = 1e-6
KeyValue = tuple[Tensor, Tensor]
LEAST_POSITIONS = 64
"""Of a model whose task needs fewer."""
SHARED_FROM = 64
"""Tokens of a prompt from which on the draws of a group read its keys and values where they are:
copying those of a shorter one to every draw is faster."""


def positions(spec: ModelSpec, task: Task) -> int:
    """Those of a model: what it says itself, else what the task's prompts and responses need."""
    needed = task.prompt_length + task.response_length + 1
    return spec.n_positions or max(LEAST_POSITIONS, needed)


def precision(spec: ModelSpec, device: str) -> AbstractContextManager[Any]:
    """What a forward pass of training is done in (ModelSpec.autocast)."""
    if spec.autocast is None or not device.startswith("cuda"):
        return nullcontext()
    return torch.autocast("cuda", getattr(torch, spec.autocast))


class Attention(nn.Module):
    """Projections of one layer's attention."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        width, head = spec.hidden_size, spec.hidden_size // spec.n_heads
        self.q_proj = nn.Linear(width, spec.n_heads * head)
        self.k_proj = nn.Linear(width, spec.n_kv_heads * head)
        self.v_proj = nn.Linear(width, spec.n_kv_heads * head)
        self.o_proj = nn.Linear(spec.n_heads * head, width, bias=False)


class MLP(nn.Module):
    """Gated feed-forward part of one layer."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=False)
        self.up_proj = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=False)
        self.down_proj = nn.Linear(spec.intermediate_size, spec.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden_size] in and out."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One decoder layer, in the pieces that prefill, decode and training share."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.heads, self.kv_heads = spec.n_heads, spec.n_kv_heads
        self.head_size = spec.hidden_size // spec.n_heads
        self.self_attn = Attention(spec)
        self.mlp = MLP(spec)
        self.input_layernorm = nn.RMSNorm(spec.hidden_size, eps=NORM_EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(spec.hidden_size, eps=NORM_EPSILON)

    def joint(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the projections to queries, keys and values at once."""
        a = self.self_attn
        weight = torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight])
        return weight, torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias])

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, rotated; x [B, T, hidden] -> each [B, heads, T, head_size]."""
        joint = F.linear(self.input_layernorm(x), *self.joint())
        joint = joint.unflatten(-1, (self.heads + 2 * self.kv_heads, self.head_size))
        q, k, v = joint.transpose(1, 2).split([self.heads, self.kv_heads, self.kv_heads], 1)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Residual stream after attention and MLP; attended [B, heads, T, head_size]."""
        x = x + self.self_attn.o_proj(attended.transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

    def attend_after(self, q: Tensor, prompt: KeyValue, own: KeyValue, mask: Tensor) -> Tensor:
        """Attention of completions to their prompt and to themselves, the prompt's keys and values
        not copied.

        q [P, R, heads, T, head_size]: R rows behind each of P prompts; prompt: [P, kv_heads, S,
        head_size] each; own: [P, R, kv_heads, U, head_size] each; mask: bool, which of its own
        tokens each may see, as shape [T, U] broadcasts. Returns q's shape.
        """
        times, scale = self.heads // self.kv_heads, self.head_size**-0.5
        rows, length = q.shape[1], q.shape[3]
        q = q.unflatten(2, (self.kv_heads, times)) * scale
        # [P, kv_heads, R * times * T, head_size] against all keys of the prompt at once
        joined = q.permute(0, 2, 1, 3, 4, 5).flatten(2, 4)
        seen = (joined @ prompt[0].transpose(-1, -2)).unflatten(2, (rows, times, length))
        seen = seen.permute(0, 2, 1, 3, 4, 5)
        among = q @ own[0].unsqueeze(3).transpose(-1, -2)
        among = among.masked_fill(~mask, float("-inf"))
        weights = torch.cat([seen, among], -1).float().softmax(-1).to(q.dtype)
        to_prompt, to_own = weights.split([prompt[0].shape[2], own[0].shape[3]], -1)
        of_prompt = to_prompt.permute(0, 2, 1, 3, 4, 5).flatten(2, 4) @ prompt[1]
        of_prompt = of_prompt.unflatten(2, (rows, times, length)).permute(0, 2, 1, 3, 4, 5)
        attended: Tensor = of_prompt + to_own @ own[1].unsqueeze(3)
        return attended.flatten(2, 3)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Scaled dot-product attention with grouped key/value heads."""
        grouped = self.heads != self.kv_heads
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped
        )


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding; x [B, heads, T, head_size], cos and sin [T, head_size]."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Decoder(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, spec: ModelSpec, vocabulary_size: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary_size, spec.hidden_size)
        self.layers = nn.ModuleList([Layer(spec) for _ in range(spec.n_layers)])
        self.norm = nn.RMSNorm(spec.hidden_size, eps=NORM_EPSILON)


class Policy(nn.Module):
    """The language model; parameter names equal those of transformers.Qwen2ForCausalLM."""

    cos: Tensor
    sin: Tensor

    def __init__(
        self, spec: ModelSpec, vocabulary_size: int, n_positions: int = LEAST_POSITIONS
    ) -> None:
        super().__init__()
        self.spec, self.vocabulary_size, self.n_positions = spec, vocabulary_size, n_positions
        self.model = Decoder(spec, vocabulary_size)
        head = spec.hidden_size // spec.n_heads
        frequency = spec.rope_theta ** -(torch.arange(0, head, 2).float() / head)
        angles = torch.outer(torch.arange(n_positions).float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    @property
    def layers(self) -> list[Layer]:
        """The decoder layers, typed."""
        return [layer for layer in self.model.layers if isinstance(layer, Layer)]

    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights: normal, scaled by fan-in, residual branches damped, biases 0."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() < 2:
                    parameter.fill_(0.0 if name.endswith("bias") else 1.0)
                    continue
                embedding = name.endswith("embed_tokens.weight")
                scale = 0.02 if embedding else 1 / math.sqrt(parameter.shape[1])
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                parameter.normal_(generator=generator).mul_(0.3 * scale if residual else scale)

    def logits(self, x: Tensor) -> Tensor:
        """Next-token logits from the residual stream; [..., hidden] -> [..., vocabulary]."""
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)

    def positions(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Rows of the rotary table."""
        return self.cos[start:end], self.sin[start:end]

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits at every position; tokens [B, T] -> [B, T, vocabulary]."""
        x = self.model.embed_tokens(tokens)
        rotary = self.positions(0, tokens.shape[1])
        for layer in self.layers:
            q, k, v = layer.project(x, *rotary)
            x = layer.finish(x, layer.attend(q, k, v, None, True))
        return self.logits(x)

    def completion_logits(self, prompts: Tensor, completions: Tensor, group_size: int) -> Tensor:
        """Logits for every completion token, each prompt encoded once for its whole group.

        prompts [P, prompt length]; completions [P * group_size, length], row p * group_size + j
        belongs to prompt p. Returns [P * group_size, length, vocabulary].
        """
        start, length = prompts.shape[1], completions.shape[1]
        end = start + length - 1
        shared = self.model.embed_tokens(prompts)
        own = self.model.embed_tokens(completions[:, :-1])
        mask = torch.ones(length - 1, end, dtype=torch.bool, device=prompts.device).tril(start)
        at_prompt, at_completion = self.positions(0, start), self.positions(start, end)
        for i, layer in enumerate(self.layers):
            q, k, v = layer.project(shared, *at_prompt)
            q_own, k_own, v_own = layer.project(own, *at_completion)
            if start >= SHARED_FROM:
                q_own, k_own, v_own = (
                    each.unflatten(0, (len(prompts), group_size)) for each in (q_own, k_own, v_own)
                )
                attended = layer.attend_after(q_own, (k, v), (k_own, v_own), mask[:, start:])
                own = layer.finish(own, attended.flatten(0, 1))
            else:
                keys = torch.cat([k.repeat_interleave(group_size, 0), k_own], 2)
                values = torch.cat([v.repeat_interleave(group_size, 0), v_own], 2)
                own = layer.finish(own, layer.attend(q_own, keys, values, mask, False))
            if i == len(self.layers) - 1:  # only the last prompt position predicts a token
                attended = layer.attend(q[:, :, -1:], k, v, None, False)
                shared = layer.finish(shared[:, -1:], attended)
            else:
                shared = layer.finish(shared, layer.attend(q, k, v, None, True))
        first = self.logits(shared).repeat_interleave(group_size, 0)
        return torch.cat([first, self.logits(own)], 1)
