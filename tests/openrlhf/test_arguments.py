"""The golden command lines as the installed OpenRLHF reads them.

An option of OpenRLHF's parser is either passed always, or under a condition, or stands in LEFT_OUT
with the default that it must have and the reason: a new option or another default fails here.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import deepspeed
import pytest
import torch
from openrlhf.utils import get_strategy
from openrlhf.utils.config import hierarchize

from fgrpo_bench.engines.openrlhf.flags import openrlhf_parser, parse_flags

pytestmark = pytest.mark.openrlhf

GOLDEN = {
    path.stem: path.read_text().split()
    for path in sorted((Path(__file__).parents[1] / "golden/openrlhf").glob("*.txt"))
}
"""Written from the shipped configuration by tests/engines/openrlhf/test_arguments.py."""

CONDITIONAL = {
    "actor.gradient_checkpointing_enable": "profile.placement.gradient_checkpointing",
    "algo.dynamic_filtering_enable": "algorithm.dynamic_sampling",
    "algo.dynamic_filtering_range": "algorithm.dynamic_sampling",
    "algo.kl.use_loss": "algorithm.kl_coef > 0",
    "data.apply_chat_template": "prompt.chat_template",
    "ds.adam_offload": "profile.placement.adam_offload",
    "ds.enable_sleep": "profile.placement.colocate on GPUs",
    "ds.packing_samples": "profile.placement.packing",
    "eval.dataset": "eval_every > 0",
    "reward.overlong_buffer_len": "overlong_buffer_tokens",
    "reward.overlong_penalty_factor": "overlong_buffer_tokens",
    "rollout.max_tokens_per_gpu": "profile.placement.max_tokens_per_gpu",
    "train.agent_func_path": "passed by the driver: fgrpo_bench.engines.openrlhf.reward",
    "train.colocate_all": "profile.placement.colocate",
    "train.dynamic_batch_enable": "profile.placement.max_tokens_per_gpu",
    "train.max_tokens_per_gpu": "profile.placement.max_tokens_per_gpu",
    "vllm.enable_sleep": "profile.placement.colocate on GPUs",
    "vllm.enforce_eager": "profile.placement.vllm_enforce_eager",
}
"""Passed where this holds; without it the option's default means what the spec says."""

LEFT_OUT = {
    "group_norm has no critic": {
        "critic.num_nodes": 1,
        "critic.num_gpus_per_node": 8,
        "critic.value_clip": 0.5,
        "critic.freezing_steps": -1,  # the policy is trained from the first step on
        "critic.save_value_network": False,
        "critic.optim": "adam",
        "critic.muon.lr": 0.02,
        "critic.muon.momentum": 0.95,
        "critic.muon.ns_steps": 5,
        "critic.muon.nesterov": True,
        "critic.muon.no_nesterov": True,
        "critic.adam.lr": 9e-6,
        "critic.adam.betas": (0.9, 0.95),
        "critic.adam.eps": 1e-8,
        "critic.adam.weight_decay": 0.0,
        "critic.lr_scheduler": "cosine_with_min_lr",
        "critic.lr_warmup_ratio": 0.03,
        "critic.min_lr_ratio": 0.1,
        "critic.max_norm": 1.0,
        "critic.model_name_or_path": None,
        "train.colocate_critic_reward": False,
        "ds.value_head_prefix": "score",
    },
    "rewards come from the executor, not from a model or a server": {
        "reward.num_nodes": 1,
        "reward.num_gpus_per_node": 8,
        "reward.normalize_enable": False,
        "reward.model_name_or_path": None,
        "reward.remote_url": None,
        "reward.offload": False,
    },
    "the optimizer is AdamW": {
        "actor.muon.lr": 0.02,
        "actor.muon.momentum": 0.95,
        "actor.muon.ns_steps": 5,
        "actor.muon.nesterov": True,
        "actor.muon.no_nesterov": True,
    },
    "read only by a schedule with a smallest rate; this one is constant": {
        "actor.min_lr_ratio": 0.1,
    },
    "eps_clip_low_high stands in its place": {"actor.eps_clip": 0.2},
    "off, and only its absence says so": {
        "actor.dual_clip": None,
        "algo.advantage.no_std_norm": False,
        "algo.kl.target": None,  # a constant coefficient
        "algo.kl.unbiased_gradient": False,
        "reward.stop_properly_penalty_coef": None,
        "train.async_enable": False,
        "train.partial_rollout_enable": False,
        "train.enable_ema": False,
        "train.full_determinism_enable": False,  # seeds are the sampler's and the executor's
        "actor.freeze_visual_encoder": False,
        "ds.load_in_4bit": False,
        "ds.use_liger_kernel": False,
        "ds.deepcompile": False,
        "data.input_template": None,
        "data.prompt_probs": None,  # one dataset
        "use_ms": False,
    },
    "read only by what is off": {
        "algo.advantage.is_correction_mode": "mask",
        "algo.advantage.is_correction_gating": "ratio",
        "algo.advantage.is_correction_threshold": [0.5, 5.0],
        "algo.kl.horizon": 10000,
        "train.async_queue_size": 1,
        "train.ema_beta": 0.992,
        "actor.gradient_checkpointing_reentrant": False,
    },
    "LoRA: rank 0 trains all weights": {
        "ds.lora.rank": 0,
        "ds.lora.alpha": 16,
        "ds.lora.target_modules": "all-linear",
        "ds.lora.dropout": 0,
    },
    "text alone": {"data.image_key": "images", "data.max_images_per_prompt": 0},
    "gradients are summed in the number type of the weights": {"ds.grad_accum_dtype": None},
    "how the work is laid out, not what it computes": {
        "train.colocate_actor_ref": False,
        "vllm.sync_with_ray": False,
        "ref.offload": False,
        "ds.zpg": 1,
        "ds.overlap_comm": False,
        "ds.experts_implementation": None,
        "ds.tensor_parallel_size": 1,
        "ds.ring_attn_size": 1,
        "ds.ring_attn_head_stride": 1,
        "data.disable_fast_tokenizer": False,
        "data.dataloader_num_workers": 0,
        "local_rank": -1,
    },
    "checkpoints and their rotation are the driver's": {
        "ckpt.save_hf": False,
        "ckpt.disable_ds": False,
        "ckpt.max_mem": float("inf"),
        "ds.use_universal_ckpt": False,
    },
    "metrics go to the stage's own file": {
        "logger.wandb.key": None,
        "logger.wandb.org": None,
        "logger.wandb.group": None,
        "logger.wandb.project": "openrlhf_train_ppo",
        "logger.tensorboard_dir": None,
    },
}
"""Reason, and the defaults that these options must have."""
DATED = {"logger.wandb.run_name"}
"""Left out as well; its default is the time of day."""


