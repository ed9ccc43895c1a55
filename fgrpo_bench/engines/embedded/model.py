"""A small causal transformer of the Qwen2 architecture, in plain torch: its parameters.

Names and mathematics are those of `transformers.Qwen2ForCausalLM` with tied embeddings, so a saved
checkpoint opens there and gives the same logits. What is computed with them, faster than there,
stands in embedded.passes (training) and embedded.sampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgrpo_bench.engines.embedded.passes import (
    Batch,
    LayerWeights,
    Logits,
    Shape,
    Weights,
)
from fgrpo_bench.engines.embedded.pretrained import NORM_EPSILON
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD
from fgrpo_bench.specs import ModelSpec

if TYPE_CHECKING:
    from fgrpo_bench.tasks import Task

LEAST_POSITIONS = 64
"""Of a model whose task needs fewer."""


def positions(spec: ModelSpec, task: Task) -> int:
    """Those of a model: what it says itself, else what the task's prompts and responses need."""
    needed = task.prompt_length + task.response_length + 1
    return spec.n_positions or max(LEAST_POSITIONS, needed)


def precision(spec: ModelSpec | None, device: str) -> AbstractContextManager[Any]:
    """What a forward pass of training is done in (ModelSpec.autocast); None is one of float32."""
    if spec is None or spec.autocast is None or not device.startswith("cuda"):
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

    @property
    def inputs(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        """Those to queries, keys and values."""
        return self.q_proj, self.k_proj, self.v_proj


class MLP(nn.Module):
    """Gated feed-forward part of one layer."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=False)
        self.up_proj = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=False)
        self.down_proj = nn.Linear(spec.intermediate_size, spec.hidden_size, bias=False)


class Layer(nn.Module):
    """Parameters of one decoder layer."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.self_attn = Attention(spec)
        self.mlp = MLP(spec)
        self.input_layernorm = nn.RMSNorm(spec.hidden_size, eps=NORM_EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(spec.hidden_size, eps=NORM_EPSILON)

    def projections(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of those to queries, keys and values, one below the other."""
        parts = self.self_attn.inputs
        return torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])

    def gates(self) -> Tensor:
        """Weights of the two halves of the MLP's first step, one below the other."""
        return torch.cat([self.mlp.gate_proj.weight, self.mlp.up_proj.weight])


class Decoder(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, spec: ModelSpec, vocabulary_size: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary_size, spec.hidden_size)
        self.layers = nn.ModuleList([Layer(spec) for _ in range(spec.n_layers)])
        self.norm = nn.RMSNorm(spec.hidden_size, eps=NORM_EPSILON)


class Policy(nn.Module):
    """The language model; parameter names equal those of transformers.Qwen2ForCausalLM.

    tied: whether the embedding is the last layer too; ends: the end token and what pads behind it,
    either of which ends a response.
    """

    rotary: Tensor
    order: Tensor
    factor: Tensor

    def __init__(
        self,
        spec: ModelSpec,
        vocabulary_size: int,
        n_positions: int = LEAST_POSITIONS,
        *,
        tied: bool = True,
        ends: tuple[int, int] = (EOS, PAD),
    ) -> None:
        super().__init__()
        self.spec, self.vocabulary_size, self.n_positions = spec, vocabulary_size, n_positions
        self.eos, self.pad = ends
        self.model = Decoder(spec, vocabulary_size)
        self.lm_head = None if tied else nn.Linear(spec.hidden_size, vocabulary_size, bias=False)
        size = spec.hidden_size // spec.n_heads
        self.shape = Shape(heads=spec.n_heads, kv_heads=spec.n_kv_heads, head_size=size)
        frequency = spec.rope_theta ** -(torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(n_positions).float(), frequency)
        rotary = torch.polar(torch.ones_like(angles), angles)
        # Hugging Face's layout rotates column i of a head with column i + d / 2: here they are
        # neighbours, so that a rotation is a product of complex numbers.
        columns = torch.arange(self.shape.rotated + spec.n_kv_heads * size)
        pairs = columns[: self.shape.rotated].view(-1, 2, size // 2).transpose(1, 2)
        order = torch.cat([pairs.flatten(), columns[self.shape.rotated :]])
        factor = torch.ones(len(columns), 1)
        factor[: spec.n_heads * size] = size**-0.5
        repeated = rotary.repeat(1, spec.n_heads + spec.n_kv_heads)
        for name, value in (("rotary", repeated), ("order", order), ("factor", factor)):
            self.register_buffer(name, value, persistent=False)

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

    @property
    def head(self) -> Tensor:
        """Weights of the last layer, [vocabulary, hidden]."""
        return self.model.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    @torch.no_grad()
    def weights(self) -> Weights:
        """What products take, in autocast's type where it is on; to be made anew after an
        update."""
        device = self.rotary.device.type
        on = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if on else torch.float32
        layers = []
        for layer in self.layers:
            qkv, bias = layer.projections()
            qkv = qkv * layer.input_layernorm.weight * self.factor
            gate_up = layer.gates() * layer.post_attention_layernorm.weight
            layers.append(
                LayerWeights(
                    qkv=qkv.index_select(0, self.order).to(dtype),
                    bias=(bias * self.factor[:, 0]).index_select(0, self.order).to(dtype),
                    out=layer.self_attn.o_proj.weight.to(dtype),
                    gate_up=gate_up.to(dtype),
                    down=layer.mlp.down_proj.weight.to(dtype),
                )
            )
        return Weights(
            shape=self.shape,
            embedding=self.model.embed_tokens.weight,
            head=(self.head * self.model.norm.weight).to(dtype),
            layers=tuple(layers),
            rotary=self.rotary,
        )

    @torch.no_grad()
    def gradients(
        self, embedding: Tensor, head: Tensor, layers: Sequence[LayerWeights]
    ) -> list[Tensor]:
        """Of the parameters in their order, from those of `weights`."""
        grad_head = head * self.model.norm.weight
        parts = [embedding + grad_head if self.lm_head is None else embedding]
        back = self.order.argsort()
        for layer, grads in zip(self.layers, layers, strict=True):
            qkv = grads.qkv.float().index_select(0, back) * self.factor
            bias = grads.bias.float().index_select(0, back) * self.factor[:, 0]
            grad_norm = (qkv * layer.projections()[0]).sum(0)
            qkv = qkv * layer.input_layernorm.weight
            gate_up = grads.gate_up.float()
            grad_mlp_norm = (gate_up * layer.gates()).sum(0)
            gate_up = gate_up * layer.post_attention_layernorm.weight
            sizes = [item.out_features for item in layer.self_attn.inputs]
            for weight, bias_part in zip(qkv.split(sizes), bias.split(sizes), strict=True):
                parts += [weight, bias_part]
            parts += [grads.out, *gate_up.chunk(2), grads.down, grad_norm, grad_mlp_norm]
        parts.append((head * self.head).sum(0))
        return parts if self.lm_head is None else [*parts, grad_head]

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits at every position; tokens [B, T] -> [B, T, vocabulary]."""
        return self.completion_logits(tokens[:, :1], F.pad(tokens[:, 1:], (0, 1)))

    def completion_logits(
        self,
        prompts: Tensor,
        completions: Tensor,
        owner: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Logits for every completion token, each prompt and each prefix of its completions going
        through the model once.

        prompts [P, prompt length]; completions [R, length]; owner: int64 [R], the prompt of each,
        None where every prompt has as many, one after the other; mask: bool [R, length], the tokens
        whose logits are wanted, in each row those up to some token; of the others they may be any.
        None wants all. Returns [R, length, vocabulary].
        """
        if owner is None:
            owner = torch.arange(len(prompts), device=prompts.device)
            owner = owner.repeat_interleave(len(completions) // len(prompts))
        batch = Batch(prompts, completions, owner, mask)
        given = self.weights(), self.gradients, batch
        logits: Tensor = Logits.apply(*given, *self.parameters())  # type: ignore[no-untyped-call]
        return F.embedding(batch.of_logits, logits)
