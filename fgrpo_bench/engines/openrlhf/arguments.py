"""From a point and a placement to the arguments of OpenRLHF: the spec, its flags, and those of a
user.

In: OpenRLHFTrain and where the run goes. Out: the words of OpenRLHF's command line, or a refusal.
Pure. Everything that changes what is computed is passed, whatever OpenRLHF's own default: its
scheduler, betas and weight decay default to other values than the paper's, and defaults change.
OpenRLHF counts prompts in `rollout.batch_size` and samples in `train.batch_size`.

Further flags that an experiment names itself (`experiment.train.extra`) pass through: what a field
of ours sets is refused with that field's name, and what would make a run that is not what it says
with the reason. Whether the installed OpenRLHF knows a flag says openrlhf.flags.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs import (
    DatasetSpec,
    ModelSpec,
    Placement,
    PretrainedSpec,
    PromptSpec,
    SweepPoint,
    TaskSpec,
    TrainSpec,
    WarmupSpec,
)
from fgrpo_bench.specs.base import MOST, STRICT, Positive, PositiveFloat

FlagValue = bool | int | float | str | tuple[int | float | str, ...]


def _joined(nested: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _joined(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", tuple(value) if isinstance(value, list) else value


def _is_word(value: Any) -> bool:
    """Whether a command line can hold a value, and cannot take it for an option."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return re.fullmatch(r"[^\s-]\S*", value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def _flags(nested: Any) -> Any:
    """The flags by name, whether they came as {"ds": {"lora": {"rank": 16}}} or {"ds.lora.rank":
    16}; ValueError for a value that would be no word of a command line, or another option."""
    if not isinstance(nested, dict):
        raise ValueError(f"{nested!r} is no mapping of OpenRLHF's flags to their values")
    flags = dict(sorted(_joined(nested)))
    for name, value in flags.items():
        if not re.fullmatch(r"[a-z]\w*(\.\w+)*", name):
            raise ValueError(
                f"{name!r} is no flag: give its name without dashes, e.g. ds.lora.rank"
            )
        values = value if isinstance(value, tuple) and value else (value,)
        if value is not True and not all(map(_is_word, values)):
            raise ValueError(
                f"{name}={value!r} is no value of a flag: give true for a bare flag, a number, a "
                "word or a list of them, and leave out what is to be off"
            )
    return flags


