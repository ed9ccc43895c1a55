"""OpenRLHF's policy actor with any objective, seeded updates, exact metrics and whole checkpoints.

PolicyActor takes the place of OpenRLHF's PolicyModelActor, one process per GPU; UpdateTrainer that
of its ActorPPOTrainer within it. With objective=clip the loss is OpenRLHF's own.

LoRA: what leaves a policy with adapters are whole weights, by the base model's own names. OpenRLHF
sends vLLM the adapters beside the base weights, under names that vLLM does not have, and exports
the adapters alone. Here vLLM and the checkpoints get the base weights with the adapters in them,
rounded once to the number type of the weights; training itself goes on without rounding.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deepspeed
import ray
import torch
import torch.distributed
from openrlhf.models.loss import PolicyLoss, aggregate_loss
from openrlhf.models.utils import masked_mean
from openrlhf.trainer.ray import ppo_actor
from openrlhf.utils.distributed_util import torch_dist_barrier_and_cuda_sync
from peft import PeftModel
from peft.tuners.lora import Linear, LoraLayer
from torch import Tensor

from fgrpo_bench.core import registry
from fgrpo_bench.engines.diverged import diverged, named_groups, not_finite
from fgrpo_bench.engines.openrlhf.guards import actor_class
from fgrpo_bench.engines.openrlhf.labels import problem_ids
from fgrpo_bench.engines.openrlhf.states import SAVED
from fgrpo_bench.files.whole import sync_folder

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


class ObjectiveLoss(PolicyLoss):  # type: ignore[misc]
    """An objective of the table in the shape of OpenRLHF's policy loss."""

    def __init__(self, objective: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.objective = registry.entry("objectives", objective)

    def forward(
        self,
        log_probs: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        action_mask: Tensor | None = None,
        rollout_log_probs: Tensor | None = None,
        **normalizers: Any,
    ) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """(loss, share of clipped tokens, KL to the old policy, None, None).

        Inputs [sequences, actions]; normalizers are `aggregate_loss`'s. A token counts as clipped
        only where it has an advantage.
        """
        losses, clipped = self.objective(
            log_probs, old_log_probs, advantages, self.clip_eps_low, self.clip_eps_high
        )
        loss = aggregate_loss(
            losses, action_mask, token_level_loss=self.token_level_loss, **normalizers
        )
        clipped_share = masked_mean((clipped & (advantages != 0)).float(), action_mask, dim=None)
        kl = masked_mean((old_log_probs - log_probs).detach(), action_mask, dim=None)
        return loss, clipped_share, kl, None, None


class UpdateTrainer(ppo_actor.ActorPPOTrainer):  # type: ignore[misc]
    """The updates of one actor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step = 0
        """Of the run, for errors; PolicyActor.seed_step keeps it."""
        objective = self.args.fgrpo.objective
        if objective != "clip":
            low, high = self.args.actor.eps_clip_low_high
            token_mean = self.args.actor.loss_agg_mode == "token-mean"
            self.actor_loss_fn = ObjectiveLoss(objective, low, high, token_level_loss=token_mean)

    def ppo_train(self, kl_ctl: float) -> dict[str, Any]:
        """All updates of a step; OpenRLHF's status, with ours beside it. FloatingPointError where
        this rank's weights are not finite after them."""
        self._grad_norms: list[float] = []
        self._learning_rates: list[float] = []
        status: dict[str, Any] = super().ppo_train(kl_ctl)
        check_weights(self.step, self.actor.model)
        measured = status.pop("_measured_share", 0.0)
        kl, active = status.pop("_rollout_kl", 0.0), status.pop("_active_share", 0.0)
        norms = self._grad_norms
        return status | {
            "rollout_kl": kl / measured if measured else None,
            "clip_fraction": status.get("ppo_clip_ratio", 0.0) / active if active else 0.0,
            "grad_norm": sum(norms) / len(norms) if norms else 0.0,
            "learning_rates": self._learning_rates,
            "optimizer_steps": self.actor.model.global_steps,
        }

    def training_step(
        self,
        experience: Any,
        kl_ctl: float,
        step: int,
        loss_batch_info: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """One micro-batch. Where their sizes differ, OpenRLHF divides its means by the number of
        micro-batches too; what `whole_means` gives instead is exact.

        FloatingPointError where its loss or its gradient norm is not finite.
        """
        engine = self.actor.model
        if self.args.train.dynamic_batch_enable:
            mark_boundary(engine, last=bool(self.replay_buffer.dynamic_optimizer_step[step]))
        done, rate = engine.global_steps, self.actor_scheduler.get_last_lr()[0]
        result: dict[str, Any] = super().training_step(experience, kl_ctl, step, loss_batch_info)
        values = result["metrics"]
        check_update(self.step, values, experience)
        if engine.global_steps > done:
            self._grad_norms.append(float(values["actor_grad_norm"]))
            self._learning_rates.append(float(rate))
        added = update_metrics(experience)
        values.update(added)
        result["weights"].update(dict.fromkeys(added, "token"))
        info = loss_batch_info or {
            "dp_size": engine.dp_world_size,
            "batch_num_tokens": self.replay_buffer.dynamic_batch_num_tokens[step],
            "global_batch_size": self.replay_buffer.dynamic_global_batch_size[step],
        }
        whole_means(result, info, token_mean=self.args.actor.loss_agg_mode == "token-mean")
        return result

    def broadcast_to_vllm(self) -> None:
        """OpenRLHF's, with the adapters of LoRA in the weights that vLLM gets."""
        model = self.actor.model.module
        if not has_adapters(model):
            super().broadcast_to_vllm()
            return
        with merged(model, zero_stage=self.args.ds.zero_stage):
            super().broadcast_to_vllm()


def mark_boundary(engine: Any, *, last: bool) -> None:
    """Tell DeepSpeed whether the micro-batch that comes is the last one of its update.

    With dynamic batches OpenRLHF sets one accumulation step, so that DeepSpeed takes every backward
    for an update of its own and, before ZeRO 3, keeps the gradients of the last one alone.
    """
    engine.set_gradient_accumulation_boundary(last)


def whole_means(result: dict[str, Any], info: dict[str, Any], *, token_mean: bool) -> None:
    """Make policy_loss, kl and entropy of a micro-batch means over that micro-batch, in place.

    OpenRLHF has them as this micro-batch's share of the mean over the update, times dp_size, and
    then averages the shares: too small by the number of micro-batches. Entropy gets that name here.
    result: what ActorPPOTrainer.training_step returns. info: dp_size, batch_num_tokens and
    global_batch_size of the update. token_mean: whether the loss is one over tokens; else it is
    over sequences, as the others never are.
    """
    values, weights, ranks = result["metrics"], result["weights"], info["dp_size"]
    tokens = float(info["batch_num_tokens"]) / ranks / result["num_action_tokens"]
    sequences = float(info["global_batch_size"]) / ranks / result["num_samples"]
    if "entropy_loss" in values:
        values["entropy"] = float(values["entropy_loss"]) * tokens
        weights["entropy"] = "token"
    if "kl" in values and weights["kl"] == "token":
        values["kl"] = float(values["kl"]) * tokens
    scale, weights["policy_loss"] = (tokens, "token") if token_mean else (sequences, "sample")
    values["policy_loss"] = float(values["policy_loss"]) * scale


def check_update(step: int, values: Mapping[str, Any], experience: Any) -> None:
    """FloatingPointError where the loss of a micro-batch or the gradient norm is not finite.

    values: OpenRLHF's metrics of the micro-batch. Named are the samples whose own numbers are not
    finite; where these are, all groups of the micro-batch.
    """
    numbers = {
        "the loss": values["policy_loss"],
        "the gradient norm": values.get("actor_grad_norm"),
    }
    quantity = not_finite({k: None if v is None else float(v) for k, v in numbers.items()})
    if quantity is None:
        return
    is_finite = torch.ones(len(experience.action_mask), dtype=torch.bool)
    for tensor in (experience.action_log_probs, experience.advantages):
        if tensor is not None:
            is_finite &= (tensor.isfinite() | ~experience.action_mask.bool()).all(1).cpu()
    lost = is_finite if bool(is_finite.all()) else ~is_finite
    every = problem_ids(experience.labels, experience.prompts)
    names = [name for name, is_lost in zip(every, lost.tolist(), strict=True) if is_lost]
    raise diverged(step, f"{quantity} of {named_groups(names)}" if names else quantity, saved=SAVED)


def check_weights(step: int, model: torch.nn.Module) -> None:
    """FloatingPointError where a weight is not finite; under ZeRO 3 of those that this rank has."""
    for name, parameter in model.named_parameters():
        if not bool(getattr(parameter, "ds_tensor", parameter).isfinite().all()):
            raise diverged(step, f"a weight of {name}", saved=SAVED)


def update_metrics(experience: Any) -> dict[str, float]:
    """Of a micro-batch, as means over its action tokens.

    _active_share: tokens with an advantage. _measured_share: tokens whose log-probability the
    rollout engine told; _rollout_kl: log pi_rollout - log pi summed over those, an unbiased
    estimate of KL(rollout || policy).
    """
    mask = experience.action_mask.bool()
    tokens = float(mask.sum())
    out = {"_active_share": float(((experience.advantages != 0) & mask).sum()) / tokens}
    if (rollout_log_probs := experience.rollout_log_probs) is not None:
        gap = (rollout_log_probs.float() - experience.action_log_probs.float())[mask]
        gap = gap[gap.isfinite()]
        out |= {"_measured_share": len(gap) / tokens, "_rollout_kl": float(gap.sum()) / tokens}
    return out


class PolicyActor(actor_class(ppo_actor.PolicyModelActor)):  # type: ignore[misc]
    """One rank of the policy."""

    def init_model_from_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """OpenRLHF's, with our UpdateTrainer; ValueError for adapters that cannot be merged."""
        # OpenRLHF makes its updater by this name, in the call below
        ppo_actor.ActorPPOTrainer = UpdateTrainer
        super().init_model_from_pretrained(*args, **kwargs)
        check(self.actor.model.module)

    def seed_step(self, step: int) -> None:
        """Make the shuffling of a step's rollouts a function of seed and step."""
        torch.manual_seed(self.strategy.args.train.seed * 1_000_003 + step)
        self.trainer.step = step + 1

    def export(self, folder: Path) -> None:
        """Write a Hugging Face checkpoint whole or not at all; every rank takes part."""
        aside, first = folder.with_name(f".{folder.name}.tmp"), self.strategy.is_rank_0()
        if first:
            shutil.rmtree(aside, ignore_errors=True)
        args, model = self.strategy.args, self.actor.model.module
        if has_adapters(model):
            export(model, self.tokenizer, aside, zero_stage=args.ds.zero_stage, writes=first)
        else:
            chosen = self.ema_model if args.train.enable_ema else self.actor
            self.strategy.save_model(chosen, self.tokenizer, str(aside))
        if first:
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
            sync_folder(folder.parent)
        torch_dist_barrier_and_cuda_sync()

    def save_model(self) -> None:
        """Nothing: the trainer has exported the last step already."""


PolicyActorRemote = ray.remote(num_gpus=1)(PolicyActor)