EXTRA = {
    "-lora": {"ds.lora.rank", "ds.lora.alpha"},
    "-rollout-correction": {
        f"algo.advantage.is_correction_{e}" for e in ("mode", "gating", "threshold")
    },
}
"""By the end of a golden command line's name: what it has beyond."""


def extra(name: str) -> set[str]:
    return {flag for end, flags in EXTRA.items() if name.endswith(end) for flag in flags}


def words(name: str) -> list[str]:
    """What OpenRLHF gets of a golden command line."""
    return [word for i, word in enumerate(GOLDEN[name]) if not _is_ours(GOLDEN[name], i)]


def _is_ours(line: list[str], i: int) -> bool:
    return line[i].startswith("--fgrpo.") or (i > 0 and line[i - 1].startswith("--fgrpo."))


def options(line: list[str]) -> set[str]:
    return {word.removeprefix("--") for word in line if word.startswith("--")}


def known_flags() -> set[str]:
    return set(openrlhf_parser()._option_string_actions)


def left_out() -> dict[str, object]:
    return {name: value for names in LEFT_OUT.values() for name, value in names.items()}


def test_the_golden_command_lines_are_there() -> None:
    assert len(GOLDEN) == 10


@pytest.mark.parametrize("name", GOLDEN)
def test_every_option_of_a_golden_command_line_is_known_to_the_parser(name: str) -> None:
    assert {f"--{option}" for option in options(words(name))} <= known_flags()
    parse_flags(words(name))


@pytest.mark.parametrize("name", GOLDEN)
def test_nothing_is_left_to_a_default_that_nobody_has_looked_at(name: str) -> None:
    known = {flag.removeprefix("--") for flag in known_flags()} - {"-h", "help"}
    passed = options(words(name)) - extra(name)
    assert extra(name) <= left_out().keys() & options(words(name))
    looked_at = left_out().keys() | CONDITIONAL.keys() | DATED
    assert not passed & (left_out().keys() | DATED)
    assert known - passed - looked_at == set(), "say in LEFT_OUT why they are not passed"
    assert looked_at - known == set(), "this OpenRLHF has them no more"