@dataclass(config=STRICT, frozen=True, kw_only=True)
class OpenRLHFTrain(TrainSpec):
    """A training run by OpenRLHF: on a generated task with a base model of our own (task, model,
    warmup), or on a dataset with a published model (dataset, pretrained)."""

    engine: Literal["openrlhf"]
    """Training engine."""
    task: TaskSpec | None
    """Generated task, else null."""
    model: ModelSpec | None
    """Architecture of a base model that is warmed up on the task, else null."""
    warmup: WarmupSpec | None
    """How that base model is made, else null."""
    dataset: DatasetSpec | None
    """Training problems of a dataset, else null."""
    pretrained: PretrainedSpec | None
    """Published model, else null."""
    prompt: PromptSpec
    """How a problem becomes what the model reads."""
    epochs: Positive
    """Epochs of the run, each of prompts per step * steps / epochs different prompts. Where
    there are more, the next epoch begins with those that were left out."""
    prompt_tokens: Positive
    """Longest prompt; longer ones are left out."""
    response_tokens: Positive
    """Longest response."""
    adam_eps: PositiveFloat
    """AdamW epsilon."""
    eval_dataset: DatasetSpec | None = None
    """Problems of the evaluation during training where a dataset is trained on: its first
    eval_n_problems, with the prompt of training. Null where there is none (eval_every=0), and on a
    generated task, which has held-out problems of its own. Has a default as lr_warmup_steps has."""
    batch_invariant: bool = False
    """Whether vLLM draws rollouts with kernels whose results do not depend on what is drawn beside
    a draw (VLLM_BATCH_INVARIANT), on GPUs. Has a default as lr_warmup_steps has."""
    extra: Annotated[dict[str, FlagValue], BeforeValidator(_flags)] = field(default_factory=dict)
    """Further flags of OpenRLHF by their names without dashes: true is the bare flag, a list is
    several values. None that a field of ours sets (fgrpo_bench.engines.openrlhf.arguments). Has a
    default as lr_warmup_steps has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        generated = {"task": self.task, "model": self.model, "warmup": self.warmup}
        published = {"dataset": self.dataset, "pretrained": self.pretrained}
        given = [name for name, value in (generated | published).items() if value is not None]
        # By names in order: a part of one kind is wrong, and so is a mixture of both.
        if given not in (list(generated), list(published)):
            raise ValueError(
                f"{', '.join(given) or 'nothing'} given: OpenRLHF trains either on a generated "
                "task (task, model, warmup) or on a dataset (dataset, pretrained); give all of one "
                "kind and null for the other"
            )
        if self.dataset is not None and self.eval_every and self.eval_dataset is None:
            raise ValueError(
                f"eval_every={self.eval_every} without eval_dataset: evaluation during training on "
                "a dataset draws on problems of another one; name a file of conf/dataset/ with "
                "+dataset@experiment.train.eval_dataset=<name>, or set eval_every=0"
            )
        if self.task is not None and self.eval_dataset is not None:
            raise ValueError(
                f"eval_dataset={self.eval_dataset.name} with a generated task: evaluation during "
                "training draws on the task's held-out problems; set eval_dataset=null"
            )
        if self.steps % self.epochs:
            raise ValueError(
                f"steps={self.steps} is no multiple of epochs={self.epochs}: every epoch has the "
                "same prompts; change one of them"
            )


FILTERED_EPOCHS = 16
"""Under dynamic sampling a run may pass over its prompts so many times as often before it fails
for want of active groups."""


OPEN = {"algo.advantage.is_correction_level": "off", "actor.aux_loss_coef": 0.0}
"""Flags that no field of ours sets, and what they are unless `extra` names them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of one run that OpenRLHF is told of; absolute."""

    base: Path
    """Folder of the base model."""
    prompts: Path
    """JSONL of training prompts: columns prompt, label."""
    evaluation: Path | None
    """JSONL of the prompts for evaluation during training; None evaluates nothing."""
    states: Path
    """Folder of training states."""
    final: Path
    """Folder of OpenRLHF's own last export, which the driver's checkpoints make superfluous."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batches:
    """What a step of a point is made of."""

    prompts: int
    samples: int
    mini_batch: int
    """Samples of an optimizer step."""
    prompts_per_epoch: int
    """Different prompts of an epoch; see fgrpo_bench.engines.openrlhf.trainer."""
    epochs: int
    """Passes over the prompts that OpenRLHF may make; the driver ends it at the last step."""
    updates: int
    """Optimizer steps of the whole schedule."""


def openrlhf_train(point: SweepPoint) -> OpenRLHFTrain:
    """The training spec of a point of this engine; ValueError for one of another."""
    if not isinstance(point.train, OpenRLHFTrain):
        raise ValueError(f"{point.point_id} has engine={point.train.engine}, not openrlhf")
    return point.train


