"""Hand-made rollouts as OpenRLHF hands them to its experience maker. Needs OpenRLHF."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.kl_controller import FixedKLController
from torch import Tensor

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.engines.openrlhf.labels import dispatch, make_label


def maker_arguments(
    gamma: float,
    *,
    group_size: int = 4,
    overlong: int | None = None,
    advantage: str = "grpo",
    parameters: dict[str, Any] | None = None,
) -> Any:
    """What an experience maker reads of OpenRLHF's arguments; overlong: length of DAPO's buffer."""
    estimator = SimpleNamespace(estimator="group_norm", gamma=1.0, lambd=1.0, no_std_norm=False)
    return SimpleNamespace(
        algo=SimpleNamespace(
            advantage=estimator, kl=SimpleNamespace(init_coef=0.0, use_loss=False)
        ),
        rollout=SimpleNamespace(n_samples_per_prompt=group_size, max_new_tokens=5),
        reward=SimpleNamespace(
            clip_range=(-10, 10),
            overlong_buffer_len=overlong,
            overlong_penalty_factor=1.0,
            stop_properly_penalty_coef=None,
        ),
        data=SimpleNamespace(max_len=16),
        fgrpo=SimpleNamespace(
            focal_gamma=gamma, advantage=advantage, advantage_parameters=parameters or {}
        ),
    )


def micro_batches(
    scores: Sequence[float],
    order: Sequence[int],
    *,
    mask: Tensor | None = None,
    lengths: Sequence[int] | None = None,
    log_probs: Tensor | None = None,
    size: int = 3,
) -> list[Experience]:
    """Micro-batches of `size` samples of a batch, in the order given.

    scores: of the batch in its own order. mask: actions of its samples [samples, actions]; None is
    five each. lengths: of the responses, as length penalties see them.
    log_probs: of the actions, [samples, actions].
    """
    mask = torch.ones(len(scores), 5) if mask is None else mask
    lengths = mask.sum(1).int().tolist() if lengths is None else lengths
    out = []
    for start in range(0, len(order), size):
        index = list(order[start : start + size])
        rewards = torch.tensor([scores[i] for i in index])
        out.append(
            Experience(
                sequences=torch.zeros(len(index), mask.shape[1] + 3, dtype=torch.long),
                attention_mask=torch.ones(len(index), mask.shape[1] + 3),
                action_mask=mask[index],
                action_log_probs=None if log_probs is None else log_probs[index],
                rewards=rewards.clone(),
                scores=rewards.clone(),
                kl=torch.zeros(len(index), mask.shape[1]),
                index=index,
                info={"reward": rewards.clone()},
                response_length=torch.tensor([lengths[i] for i in index]),
                truncated=torch.zeros(len(index)),
                prompts=[f"prompt {i // 4}" for i in index],
                labels=[label(i // 4) for i in index],
            )
        )
    return out


def label(group: int) -> str:
    """Of a sample of a group, as it is dispatched."""
    problem = Problem(
        benchmark="made", problem_id=f"made-{group}", prompt="", target="1", grader="countdown"
    )
    return dispatch(make_label(problem), stream=0, position=group)


def advantages(maker: Any, args: Any, batch: list[Experience]) -> Tensor:
    """[samples] in the batch's own order; every action of a sample must have the same one."""
    return made_by(make(maker, args), batch)


def make(maker: Any, args: Any) -> Any:
    """An experience maker without models."""
    return maker(None, None, None, None, FixedKLController(0.0), SimpleNamespace(args=args), None)


def made_by(maker: Any, batch: list[Experience]) -> Tensor:
    """`advantages` of an experience maker that there is."""
    made = maker.compute_advantages_and_returns(batch)
    out = torch.full((sum(len(e.index) for e in batch),), float("nan"))
    for experience in made:
        first = experience.advantages[:, :1]
        assert ((experience.advantages == first) | (experience.action_mask == 0)).all()
        out[torch.tensor(experience.index)] = first[:, 0]
    return out