def test_what_is_left_out_has_the_default_that_was_looked_at() -> None:
    defaults = {
        action.option_strings[-1].removeprefix("--"): action.default
        for action in openrlhf_parser()._actions
    }
    assert {name: defaults[name] for name in left_out()} == left_out()
    switches = {name for name in CONDITIONAL if name.endswith(("enable", "use_loss"))}
    assert not any(defaults[name] for name in switches)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_parser_reads_the_values_that_are_meant(name: str) -> None:
    args = parse_flags(words(name))
    low_lr = name.endswith("-lowlr")
    meant = {
        "rollout.batch_size": 256,
        "rollout.n_samples_per_prompt": 8,
        "train.batch_size": 64 * 8,
        "train.max_epochs": 1,
        "train.num_episodes": 10,
        "rollout.max_new_tokens": 4096 if name.startswith("qwen3") else 8192,
        "rollout.temperature": 1.0,
        "rollout.top_p": 1.0,
        "actor.adam.lr": pytest.approx(6.79e-7 if low_lr else 1e-6, rel=1e-3),
        "actor.adam.betas": [0.9, 0.999],
        "actor.adam.eps": 1e-8,
        "actor.adam.weight_decay": 0.01,
        "actor.max_norm": 1.0,
        "actor.lr_scheduler": "constant_with_warmup",
        "actor.eps_clip_low_high": {"dapo": [0.2, 0.28], "cispo": [1.0, 5.0]}.get(
            name.split("-")[-1], [0.2, 0.2]
        ),
        "actor.loss_agg_mode": "token-mean",
        "actor.entropy_coef": 1e-3 if name.endswith("-entropy") else 0.0,
        "algo.kl.init_coef": 1e-3 if name.endswith("-kl") else 0.0,
        "algo.kl.use_loss": name.endswith("-kl"),
        "algo.advantage.estimator": "group_norm",
        "algo.advantage.is_correction_level": "token" if name.endswith("-correction") else "off",
        "ds.lora.rank": 16 if name.endswith("-lora") else 0,
        "algo.dynamic_filtering_enable": False,
        "reward.overlong_buffer_len": None,
        "reward.clip_range": [-10.0, 10.0],
        "train.seed": 11,
        "eval.steps": 25,
        "eval.n_samples_per_prompt": 64,
        "eval.temperature": 1.0,
        "ckpt.load_enable": True,
    }
    assert {option: args[option] for option in meant} == meant


@pytest.mark.parametrize("name", GOLDEN)
def test_the_learning_rate_is_constant_from_the_16th_step_on(name, monkeypatch) -> None:
    """The optimizer and the scheduler are made by OpenRLHF's own strategy; only DeepSpeed, which
    would start processes, is left out."""
    args = hierarchize(SimpleNamespace(**parse_flags(words(name))))
    updates = (  # fgrpo_bench.engines.openrlhf.trainer.prepare_prompts
        int(GOLDEN[name][GOLDEN[name].index("--fgrpo.prompts_per_epoch") + 1])
        * args.rollout.n_samples_per_prompt
        // args.train.batch_size
        * args.train.num_episodes
        * args.train.max_epochs
    )
    assert updates == 10 * 153 * 4
    made = {}

    def initialize(*, model, model_parameters, lr_scheduler, config, **_):
        chosen = config["optimizer"]
        assert chosen["type"] == "AdamW" and config["gradient_clipping"] == 1.0
        made["optimizer"] = torch.optim.AdamW(model_parameters, **chosen["params"])
        return model, made["optimizer"], None, lr_scheduler(made["optimizer"])

    monkeypatch.setattr(deepspeed, "initialize", initialize)
    settings = {
        "optim": args.actor.optim,
        "adam": vars(args.actor.adam),
        "lr_scheduler": args.actor.lr_scheduler,
        "lr_warmup_ratio": args.actor.lr_warmup_ratio,
        "min_lr_ratio": args.actor.min_lr_ratio,
        "max_norm": args.actor.max_norm,
        "scheduler_steps": updates,
    }
    model = torch.nn.Linear(2, 2)
    _, optimizer, scheduler = get_strategy(args)._ds_init_train_model(model, settings)
    rates = []
    for _ in range(updates):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    peak = 6.79e-7 if name.endswith("-lowlr") else 1e-6
    wanted = {1: 0.0, 2: peak / 60, 60: peak * 59 / 60, 61: peak, 62: peak, updates: peak}
    assert {update: rates[update - 1] for update in wanted} == pytest.approx(wanted, rel=1e-3)
    (group,) = {tuple(g["betas"]) for g in optimizer.param_groups}
    assert group == (0.9, 0.999)
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0.0]  # the last: biases