def batches(point: SweepPoint) -> Batches:
    """Sizes of a point's batches; ValueError where a rollout batch has no whole mini-batches."""
    train = openrlhf_train(point)
    prompts = point.n_prompts
    if prompts % train.updates_per_batch:
        raise ValueError(
            f"{point.point_id} has {prompts} prompts per step, no multiple of "
            f"updates_per_batch={train.updates_per_batch}: OpenRLHF's mini-batches are of one "
            "size; change the budget or updates_per_batch"
        )
    per_epoch = prompts * (train.steps // train.epochs)
    epochs = train.epochs * (FILTERED_EPOCHS if point.algorithm.dynamic_sampling else 1)
    samples = prompts * point.group_size
    mini_batch = samples // train.updates_per_batch
    return Batches(
        prompts=prompts,
        samples=samples,
        mini_batch=mini_batch,
        prompts_per_epoch=per_epoch,
        epochs=epochs,
        updates=per_epoch * point.group_size // mini_batch * epochs,
    )


def warmup_ratio(*, warmup_updates: int, updates: int) -> float:
    """The ratio that OpenRLHF turns back into exactly so many steps: it takes
    ceil(updates * ratio), so the ratio aims half a step below."""
    return max(0.0, warmup_updates - 0.5) / updates


def arguments(
    point: SweepPoint, placement: Placement, files: RunFiles, *, nodes: int, device: str
) -> list[str]:
    """The command line of openrlhf.cli.train_ppo_ray.

    nodes: machines of the run. device: cpu has neither NCCL nor sleep mode.
    """
    flags = [
        *_model(point, placement, files),
        *_machines(placement, nodes=nodes, device=device),
        *_data(point, files),
        *_sampling(point, files),
        *_objective(point),
        *_optimizer(point),
        *_checkpoints(placement, files),
    ]
    return [
        *(text for name, value in flags for text in _texts(name, value)),
        *extra_arguments(openrlhf_train(point)),
    ]


def extra_arguments(train: OpenRLHFTrain) -> list[str]:
    """The end of the command line: `extra`, and OPEN where it says nothing."""
    return [text for name, value in (OPEN | train.extra).items() for text in _texts(name, value)]


Flag = tuple[str, object]
"""A name and its value: True is the bare flag; False and None leave it out."""


def _texts(name: str, value: object) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    values = value if isinstance(value, tuple) else (value,)
    return [f"--{name}", *map(str, values)]


def _model(point: SweepPoint, placement: Placement, files: RunFiles) -> Iterator[Flag]:
    yield "actor.model_name_or_path", files.base
    yield "ds.param_dtype", "bf16"
    yield "ds.attn_implementation", placement.attention
    yield "ds.packing_samples", placement.packing
    yield "actor.gradient_checkpointing_enable", placement.gradient_checkpointing
    yield "train.seed", point.seed


def _machines(placement: Placement, *, nodes: int, device: str) -> Iterator[Flag]:
    for role in ("actor", "ref"):
        yield f"{role}.num_nodes", nodes
        yield f"{role}.num_gpus_per_node", placement.actor_gpus_per_node
    asleep = placement.colocate and device == "cuda"
    yield "train.colocate_all", placement.colocate
    yield "vllm.enable_sleep", asleep
    yield "ds.enable_sleep", asleep
    yield "vllm.num_engines", placement.vllm_engines
    yield "vllm.tensor_parallel_size", placement.vllm_tensor_parallel
    yield "vllm.gpu_memory_utilization", placement.vllm_gpu_memory
    yield "vllm.enforce_eager", placement.vllm_enforce_eager
    yield "vllm.enable_prefix_caching", True
    yield "vllm.sync_backend", "nccl" if device == "cuda" else "gloo"
    yield "ds.zero_stage", placement.zero_stage
    yield "ds.adam_offload", placement.adam_offload
    yield "train.micro_batch_size", placement.train_micro_batch
    yield "rollout.micro_batch_size", placement.rollout_micro_batch
    if placement.max_tokens_per_gpu is not None:
        yield "train.dynamic_batch_enable", True
        yield "train.max_tokens_per_gpu", placement.max_tokens_per_gpu
        yield "rollout.max_tokens_per_gpu", placement.max_tokens_per_gpu


def _data(point: SweepPoint, files: RunFiles) -> Iterator[Flag]:
    train, sizes = openrlhf_train(point), batches(point)
    yield "data.prompt_dataset", files.prompts
    yield "data.prompt_split", "train"  # what a file without splits is loaded as
    yield "data.input_key", "prompt"
    yield "data.label_key", "label"
    yield "data.apply_chat_template", train.prompt.chat_template
    yield "data.max_len", train.prompt_tokens + train.response_tokens
    yield "data.max_samples", MOST  # of any file: --fgrpo.prompts_per_epoch bounds an epoch
    yield "train.num_episodes", sizes.epochs
    yield "train.max_epochs", 1
    yield "train.batch_size", sizes.mini_batch
    yield "rollout.batch_size", sizes.prompts
    yield "rollout.vllm_generate_batch_size", sizes.prompts
    yield "rollout.n_samples_per_prompt", point.group_size


def _sampling(point: SweepPoint, files: RunFiles) -> Iterator[Flag]:
    train = openrlhf_train(point)
    yield "rollout.max_new_tokens", train.response_tokens
    yield "rollout.temperature", train.temperature
    yield "rollout.top_p", 1.0
    yield "eval.dataset", files.evaluation
    yield "eval.split", "train"
    yield "eval.steps", -1 if files.evaluation is None else train.eval_every
    yield "eval.temperature", train.temperature
    yield "eval.n_samples_per_prompt", train.eval_n_samples
    if train.overlong_buffer_tokens is not None:
        yield "reward.overlong_buffer_len", train.overlong_buffer_tokens
        yield "reward.overlong_penalty_factor", 1.0


def _objective(point: SweepPoint) -> Iterator[Flag]:
    algorithm = point.algorithm
    token_mean = algorithm.loss_aggregation == "token_mean"
    yield "algo.advantage.estimator", "group_norm"
    yield "algo.advantage.gamma", 1.0  # the discount of GAE, no focal exponent
    yield "algo.advantage.lambd", 1.0
    yield "actor.policy_loss_type", "ppo"
    yield "actor.eps_clip_low_high", (algorithm.clip_low, algorithm.clip_high)
    yield "actor.loss_agg_mode", "token-mean" if token_mean else "seq-mean-token-mean"
    yield "actor.entropy_coef", algorithm.entropy_coef  # 0 measures it and adds nothing
    yield "algo.kl.init_coef", algorithm.kl_coef
    yield "algo.kl.use_loss", algorithm.kl_coef > 0
    yield "algo.kl.estimator", "k3" if algorithm.kl_coef > 0 else "k1"
    yield "reward.clip_range", (-10, 10)
    if algorithm.dynamic_sampling:
        yield "algo.dynamic_filtering_enable", True
        yield "algo.dynamic_filtering_range", (0, 1)


def _optimizer(point: SweepPoint) -> Iterator[Flag]:
    train = openrlhf_train(point)
    ratio = warmup_ratio(warmup_updates=train.warmup_updates, updates=batches(point).updates)
    yield "actor.optim", "adam"
    yield "actor.adam.lr", point.learning_rate
    yield "actor.adam.betas", (train.beta1, train.beta2)
    yield "actor.adam.eps", train.adam_eps
    yield "actor.adam.weight_decay", train.weight_decay
    yield "actor.lr_scheduler", "constant_with_warmup"
    yield "actor.lr_warmup_ratio", ratio
    yield "actor.max_norm", train.grad_clip


def _checkpoints(placement: Placement, files: RunFiles) -> Iterator[Flag]:
    yield "ckpt.path", files.states
    yield "ckpt.output_dir", files.final
    yield "ckpt.save_steps", placement.state_every
    yield "ckpt.max_num", placement.states_kept
    yield "ckpt.load_enable", True  # where there is nothing to load it starts afresh
    yield "ckpt.best_metric_key", "none"
    yield "logger.logging_steps", 1


TRAIN, PLACEMENT = "experiment.train", "profile.placement"
FIELDS = {
    "actor.model_name_or_path": f"{TRAIN}.pretrained.path",
    "actor.gradient_checkpointing_enable": f"{PLACEMENT}.gradient_checkpointing",
    "actor.num_nodes": "profile.nodes",
    "actor.num_gpus_per_node": f"{PLACEMENT}.actor_gpus_per_node",
    "actor.eps_clip": "clip_low and clip_high of the algorithm",
    "actor.eps_clip_low_high": "clip_low and clip_high of the algorithm",
    "actor.loss_agg_mode": "loss_aggregation of the algorithm",
    "actor.policy_loss_type": "objective of the algorithm",
    "actor.entropy_coef": "entropy_coef of the algorithm",
    "actor.adam.lr": f"{TRAIN}.learning_rate",
    "actor.adam.betas": f"{TRAIN}.beta1 and beta2",
    "actor.adam.eps": f"{TRAIN}.adam_eps",
    "actor.adam.weight_decay": f"{TRAIN}.weight_decay",
    "actor.lr_warmup_ratio": f"{TRAIN}.lr_warmup_steps or lr_warmup_updates",
    "actor.max_norm": f"{TRAIN}.grad_clip",
    "algo.dynamic_filtering_enable": "dynamic_sampling of the algorithm",
    "algo.dynamic_filtering_range": "dynamic_sampling of the algorithm",
    "algo.kl.init_coef": "kl_coef of the algorithm",
    "algo.kl.use_loss": "kl_coef of the algorithm",
    "algo.kl.estimator": "kl_coef of the algorithm",
    "data.prompt_dataset": f"{TRAIN}.dataset",
    "data.apply_chat_template": f"{TRAIN}.prompt.chat_template",
    "data.max_len": f"{TRAIN}.prompt_tokens and response_tokens",
    "data.max_samples": f"{TRAIN}.epochs and prompts_per_step",
    "ds.attn_implementation": f"{PLACEMENT}.attention",
    "ds.packing_samples": f"{PLACEMENT}.packing",
    "ds.enable_sleep": f"{PLACEMENT}.colocate",
    "ds.zero_stage": f"{PLACEMENT}.zero_stage",
    "ds.adam_offload": f"{PLACEMENT}.adam_offload",
    "eval.dataset": f"{TRAIN}.eval_dataset",
    "eval.steps": f"{TRAIN}.eval_every",
    "eval.temperature": f"{TRAIN}.temperature",
    "eval.n_samples_per_prompt": f"{TRAIN}.eval_n_samples",
    "ckpt.save_steps": f"{PLACEMENT}.state_every",
    "ckpt.max_num": f"{PLACEMENT}.states_kept",
    "ref.num_nodes": "profile.nodes",
    "ref.num_gpus_per_node": f"{PLACEMENT}.actor_gpus_per_node",
    "reward.overlong_buffer_len": f"{TRAIN}.overlong_buffer_tokens",
    "reward.overlong_penalty_factor": f"{TRAIN}.overlong_buffer_tokens",
    "rollout.batch_size": f"{TRAIN}.prompts_per_step or rollouts_per_step",
    "rollout.vllm_generate_batch_size": f"{TRAIN}.prompts_per_step or rollouts_per_step",
    "rollout.n_samples_per_prompt": "sweep.grid.group_size",
    "rollout.max_new_tokens": f"{TRAIN}.response_tokens",
    "rollout.temperature": f"{TRAIN}.temperature",
    "rollout.micro_batch_size": f"{PLACEMENT}.rollout_micro_batch",
    "rollout.max_tokens_per_gpu": f"{PLACEMENT}.max_tokens_per_gpu",
    "train.seed": "sweep.grid.seed",
    "train.colocate_all": f"{PLACEMENT}.colocate",
    "train.num_episodes": f"{TRAIN}.epochs",
    "train.max_epochs": f"{TRAIN}.updates_per_batch",
    "train.batch_size": f"{TRAIN}.updates_per_batch",
    "train.micro_batch_size": f"{PLACEMENT}.train_micro_batch",
    "train.dynamic_batch_enable": f"{PLACEMENT}.max_tokens_per_gpu",
    "train.max_tokens_per_gpu": f"{PLACEMENT}.max_tokens_per_gpu",
    "vllm.num_engines": f"{PLACEMENT}.vllm_engines",
    "vllm.tensor_parallel_size": f"{PLACEMENT}.vllm_tensor_parallel",
    "vllm.gpu_memory_utilization": f"{PLACEMENT}.vllm_gpu_memory",
    "vllm.enforce_eager": f"{PLACEMENT}.vllm_enforce_eager",
    "vllm.enable_sleep": f"{PLACEMENT}.colocate",
    "vllm.sync_backend": "profile.device",
}
"""Flags that a field sets, and its name."""

NO_CRITIC = "group-normalised advantages have no critic"
GRADERS = "rewards are the graders' verdicts"
ADAMW = "the optimizer is AdamW with a rate that is constant after its warm-up"
STEPWISE = "rollouts belong to one step"
RANKS = "samples are dealt over as many ranks as the policy has GPUs"
CHECKPOINTS = "states and checkpoints are written by the driver, which resumes from them"
FIXED = {
    "actor.muon": ADAMW,
    "actor.optim": ADAMW,
    "actor.lr_scheduler": ADAMW,
    "actor.min_lr_ratio": ADAMW,
    "algo.advantage.estimator": "advantage of the algorithm chooses it",
    "algo.advantage.gamma": NO_CRITIC,
    "algo.advantage.lambd": NO_CRITIC,
    "algo.advantage.no_std_norm": "it changes nothing of group-normalised advantages",
    "algo.kl.target": "kl_coef of the algorithm is constant",
    "algo.kl.horizon": "kl_coef of the algorithm is constant",
    "ckpt": CHECKPOINTS,
    "critic": NO_CRITIC,
    "data": "prompts are written, ordered and read by the stage",
    "ds.load_in_4bit": "vLLM takes the weights as the policy has them, and no packed ones",
    "ds.param_dtype": "policy and vLLM compute in bf16",
    "ds.ring_attn_head_stride": RANKS,
    "ds.ring_attn_size": RANKS,
    "ds.tensor_parallel_size": RANKS,
    "ds.use_universal_ckpt": CHECKPOINTS,
    "ds.value_head_prefix": NO_CRITIC,
    "eval": "it belongs to the prompt files, which the stage writes",
    "help": "it trains nothing",
    "local_rank": "Ray starts the ranks",
    "logger": "metrics go into the stage's file, and from there to MLflow and the dashboard",
    "reward.clip_range": GRADERS,
    "reward.model_name_or_path": GRADERS,
    "reward.normalize_enable": GRADERS,
    "reward.num_gpus_per_node": GRADERS,
    "reward.num_nodes": GRADERS,
    "reward.offload": GRADERS,
    "reward.remote_url": GRADERS,
    "rollout.top_p": "training samples from the whole distribution, as evaluation does",
    "train.agent_func_path": GRADERS,
    "train.async_enable": STEPWISE,
    "train.async_queue_size": STEPWISE,
    "train.colocate_critic_reward": NO_CRITIC,
    "train.ema_beta": "averaged weights are in no training state: a resumed run would lose them",
    "train.enable_ema": "averaged weights are in no training state: a resumed run would lose them",
    "train.partial_rollout_enable": STEPWISE,
    "use_ms": "models are fetched before anything is submitted",
    "vllm.enable_prefix_caching": "a group's prompt is computed once",
}
"""Flags that no field sets, or all that begin with such a word, and why they are not to be had."""

CORRECTION, LORA = "algo.advantage.is_correction_level", "ds.lora.rank"
NEEDED = {"algo.advantage.is_correction_": CORRECTION, "ds.lora.": LORA}
"""Beginnings of flags, and the one without which they do nothing."""


def check(point: SweepPoint) -> None:
    """ValueError for a further flag that is not to be had; names it, the rule and the remedy."""
    extra = openrlhf_train(point).extra
    for name in extra:
        where = f"{TRAIN}.extra has {name}"
        if name in FIELDS:
            raise ValueError(f"{where}, which {FIELDS[name]} sets: set that, and leave it out here")
        reason = None if name in OPEN else _fixed(name)
        if reason is not None:
            raise ValueError(f"{where}: {reason}; leave it out")
        for beginning, needed in NEEDED.items():
            if name.startswith(beginning) and extra.get(needed) in (None, 0, "off"):
                raise ValueError(
                    f"{where}={extra[name]!r}, which does nothing without {needed}: add that, or "
                    "leave it out"
                )
        is_clip_setting = (
            name.startswith("algo.advantage.is_correction_") or name == "actor.dual_clip"
        )
        objective = point.algorithm.objective
        if objective != "clip" and is_clip_setting:
            raise ValueError(
                f"{where}, which {point.algorithm.name} does not have (objective={objective}): "
                "leave it out, or leave that algorithm out of the grid"
            )


def _fixed(name: str) -> str | None:
    """Why a flag is not to be had; None where it is."""
    while name not in FIXED and "." in name:
        name = name.rpartition(".")[0]
    return FIXED.get(name)


def lora_rank(point: SweepPoint) -> int:
    """Rank of the adapters that are trained in place of all weights; 0 trains all weights."""
    rank = openrlhf_train(point).extra.get(LORA, 0)
    if not isinstance(rank, int) or rank < 1:
        return 0
    return rank
