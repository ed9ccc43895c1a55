"""SkyRL's registry and `compute_advantages_and_returns` give the advantages of the table."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from skyrl.backends.skyrl_train.training_batch import (
    TrainingInputBatch,
    pad_training_input_batch,
)
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry
from skyrl.train.trainer import RayPPOTrainer

from fgrpo_bench.integrations.skyrl import register
from fgrpo_bench.objectives.advantages import group_advantages

REWARDS = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]])


@pytest.fixture
def name():
    yield "focal"
    AdvantageEstimatorRegistry.unregister("focal")


def batch():
    """All rollouts, shuffled, the reward at the last of one to three tokens, and two that SkyRL
    adds to fill it."""
    order = np.random.default_rng(0).permutation(REWARDS.numel())
    ends = torch.from_numpy(order % 3)
    mask = (torch.arange(3) <= ends[:, None]).int()
    rewards = torch.zeros(len(order), 3)
    rewards[torch.arange(len(order)), ends] = REWARDS.flatten()[order]
    made = TrainingInputBatch(
        {"rewards": rewards, "response_mask": mask, "loss_mask": mask, "values": None}
    )
    made.metadata = {"uids": [f"p{row // 4}" for row in order], "avg_response_length": 2.0}
    return order, pad_training_input_batch(made, 2)


@pytest.mark.parametrize(
    ("advantage", "parameters"), [("grpo", {}), ("pkpo", {"k": 3}), ("maxrl", {})]
)
@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_its_trainer_gets_our_advantages(advantage, parameters, gamma, name):
    register(name, advantage=advantage, focal_gamma=gamma, parameters=parameters, group_size=4)
    algorithm = SimpleNamespace(
        advantage_estimator=name, gamma=1.0, lambd=1.0, grpo_norm_by_std=True
    )
    config = SimpleNamespace(
        generator=SimpleNamespace(step_wise_trajectories=False),
        trainer=SimpleNamespace(algorithm=algorithm),
    )
    order, data = batch()
    trainer = SimpleNamespace(cfg=config, all_metrics={})
    made = RayPPOTrainer.compute_advantages_and_returns(trainer, data)
    wanted = group_advantages(REWARDS, gamma, advantage, parameters).flatten()[order]
    assert wanted.any()
    expected = torch.cat([wanted[:, None] * data["response_mask"][:-2], torch.zeros(2, 3)])
    torch.testing.assert_close(made["advantages"], expected)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"advantage": "grpoo"}, "unknown advantage 'grpoo'"),
        ({"advantage": "pkpo", "parameters": {"k": 5}}, "k=5 of pkpo"),
        ({"advantage": "ds_grpo"}, "ds_grpo reads the log-probabilities"),
        ({"focal_gamma": -1}, "focal_gamma=-1: must be a number from 0"),
        ({"group_size": 1}, "group size 1: must be at least 2"),
    ],
)
def test_settings_that_are_not_defined_are_refused_where_it_is_registered(settings, said):
    with pytest.raises(ValueError, match=said):
        register("focal", **{"group_size": 4} | settings)
