"""SkyRL's registry of estimators, and its filter of sampled groups (SkyRL 0.3.0)."""

from __future__ import annotations

import sys
import typing
from functools import partial
from typing import Any

import numpy as np
import torch

if sys.version_info < (3, 12):
    import typing_extensions

    # pydantic takes no other there, and a model of skyrl 0.3.0 has a field of typing's.
    typing.TypedDict = typing_extensions.TypedDict

import skyrl
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry
from skyrl.train.utils.trainer_utils import handle_dynamic_sampling

from fgrpo_bench.conformance.check import Estimator
from fgrpo_bench.conformance.trainers import Trainer, place
from fgrpo_bench.conformance.vectors import Floats

THEIRS = {"grpo": "grpo", "rloo": "rloo", "maxrl": "maxrl_coded"}
"""By estimator, the advantage that it is to be."""
SINGLE = ("float32",)
WHY = {"gae": "learns from a critic", "reinforce++": "whitens over the batch (arXiv 2501.03262)"}
LINES = {"grpo": "/ (id2std[index[i]] + epsilon)", "maxrl": "/ (id2mean[index[i]] + epsilon)"}


def load() -> Trainer:
    estimators = []
    for name in (*THEIRS, *WHY):
        if name in WHY:
            estimators.append(Estimator(name, "", None, why=WHY[name]))
            continue
        where = place(AdvantageEstimatorRegistry.get(name), LINES.get(name, "scores[i] = "))
        call = partial(_call, name, True)
        estimators.append(Estimator(name, THEIRS[name], call, dtypes=SINGLE, where=where))
    plain = partial(_call, "grpo", False)
    estimators.append(Estimator("grpo, grpo_norm_by_std=false", "dr_grpo", plain, dtypes=SINGLE))
    return Trainer(f"SkyRL {skyrl.__version__}", estimators, _parts)


def _call(name: str, by_std: bool, rewards: Floats) -> Any:
    """Responses of one to three tokens, the reward at the last one."""
    n_rollouts, width = rewards.size, 3
    ends = torch.arange(n_rollouts) % width
    mask = (torch.arange(width) <= ends[:, None]).float()
    by_token = torch.zeros(n_rollouts, width, dtype=torch.from_numpy(rewards).dtype)
    by_token[torch.arange(n_rollouts), ends] = torch.from_numpy(rewards).flatten()
    uids = np.repeat(np.array([f"group {i}" for i in range(len(rewards))]), len(rewards[0]))
    advantages, _ = AdvantageEstimatorRegistry.get(name)(
        token_level_rewards=by_token, response_mask=mask, index=uids, grpo_norm_by_std=by_std
    )
    return advantages[:, 0].reshape(rewards.shape)


def _parts(rewards: Floats) -> list[list[int]]:
    """The groups by uid that dynamic sampling leaves, of rollouts in any order."""
    size = rewards.shape[1]
    order = np.random.default_rng(0).permutation(rewards.size)
    sampled: Any = {
        "prompt_token_ids": [[int(row)] for row in order],
        "response_ids": [[0] for _ in order],
        "rewards": [float(rewards.flat[row]) for row in order],
        "loss_masks": [[1] for _ in order],
        "stop_reasons": None,
        "rollout_logprobs": None,
        "rollout_metrics": None,
    }
    mixed = int((np.ptp(rewards, axis=1) > 0).sum())
    settings = {"type": "filter", "train_batch_size": mixed, "n_samples_per_prompt": size}
    uids = [str(row // size) for row in order]
    kept, kept_uids, *_ = handle_dynamic_sampling(
        sampled,
        uids,
        settings,
        {"sample_batch_count": 1},
    )
    groups: dict[str, list[int]] = {}
    for (row,), uid in zip(kept["prompt_token_ids"], kept_uids, strict=True):
        groups.setdefault(uid, []).append(row)
    return [*groups.values()]
