"""OpenRLHF's experience maker, its dynamic filter and its split by length (OpenRLHF 0.11.2)."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from types import SimpleNamespace as Settings
from typing import Any

import torch
from openrlhf.trainer.ppo_utils import samples_generator
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.kl_controller import FixedKLController

from fgrpo_bench.conformance.check import Estimator
from fgrpo_bench.conformance.trainers import Trainer, by_mean, place
from fgrpo_bench.conformance.vectors import Floats

THEIRS = {"group_norm": "grpo", "dr_grpo": "dr_grpo", "rloo": "rloo"}
LINES = {
    "group_norm": "rewards.std(-1, keepdim=True) + 1e-9",
    "dr_grpo": "rewards - rewards.mean(-1, keepdim=True)",
    "rloo": "rewards - baseline",
}
"""By estimator, what is on the line of its formula."""
WHY = {
    "gae": "learns from a critic",
    "reinforce": "whitens over the batch (arXiv 2501.03262)",
    "reinforce_baseline": "whitens over the batch (arXiv 2501.03262)",
    "flash_reinforce": "subtracts the mean over the batch",
}


def load() -> Trainer:
    single = ("float32",)  # what OpenRLHF makes of any reward
    where = partial(place, RemoteExperienceMaker.compute_advantages_and_returns)
    estimators = [
        *(
            Estimator(n, advantage, partial(_advantages, n), dtypes=single, where=where(LINES[n]))
            for n, advantage in THEIRS.items()
        ),
        *(Estimator(name, "", None, why=why) for name, why in WHY.items()),
    ]
    return Trainer(f"OpenRLHF {version('openrlhf')}", estimators, _parts)


def _maker(estimator: str, group_size: int) -> Any:
    """Without models, with OpenRLHF's defaults for what it reads; micro-batches by length."""
    advantage = Settings(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=False)
    arguments = Settings(
        algo=Settings(advantage=advantage, dynamic_filtering_range=(0.0, 1.0)),
        actor=Settings(num_nodes=1, num_gpus_per_node=1),
        ds=Settings(ring_attn_size=1, tensor_parallel_size=1),
        reward=Settings(clip_range=(-10, 10), overlong_buffer_len=None,
                        overlong_penalty_factor=1.0, stop_properly_penalty_coef=None),
        rollout=Settings(n_samples_per_prompt=group_size, max_tokens_per_gpu=40),
        train=Settings(dynamic_batch_enable=True),
    )  # fmt: skip
    tokenizer = Settings(pad_token_id=0)
    return RemoteExperienceMaker(
        None, None, None, None, FixedKLController(0.0), Settings(args=arguments), tokenizer
    )


def _rollout(row: int, reward: float) -> Any:
    """Of one to five tokens."""
    length = 1 + row * 3 % 5
    return Experience(
        sequences=torch.zeros(1, 1 + length, dtype=torch.long),
        attention_mask=torch.ones(1, 1 + length),
        action_mask=torch.ones(1, length),
        kl=torch.zeros(1, length),
        rewards=torch.tensor([reward], dtype=torch.float32),
        scores=torch.tensor([reward], dtype=torch.float32),
        total_length=torch.tensor([1 + length]),
        response_length=torch.tensor([length]),
        truncated=torch.zeros(1),
        prompts=[str(row)],
        info={},
    )


def _rollout_advantages(maker: Any, rollouts: list[Any]) -> list[float]:
    batch = maker.compute_advantages_and_returns(maker.split_rollout_samples(rollouts))
    values = [0.0] * len(rollouts)
    for experience in batch:
        for index, advantage in zip(experience.index, experience.advantages[:, 0], strict=True):
            values[index] = float(advantage)
    return values


def _advantages(estimator: str, rewards: Floats) -> Any:
    rollouts = [_rollout(row, reward) for row, reward in enumerate(rewards.ravel().tolist())]
    values = _rollout_advantages(_maker(estimator, rewards.shape[1]), rollouts)
    return torch.tensor(values).reshape(rewards.shape)


def _parts(rewards: Floats) -> list[list[int]]:
    """The groups that the estimator sees behind filter and split; it is given squares of places,
    so that the means of its groups say who is in them."""
    n_groups, size = rewards.shape
    maker = _maker("dr_grpo", size)

    class FilteringSampler(samples_generator.SamplesGenerator):  # type: ignore[misc]
        def __init__(self) -> None:
            self.args = maker.args

        def _dispatch_prompts_to_vllm(self, prompts: Any, *_: Any, **__: Any) -> list[Any]:
            return [[g * size + i for i in range(size)] for g in prompts]

        def _process_response_into_experience(self, row: int, **_: Any) -> Any:
            return _rollout(row, float(rewards.flat[row]))

    ray = samples_generator.ray
    # Rollouts are there already, so that nothing has to be waited for in another process.
    samples_generator.ray = Settings(get=lambda ref: ref, wait=lambda refs, **_: _first(refs))
    try:
        prompts = iter([("", [g], [""], [None]) for g in range(n_groups)])
        kept, *_ = FilteringSampler()._generate_vllm(prompts, n_groups, True)
    finally:
        samples_generator.ray = ray  # whatever happened: others of this process use it
    rows = [int(rollout.prompts[0]) for rollout in kept]
    distinct = [row**2 / 100 for row in rows]
    again = [_rollout(row, reward) for row, reward in zip(rows, distinct, strict=True)]
    parts = by_mean(distinct, _rollout_advantages(maker, again))
    return [[rows[place] for place in part] for part in parts]


def _first(refs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The last one that was sent is ready first."""
    return refs[-1:], refs[:-1]
