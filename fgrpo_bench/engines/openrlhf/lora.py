"""LoRA: what leaves a policy with adapters are whole weights, by the base model's own names.

OpenRLHF sends vLLM the adapters beside the base weights, under names that vLLM does not have, and
exports the adapters alone. Here vLLM and the checkpoints get the base weights with the adapters in
them, rounded once to the number type of the weights; training itself goes on without rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deepspeed
import torch
from peft import PeftModel
from peft.tuners.lora import Linear, LoraLayer

PREFIX = "base_model.model."
"""What peft puts before the names of the base model."""


def has_adapters(model: torch.nn.Module) -> bool:
    """Whether a policy trains adapters in place of all weights."""
    return isinstance(model, PeftModel)


def check(model: torch.nn.Module) -> None:
    """ValueError for adapters on anything but linear layers, which cannot be merged here."""
    for name, layer in _layers(model).items():
        if not isinstance(layer, Linear):
            raise ValueError(
                f"{name} has an adapter and is no linear layer: leave it out of "
                "ds.lora.target_modules"
            )


def _layers(model: torch.nn.Module) -> dict[str, Any]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLayer)}


@contextmanager
def merged(model: Any, *, zero_stage: int) -> Iterator[None]:
    """While it lasts the adapters are in the base weights, which alone `model.named_parameters()`
    gives, by the base model's names; afterwards all weights are what they were, to the bit.

    Every rank takes part.
    """
    layers = _layers(model)
    kept = {name: _merge(layer, zero_stage) for name, layer in layers.items()}
    model.named_parameters = lambda: _base_parameters(type(model).named_parameters(model))
    try:
        yield
    finally:
        del model.named_parameters
        for name, layer in layers.items():
            weight = layer.get_base_layer().weight
            with _gathered([weight], zero_stage, modifies=True):
                if kept[name] is not None:
                    weight.data.copy_(kept[name])


def _merge(layer: Any, zero_stage: int) -> torch.Tensor | None:
    """Add a layer's adapter to its weight; returns the former weight where this rank restores it.

    peft's own merging puts other tensors in the place of the adapters, which DeepSpeed would miss.
    """
    weight, kept = layer.get_base_layer().weight, None
    (adapter,) = layer.active_adapters
    down, up = layer.lora_A[adapter].weight, layer.lora_B[adapter].weight
    with _gathered([down, up], zero_stage, modifies=False):
        change = layer.scaling[adapter] * (up.detach().float() @ down.detach().float())
        with _gathered([weight], zero_stage, modifies=True):
            if zero_stage < 3 or torch.distributed.get_rank() == 0:
                kept = weight.data.clone()
                weight.data.copy_(weight.data.float() + change)
    return kept


def _gathered(parameters: list[Any], zero_stage: int, *, modifies: bool) -> Any:
    """Whole parameters under ZeRO 3; modifies: whether what rank 0 changes in them stays."""
    return deepspeed.zero.GatheredParameters(
        parameters, modifier_rank=0 if modifies else None, enabled=zero_stage == 3
    )


def _base_parameters(named: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, parameter in named:
        if ".lora_" not in name:
            yield name.removeprefix(PREFIX).replace(".base_layer.", "."), parameter


def export(model: Any, tokenizer: Any, folder: Path, *, zero_stage: int, writes: bool) -> None:
    """Write the model with its adapters merged as a Hugging Face checkpoint.

    Every rank takes part; writes: whether this one has the files.
    """
    state = {}
    with merged(model, zero_stage=zero_stage):
        for name, parameter in model.named_parameters():
            with _gathered([parameter], zero_stage, modifies=False):
                if writes:
                    state[name] = parameter.detach().cpu().clone()
    if writes:
        base = model.get_base_model()
        base.save_pretrained(folder, state_dict=state)
        base.config.to_json_file(folder / "config.json")
        tokenizer.save_pretrained(folder)
