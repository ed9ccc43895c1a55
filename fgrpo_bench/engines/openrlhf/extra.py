"""Further flags of OpenRLHF that an experiment names itself: `experiment.train.extra`. Pure.

What a field of ours sets is refused with that field's name, and what would make a run that is not
what it says with the reason. Whether the installed OpenRLHF knows a flag says
fgrpo_bench.engines.openrlhf.flags.
"""

from __future__ import annotations

from fgrpo_bench.engines.openrlhf.arguments import OPEN, openrlhf_train
from fgrpo_bench.specs import SweepPoint

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
        is_of_clip = name.startswith("algo.advantage.is_correction_") or name == "actor.dual_clip"
        objective = point.algorithm.objective
        if objective != "clip" and is_of_clip:
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
