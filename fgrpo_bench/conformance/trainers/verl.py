"""verl's registry of estimators, and the filter of its replay buffer (verl 0.9.1)."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.v1 import replay_buffer

import fgrpo_bench.integrations.verl as ours
from fgrpo_bench.conformance.check import Estimator
from fgrpo_bench.conformance.trainers import Trainer, place, unique_settings
from fgrpo_bench.conformance.vectors import Floats, read_vectors

THEIRS = {"grpo": "grpo", "grpo_vectorized": "grpo", "rloo": "rloo", "rloo_vectorized": "rloo"}
"""By estimator, the advantage that it is to be."""
LINES = {
    "grpo": "/ (id2std[index[i]] + epsilon)",
    "grpo_vectorized": "/ (std_g[g] + epsilon)",
    "rloo": "scores[i] * response_num",
    "rloo_vectorized": "adv = ((c * scores",
}
"""By estimator, what is on the line of its formula."""
SINGLE = ("float32",)
"""What verl's rewards are."""
WHY = {
    "gae": "learns from a critic",
    "gdpo": "whitens over the batch (arXiv 2601.05242)",
    "gpg": "scales by the share of rewards of the batch that are not 0 (arXiv 2504.02546)",
    "grpo_passk": "the best rollout alone, less the second best (arXiv 2503.19595)",
    "opo": "weighs the baseline by length (arXiv 2505.23585)",
    "optimal_token_baseline": "reads log-probabilities",
    "reinforce_plus_plus": "whitens over the batch (arXiv 2501.03262)",
    "reinforce_plus_plus_baseline": "whitens over the batch (arXiv 2501.03262)",
    "remax": "reads the reward of a greedy rollout (arXiv 2310.10505)",
    "tir_optimal_token_baseline": "reads log-probabilities",
    "fgrpo_curverl": "carries a state from step to step",
    "fgrpo_ds_grpo": "reads log-probabilities",
    "fgrpo_unlikeliness": "reads log-probabilities",
}


def load() -> Trainer:
    estimators = []
    for name in ADV_ESTIMATOR_REGISTRY:
        advantage = THEIRS.get(name, name.removeprefix(ours.PREFIX))
        if name in WHY or (advantage == name and name not in THEIRS):
            why = WHY.get(name, "no vectors of it")
            estimators.append(Estimator(name, "", None, why=why))
        elif name in THEIRS:
            where = place(ADV_ESTIMATOR_REGISTRY[name], LINES[name])
            normed = partial(_theirs, name, True)
            estimators.append(Estimator(name, advantage, normed, dtypes=SINGLE, where=where))
            if advantage == "grpo":
                plain = f"{name}, norm_adv_by_std_in_grpo=False"
                unnormed = partial(_theirs, name, False)
                estimators.append(Estimator(plain, "dr_grpo", unnormed, dtypes=SINGLE))
        else:
            settings = unique_settings(read_vectors(advantage))
            function = partial(_ours, name)
            estimators.append(
                Estimator(name, advantage, function, settings, passes=True, dtypes=SINGLE)
            )
    return Trainer(f"verl {verl.__version__}", estimators, _parts)


def _theirs(name: str, by_std: bool, rewards: Floats) -> Any:
    named = {"norm_adv_by_std_in_grpo": by_std} if THEIRS[name] == "grpo" else {}
    return _call(name, rewards, **named)


def _ours(name: str, rewards: Floats, **parameters: Any) -> Any:
    return _call(name, rewards, config={"fgrpo": parameters})


def _call(name: str, rewards: Floats, **named: Any) -> Any:
    """Responses of one to three tokens, the reward at the last one."""
    n_rollouts, width = rewards.size, 3
    ends = torch.arange(n_rollouts) % width
    mask = (torch.arange(width) <= ends[:, None]).float()
    by_token = torch.zeros(n_rollouts, width, dtype=torch.from_numpy(rewards).dtype)
    by_token[torch.arange(n_rollouts), ends] = torch.from_numpy(rewards).flatten()
    uids = np.repeat(np.array([f"group {i}" for i in range(len(rewards))], object), len(rewards[0]))
    advantages, _ = ADV_ESTIMATOR_REGISTRY[name](
        token_level_rewards=by_token, response_mask=mask, index=uids, **named
    )
    return advantages[:, 0].reshape(rewards.shape)


def _parts(rewards: Floats) -> list[list[int]]:
    """The groups by uid that DAPO's filter leaves, of rollouts that end in any order."""
    store: dict[str, dict[str, Any]] = {
        f"{g}": {"is_prompt": True, "global_steps": 1, "status": "finished"}
        for g in range(len(rewards))
    }
    for row in np.random.default_rng(0).permutation(rewards.size).tolist():
        store[f"{row // len(rewards[0])}_{row % len(rewards[0])}_0"] = {}

    def scores(keys: list[str], **_: Any) -> dict[str, list[torch.Tensor]]:
        places = [tuple(map(int, key.split("_")[:2])) for key in keys]
        return {"rm_scores": [torch.tensor([rewards[place]]) for place in places]}

    def clear(keys: list[str], **_: Any) -> None:
        for key in keys:
            store.pop(key, None)

    queue, former = replay_buffer.tq, len(rewards)
    # Its queue is a server of its own; a dictionary has what the filter asks of it.
    replay_buffer.tq = SimpleNamespace(
        kv_list=lambda: {"train": store}, kv_batch_get=scores, kv_clear=clear
    )
    try:
        buffer = replay_buffer.ReplayBuffer(
            "sync", {}, None, "drop", {}, 0.0, lambda n: None, "reward", former, 1
        )
        mixed = int((np.ptp(rewards, axis=1) > 0).sum())
        batch, _ = buffer.sample(1, "train", mixed)
    finally:
        replay_buffer.tq = queue  # whatever happened: others of this process use it
    groups: dict[int, list[int]] = {}
    for key in batch.keys:
        g, i = map(int, key.split("_")[:2])
        groups.setdefault(g, []).append(g * len(rewards[0]) + i)
    return [*groups.values()]
