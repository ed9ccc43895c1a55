"""From a point and a placement to the arguments of OpenRLHF: pure functions.

Everything that changes what is computed is passed, whatever OpenRLHF's own default: its scheduler,
betas and weight decay default to other values than the paper's, and defaults change. OpenRLHF
counts prompts in `rollout.batch_size` and samples in `train.batch_size`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.engines.openrlhf.spec import OpenRLHFTrain
from fgrpo_bench.specs import Placement, SweepPoint
from fgrpo_bench.specs.base import MOST

FILTERED_EPOCHS = 16
"""Under dynamic sampling a run may pass over its prompts so many times as often before it fails
for want of active groups."""


OPEN = {"algo.advantage.is_correction_level": "off", "actor.aux_loss_coef": 0.0}
"""Flags that no field of ours sets, and what they are unless `extra` names them."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What a step of a point is made of."""

    prompts: int
    samples: int
    mini_batch: int
    """Samples of an optimizer step."""
    prompts_per_epoch: int
    """Different prompts of an epoch; see fgrpo_bench.engines.openrlhf.epochs."""
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
    prompts = point.prompts_per_step
    if prompts % train.updates_per_batch:
        raise ValueError(
            f"{point.point_id} has {prompts} prompts a step, no multiple of "
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
        *extra_words(openrlhf_train(point)),
    ]


def extra_words(train: OpenRLHFTrain) -> list[str]:
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
